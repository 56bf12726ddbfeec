"""Decoders through `explain`: the receptive field, the first token, and what a target of several pieces is."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import transformers as hf

import attnx
from attnx.errors import ChoiceError
from attnx.methods import METHODS
from tests import zoo

PROMPT = "the author talked to Sara about his book"


def test_a_decoder_is_held_against_its_receptive_field_unless_told_not_to():
    model, tokenizer = zoo.causal_lm(), zoo.bytelevel_tokenizer()
    attention = attnx.capture(model, **tokenizer(PROMPT, return_tensors="pt"))
    default = attnx.explain(model, tokenizer, PROMPT)
    assert default.provenance["settings"]["normalize"] == "prefix"
    off = attnx.explain(model, tokenizer, PROMPT, normalize=None)
    assert off.provenance["settings"]["normalize"] is None
    column = attnx.explain(model, tokenizer, PROMPT, normalize="column", drop_sink=True)
    assert column.provenance["settings"]["drop_sink"] is True
    for name in ("raw", "rollout", "flow"):
        method = getattr(attnx, name)
        expected = method(attention, position=-1, normalize="receptive_field")
        np.testing.assert_allclose(default[name], expected, atol=1e-5)
        np.testing.assert_allclose(off[name], method(attention, position=-1), atol=1e-5)
        expected = method(attention, position=-1, normalize="column", drop_sink=True)
        np.testing.assert_allclose(column[name], expected, atol=1e-5)
    assert not np.allclose(default["rollout"], off["rollout"], atol=1e-3)


def test_a_word_means_in_explain_what_it_means_in_rollout():
    model, tokenizer = zoo.causal_lm(), zoo.bytelevel_tokenizer()
    attention = attnx.capture(model, **tokenizer(PROMPT, return_tensors="pt"))
    for normalize in ("receptive_field", "prefix", "column"):
        one = attnx.explain(model, tokenizer, PROMPT, position=3, normalize=normalize)
        assert one.provenance["settings"]["normalize"] == normalize
        expected = attnx.rollout(attention, position=3, normalize=normalize)
        np.testing.assert_allclose(one["rollout"], expected, atol=1e-5)


def test_words_behind_the_explained_position_do_not_change_its_explanation():
    model, tokenizer = zoo.causal_lm(), zoo.bytelevel_tokenizer()
    ids = tokenizer(PROMPT, return_tensors="pt")["input_ids"]
    whole = attnx.explain(model, tokenizer, {"input_ids": ids}, position=4, head="all")
    ended = attnx.explain(model, tokenizer, {"input_ids": ids[:, :5]}, head="all")
    for name in whole.methods:
        np.testing.assert_allclose(whole[name][..., :5], ended[name], atol=1e-5)
        assert (whole[name][..., 5:] == 0).all()


def test_saturation_is_that_of_the_flow_before_it_is_normalised():
    model, tokenizer = zoo.causal_lm(), zoo.bytelevel_tokenizer()
    plain, fair = (attnx.explain(model, tokenizer, PROMPT, normalize=one) for one in (None, "receptive_field"))
    np.testing.assert_allclose(
        fair.attributions["flow"].diagnostics["saturation"], plain.attributions["flow"].diagnostics["saturation"]
    )
    one = attnx.explain(model, tokenizer, PROMPT, layer=3, head="all")
    assert len(one.attributions["flow"].diagnostics["saturation"]) == len(one.sink) == 1


def test_a_decoder_reports_the_share_of_its_first_token(tmp_path):
    model, tokenizer = zoo.causal_lm(), zoo.bytelevel_tokenizer()
    attention = attnx.capture(model, **tokenizer(PROMPT, return_tensors="pt"))
    one = attnx.explain(model, tokenizer, PROMPT)
    np.testing.assert_allclose(one.sink, attention.weights[:, :, 1:, 0].mean((1, 2)), atol=1e-6)
    one.save(tmp_path / "x.safetensors")
    assert attnx.Explanation.load(tmp_path / "x.safetensors").sink == one.sink
    assert attnx.explain(zoo.classifier(), zoo.wordpiece_tokenizer(), "a witty film").sink is None


@pytest.mark.parametrize("normalize", ["auto", "receptive_field", "column", None])
def test_a_plug_in_without_a_closed_form_is_held_against_its_reach_like_rollout(normalize):
    METHODS.add("rolled", replace(METHODS["rollout"], name="rolled", everywhere=None))
    try:
        asked = {"methods": ["rolled", "rollout"], "normalize": normalize}
        one = attnx.explain(zoo.causal_lm(), zoo.bytelevel_tokenizer(), PROMPT, **asked)
        np.testing.assert_allclose(one["rolled"], one["rollout"], atol=1e-9)
    finally:
        METHODS.remove("rolled")


def test_a_normalisation_that_does_not_exist_is_named():
    with pytest.raises(ChoiceError, match="'on' is not known; there are: auto, receptive_field"):
        attnx.explain(zoo.causal_lm(), zoo.bytelevel_tokenizer(), PROMPT, normalize="on")


def test_of_a_target_in_pieces_the_first_is_explained_and_told():
    model, tokenizer = zoo.causal_lm(), zoo.bytelevel_tokenizer()
    first, *others = tokenizer("unaffordable")["input_ids"]
    one = attnx.explain(model, tokenizer, "the key to", methods="rollout", target="unaffordable")
    assert others
    assert one.prediction.index == first
    assert "the first is explained" in one.notes[0]
    by_id = attnx.explain(model, tokenizer, "the key to", methods="rollout", target=first, position=1)
    assert by_id.prediction.index == first
    assert not any("the first is explained" in note for note in by_id.notes)
    every = attnx.explain_generation(model, tokenizer, "the key to", continuation="unaffordable", methods="rollout")
    assert "".join(every.generated).endswith("unaffordable")


def test_a_model_that_continues_the_text_gets_no_end_token_behind_it():
    """A classifier on a decoder reads the end token that its tokenizer adds; what follows the end is no next token."""
    tokenizer = zoo.framing_tokenizer()
    sizes = {"vocab_size": len(tokenizer), "n_embd": 32, "n_layer": 2, "n_head": 4, "pad_token_id": 1}
    torch.manual_seed(0)
    config = hf.GPT2Config(**sizes, eos_token_id=tokenizer.eos_token_id)
    writer, classifier = hf.GPT2LMHeadModel(config).eval(), hf.GPT2ForSequenceClassification(config).eval()
    e = attnx.explain(writer, tokenizer, "the key", methods="raw")
    assert [one.token for one in e.positions] == ["<|start|>", *tokenizer.tokenize("the key")]
    assert any("end token" in note for note in e.notes)
    assert attnx.explain(classifier, tokenizer, "the key", methods="raw").positions[-1].token == "<|endoftext|>"
    g = attnx.explain_generation(writer, tokenizer, "the key", continuation=" is", methods="raw")
    assert "".join(g.generated) == " is"
    told = attnx.explain(writer, tokenizer, "the key<|endoftext|>", methods="raw")
    assert told.positions[-1].token == "<|endoftext|>"


def test_a_classifier_that_pools_behind_its_logits_is_not_told_which_to_keep():
    """BioGPT's classifier has the argument, and finds no last token among what it keeps."""
    torch.manual_seed(0)
    tokenizer = zoo.wordpiece_tokenizer()
    sizes = {"vocab_size": len(tokenizer), "num_labels": 3, "max_position_embeddings": 64, "pad_token_id": 0}
    model = hf.BioGptForSequenceClassification(hf.BioGptConfig(**sizes, **zoo.WIDTH)).eval()
    e = attnx.explain(model, tokenizer, "the key to the cabinets", references=("lrp", "blankout"))
    with torch.no_grad():
        inputs = tokenizer("the key to the cabinets", return_tensors="pt")
        logits = model(inputs["input_ids"], attention_mask=inputs["attention_mask"]).logits[0]
    np.testing.assert_allclose(e.prediction.logits, logits, atol=1e-5)
