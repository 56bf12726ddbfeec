"""Value path and whole path through `explain`: every kind of head, batches, targets, and accounts that add up."""

import copy

import numpy as np
import pytest
import torch
import transformers as hf
from PIL import Image

import attnx
from attnx.adapters import adapter_for
from attnx.attribution import REFERENCES, cases
from attnx.attribution.lrp import attn_lrp, lrp, lrp_by_layer
from attnx.errors import ChoiceError
from tests import zoo
from tests.attribution.linear_model import bag

TEXTS = ["a witty film", "the key to the cabinets is on the dull table", "film", "gorgeous unaffordable movie"]
PATHS = ("lrp", "attn_lrp")


def asked(model, tokenizer, texts=TEXTS, **options):
    prepare = adapter_for(model).prepare
    return cases(model, tokenizer, [prepare(model, tokenizer, text) for text in texts], **options)


def total(scored):
    """Positions, sink and biases."""
    return scored.scores.sum() + scored.facts.get("sink", 0) + scored.facts["biases"]


def margin(logits, index):
    return float(logits[index] - np.delete(logits, index).mean())


def with_head(name):
    """A classifier of the family with random biases."""
    auto = hf.AutoModelForImageClassification if name in zoo.IMAGE else hf.AutoModelForSequenceClassification
    config = copy.deepcopy(zoo.model(name).config)
    config.num_labels, config.pad_token_id, config.architectures = 3, 0, []
    if name not in zoo.IMAGE:
        config.vocab_size = len(zoo.wordpiece_tokenizer())
    torch.manual_seed(0)
    if name == "t5":
        pytest.skip("an encoder–decoder; its encoder has no head")
    try:
        model = auto.from_config(config).eval()
    except ValueError:
        pytest.skip(f"transformers has no classifier of {name}")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter)) if parameter.ndim == 1 else parameter.mul_(3)
    return model


def given(name):
    """Three inputs of different length, or three pictures, with their processor."""
    if name not in zoo.IMAGE:
        return TEXTS[:3], zoo.wordpiece_tokenizer()
    random = np.random.default_rng(0)
    pictures = [Image.fromarray(random.integers(0, 255, (32, 32, 3), dtype=np.uint8)) for _ in range(3)]
    return pictures, hf.ViTImageProcessor(size={"height": 32, "width": 32})


@pytest.mark.parametrize("name", zoo.FAMILIES)
def test_every_family_adds_up_in_batches_as_alone(name):
    model = with_head(name)
    inputs, processor = given(name)
    together = asked(model, processor, inputs, position=-1 if name in zoo.IMAGE else None)
    found = lrp(model, processor, together)
    for one, case in zip(found, together, strict=True):
        assert one.scores.shape == (len(case.prepared.positions),)
        assert total(one) == pytest.approx(one.facts["value"], abs=1e-5 * (1 + np.abs(one.scores).sum()))
        (alone,) = lrp(model, processor, [case])
        np.testing.assert_allclose(alone.scores, one.scores, atol=1e-4 * (1 + np.abs(one.scores).max()))
        assert alone.facts["biases"] == pytest.approx(one.facts["biases"], abs=1e-3)
    assert all(np.isfinite(one.scores).all() for one in attn_lrp(model, processor, together))


def test_the_value_is_the_margin_of_the_target():
    e = attnx.explain(zoo.classifier(), zoo.wordpiece_tokenizer(), TEXTS[1], references=PATHS)
    expected = margin(np.array(e.prediction.logits), e.prediction.index)
    for name in PATHS:
        assert e.attributions[name].diagnostics["value"] == pytest.approx(expected, rel=1e-5)
        assert e.attributions[name].signed


def test_a_pair_explains_the_difference_of_two_logits():
    model, tokenizer = zoo.classifier(), zoo.wordpiece_tokenizer()
    e = attnx.explain(model, tokenizer, TEXTS[1], target=("NEGATIVE", "POSITIVE"), references="lrp")
    logits = e.prediction.logits
    assert e.attributions["lrp"].diagnostics["value"] == pytest.approx(logits[0] - logits[1], rel=1e-5)
    other = attnx.explain(model, tokenizer, TEXTS[1], target=("POSITIVE", "NEGATIVE"), references="lrp")
    np.testing.assert_allclose(e["lrp"], -other["lrp"], rtol=1e-4, atol=1e-6)


def test_masked_language_models_and_token_classifiers_are_explained_where_they_answer():
    tokenizer = zoo.wordpiece_tokenizer()
    (filled,) = lrp(zoo.masked_lm(), tokenizer, asked(zoo.masked_lm(), tokenizer, ["his [MASK] film"]))
    assert total(filled) == pytest.approx(filled.facts["value"], abs=1e-4)
    torch.manual_seed(0)
    tagger = hf.BertForTokenClassification(zoo.classifier().config).eval()
    one, other = (lrp(tagger, tokenizer, asked(tagger, tokenizer, [TEXTS[1]], position=place))[0] for place in (1, 4))
    assert not np.allclose(one.scores, other.scores)


def test_a_decoder_keeps_its_sink_apart_and_still_adds_up():
    model, tokenizer = zoo.causal_lm(), zoo.bytelevel_tokenizer()
    several = asked(model, tokenizer)
    apart, inside = lrp(model, tokenizer, several), lrp(model, tokenizer, several, sink=False)
    for one, other in zip(apart, inside, strict=True):
        assert "sink" not in other.facts
        assert total(one) == pytest.approx(total(other), abs=1e-4)
        np.testing.assert_allclose(one.scores[1:], other.scores[1:], atol=1e-6)
        assert one.scores[0] + one.facts["sink"] == pytest.approx(other.scores[0], abs=1e-5)
    assert any(abs(one.facts["sink"]) > 1e-3 for one in apart)


def test_a_sink_asked_of_an_encoder_is_an_error():
    model, tokenizer = zoo.classifier(), zoo.wordpiece_tokenizer()
    with pytest.raises(ChoiceError, match="sees others"):
        lrp(model, tokenizer, asked(model, tokenizer), sink=True)


@pytest.mark.parametrize("path", PATHS)
def test_of_a_linear_model_both_paths_are_input_times_gradient(path):
    model, tokenizer = bag(), zoo.wordpiece_tokenizer()
    several = asked(model, tokenizer)
    plain = REFERENCES["input_x_gradient"](model, tokenizer, several)
    for one, other in zip(REFERENCES[path](model, tokenizer, several, score="logit"), plain, strict=True):
        np.testing.assert_allclose(one.scores, other.scores, rtol=1e-5, atol=1e-7)


def test_the_account_is_told_below_the_scores_and_on_record():
    model, tokenizer = attnx.load_demo()
    e = attnx.explain(model, tokenizer, "the keys to the cabinet", references=PATHS)
    told = e.to_markdown()
    assert "lrp: margin over the mean of all others +6.303 = positions +6.499, biases -0.195" in told
    assert "no sum is promised" in told
    assert e.top(1, "lrp")[0].text == "keys"
    record = {name: scores.diagnostics for name, scores in e.attributions.items()}
    assert record["attn_lrp"]["gap"] == pytest.approx(record["attn_lrp"]["value"] - e["attn_lrp"].sum(), abs=1e-9)


def test_level_by_level_the_score_is_held_by_positions_and_biases_above():
    model, tokenizer = copy.deepcopy(zoo.classifier()), zoo.wordpiece_tokenizer()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.zero_()
    several = asked(model, tokenizer)
    values = [one.facts["value"] for one in lrp(model, tokenizer, several)]
    for layers, case, value in zip(lrp_by_layer(model, tokenizer, several), several, values, strict=True):
        assert layers.shape == (3, len(case.prepared.positions))
        np.testing.assert_allclose(layers.sum(1), value, atol=1e-4)


def test_a_batch_of_a_model_that_has_positions_first_is_that_of_each_text():
    """XLNet on as many texts as they have tokens, which it must not mix up."""
    tokenizer = zoo.wordpiece_tokenizer()
    torch.manual_seed(0)
    sizes = {"d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 48}
    model = hf.XLNetForSequenceClassification(hf.XLNetConfig(vocab_size=len(tokenizer), num_labels=3, **sizes)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    words = ["the key is dull", "a film was dull", "witty key of key", "it is gorgeous the"]
    texts = [text for text in words * 6 if len(tokenizer(text)["input_ids"]) == 6][:6]
    assert len(texts) == 6
    several = asked(model, tokenizer, texts)
    for path in (lrp, attn_lrp, lrp_by_layer):
        together = [np.asarray(getattr(one, "scores", one)) for one in path(model, tokenizer, several)]
        alone = [path(model, tokenizer, [case])[0] for case in several]
        for one, other in zip(together, alone, strict=True):
            np.testing.assert_allclose(one, np.asarray(getattr(other, "scores", other)), rtol=1e-3, atol=1e-6)
            assert np.abs(one).max() > 1e-3


def embedded_by_lora():
    """A language model with an adapter on its embedding, and the same with the adapter merged."""
    peft = pytest.importorskip("peft", reason="peft is not installed")
    torch.manual_seed(0)
    sizes = zoo.WIDTH | zoo.GROUPED | {"vocab_size": len(zoo.bytelevel_tokenizer())}
    targets = ["embed_tokens", "q_proj", "o_proj"]
    model = peft.get_peft_model(
        hf.LlamaForCausalLM(hf.LlamaConfig(**sizes)).eval(), peft.LoraConfig(r=4, target_modules=targets)
    )
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_" in name:
                parameter.copy_(0.3 * torch.randn_like(parameter))
    return model.eval(), copy.deepcopy(model).merge_and_unload().eval()


@pytest.mark.parametrize("path", PATHS)
def test_what_an_adapter_adds_to_an_embedding_is_the_tokens(path):
    model, merged = embedded_by_lora()
    found, expected = (
        REFERENCES[path](one, zoo.bytelevel_tokenizer(), asked(one, zoo.bytelevel_tokenizer(), TEXTS[:1]))[0]
        for one in (model, merged)
    )
    np.testing.assert_allclose(found.scores, expected.scores, atol=1e-4 * np.abs(expected.scores).max())


@pytest.mark.skipif(not hasattr(hf, "Gemma4ForCausalLM"), reason="this transformers has no Gemma 4")
def test_per_layer_embeddings_are_the_tokens():
    """Of a model without biases nothing is left for them."""
    tokenizer = zoo.bytelevel_tokenizer()
    layers = {"num_hidden_layers": 2, "layer_types": ["sliding_attention", "full_attention"], "num_kv_shared_layers": 0}
    sizes = zoo.WIDTH | zoo.GROUPED | layers | {"head_dim": 8, "sliding_window": 4, "vocab_size": len(tokenizer)}
    second = {"hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": len(tokenizer)}
    torch.manual_seed(0)
    model = hf.Gemma4ForCausalLM(hf.Gemma4TextConfig(**sizes | second)).eval()
    with torch.no_grad():
        model.model.embed_tokens_per_layer.weight.normal_()
    (found,) = lrp(model, tokenizer, asked(model, tokenizer, TEXTS[:1]), sink=False)
    assert abs(found.facts["biases"]) < 1e-4 * np.abs(found.scores).sum()


def test_options_that_do_not_exist_are_refused():
    with pytest.raises(ChoiceError, match="option of attn_lrp 'sink' is not known"):
        attnx.explain(zoo.classifier(), zoo.wordpiece_tokenizer(), TEXTS[0], references={"attn_lrp": {"sink": True}})
