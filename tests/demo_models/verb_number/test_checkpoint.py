from __future__ import annotations

import json
from importlib.resources import files

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from attnx.demo_models import load_demo
from attnx.demo_models import verb_number_data as generator
from attnx.demo_models.verb_number import load, save
from attnx.demo_models.verb_number_data import generate
from attnx.errors import FileFormatError
from examples.training.verb_number import accuracies, evaluate

DEMO = files("attnx.demo_models") / "weights/verb_number"
NATURAL_FLOOR = 0.95
"""As the model card says."""


@pytest.fixture(scope="module")
def demo():
    return load_demo()


def test_the_demo_is_the_papers_model_in_float32(demo):
    model, tokenizer = demo
    config = model.config
    assert (config.num_hidden_layers, config.num_attention_heads, config.hidden_size) == (6, 8, 128)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert not model.training
    assert len(tokenizer) == config.vocab_size


def test_the_shipped_files_are_small_half_precision_and_no_pickle():
    names = {path.name for path in DEMO.iterdir()}
    assert names >= {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}
    assert names >= {"README.md", "training.json", "evaluation.json"}
    assert sum(path.stat().st_size for path in DEMO.iterdir()) < 8_000_000
    assert {tensor.dtype for tensor in load_file(DEMO / "model.safetensors").values()} == {torch.float16}
    assert not [name for name in names if name.endswith((".bin", ".pt", ".pkl"))]


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("the key to the cabinets", "singular"),
        ("the keys to the cabinet", "plural"),
        ("The author of the books", "singular"),
        ("the NNS of the NN", "plural"),
        ("the article on NNP large systems", "singular"),
    ],
)
def test_the_demo_agrees_with_the_subject(demo, text, label):
    model, tokenizer = demo
    logits = model(**tokenizer(text, return_tensors="pt")).logits
    assert model.config.id2label[int(logits.argmax())] == label


def test_the_demo_knows_every_word_of_the_generator_and_of_the_paper(demo):
    _, tokenizer = demo
    words = [
        *generator.words(),
        *["the", "key", "to", "the", "cabinets", "the", "article", "on", "NNP", "large", "systems"],
    ]
    assert tokenizer.unk_token not in tokenizer.tokenize(" ".join(words))


def test_every_word_of_the_vocabulary_is_one_token(demo):
    _, tokenizer = demo
    words = [word for word in tokenizer.get_vocab() if word not in tokenizer.all_special_tokens]
    assert [word for word in words if tokenizer.tokenize(word) != [word]] == []


@pytest.mark.slow
@pytest.mark.parametrize(("attractors", "floor"), [(0, 0.97), (1, 0.93), (2, 0.9)])
def test_the_demo_is_right_on_new_generated_sentences(demo, attractors, floor):
    (found,) = accuracies(*demo, [generate(400, seed=987, attractors=attractors)], ["generated"])
    assert found.share >= floor


def test_the_auto_classes_load_the_demo(demo):
    model, tokenizer = demo
    other = AutoModelForSequenceClassification.from_pretrained(str(DEMO)).float().eval()
    encoded = AutoTokenizer.from_pretrained(str(DEMO))("the key to John's cabinets", return_tensors="pt")
    assert torch.equal(encoded["input_ids"], tokenizer("the key to John's cabinets", return_tensors="pt")["input_ids"])
    torch.testing.assert_close(other(**encoded).logits, model(**encoded).logits)


def test_saving_and_loading_keeps_the_model(demo, tmp_path):
    model, tokenizer = demo
    save(model, tokenizer, tmp_path)
    again, words = load(tmp_path)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters(), strict=True))
    assert words.get_vocab() == tokenizer.get_vocab()
    assert json.loads((tmp_path / "tokenizer_config.json").read_text())["tokenizer_class"] == "PreTrainedTokenizerFast"


def test_a_directory_that_is_no_model_is_an_error(tmp_path):
    with pytest.raises(FileFormatError, match=r"config\.json is missing"):
        load(tmp_path)


def test_weights_of_another_shape_are_an_error(demo, tmp_path):
    save(*demo, tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 5}))
    with pytest.raises(FileFormatError, match="are not of a verb-number model"):
        load(tmp_path)


def test_loading_leaves_the_random_state():
    before = torch.get_rng_state()
    load_demo()
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.slow
def test_the_demo_reaches_the_cards_floor_on_held_out_natural_sentences(assets):
    linzen = assets / "linzen"
    attractors = [linzen / f"numpred.test.{count}.tsv.gz" for count in range(1, 6)]
    natural, wiki, *selected = evaluate(None, [linzen / "numpred.val.tsv.gz", linzen / "wiki.tsv.gz", *attractors])
    assert natural.total == 2000
    assert natural.share >= NATURAL_FLOOR
    assert wiki.share >= NATURAL_FLOOR
    assert len(selected) == 5
