"""An encoder–decoder is one chain over source and output, found by following the data; parts of it can be picked."""

import pytest
import torch
import transformers as hf

import attnx
from attnx.errors import CaptureError, ChoiceError
from attnx.hooks import capture_batch
from attnx.hooks.capture import capture
from tests import streams_zoo as zoo

KINDS = ("encoder", "encoder", *("self", "cross") * 3)


@pytest.mark.parametrize("name", zoo.FAMILIES)
def test_weights_of_every_stack_equal_eager(name):
    attention = capture(zoo.model(name), **zoo.inputs(name))
    assert attention.kinds == KINDS
    with torch.no_grad():
        eager = zoo.model(name, "eager")(**zoo.inputs(name), output_attentions=True, use_cache=False)
    expected = {"encoder": eager.encoder_attentions, "self": eager.decoder_attentions, "cross": eager.cross_attentions}
    for kind, layers in expected.items():
        for number, weights in zip(attention.layers_of_kind(kind), layers, strict=True):
            level = attention.layers[number - 1]
            seen = attention.weights[number - 1][:, level.query_slice, level.key_slice]
            torch.testing.assert_close(seen, weights[0], atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", ["t5", "bart"])
def test_source_and_output_of_one_length_are_told_apart(name):
    attention = capture(zoo.model(name), **zoo.inputs(name, 5, 5))
    assert attention.kinds == KINDS
    assert attention.sequences == {"source": slice(0, 5), "output": slice(5, 10)}


def test_kept_queries_and_keys_give_the_same_chain():
    model, inputs = zoo.model("bart"), zoo.inputs("bart")
    kept = capture(model, held=False, **inputs)
    assert not kept.whole
    found = attnx.rollout(kept)
    torch.testing.assert_close(found, attnx.rollout(capture(model, **inputs)), atol=1e-6, rtol=0)


def test_levels_have_names_and_one_count():
    attention = capture(zoo.model("t5"), **zoo.inputs("t5"))
    assert attention.layers_of_kind("cross") == (4, 6, 8)
    assert [attention.number(name) for name in ("encoder 1", "self 2", "cross 2", "cross", 3)] == [1, 5, 6, 8, 3]
    torch.testing.assert_close(attnx.raw(attention, layer="cross 2"), attnx.raw(attention, layer=6))
    with pytest.raises(ChoiceError, match="cross 1 to cross 3"):
        attnx.raw(attention, layer="cross 4")
    with pytest.raises(ChoiceError, match="encoder, self, cross"):
        attnx.raw(attention, layer="decoder 1")
    with pytest.raises(ChoiceError, match="one stack"):
        attnx.raw(torch.ones(1, 1, 1, 1), layer="cross")


def test_a_part_can_be_picked():
    model, inputs = zoo.model("bart"), zoo.inputs("bart")
    whole = capture(model, **inputs)
    own = capture(model, module="self", **inputs)
    assert (own.num_layers, own.length, own.causal) == (3, zoo.OUTPUT, True)
    torch.testing.assert_close(own.weights[0], whole.layers[2].level.weights)
    assert capture(model, module="encoder", **inputs).length == zoo.SOURCE
    cross = capture(model, module="cross", **inputs)
    assert (cross.kinds, cross.length) == (("cross",) * 3, zoo.SOURCE + zoo.OUTPUT)
    with pytest.raises(CaptureError, match=r"module='self' \(3 layers of 5 positions\)"):
        capture(model, module="model.decoder", **inputs)


def test_encoder_outputs_that_are_given_are_a_source_without_levels():
    model, inputs = zoo.model("t5"), zoo.inputs("t5")
    states = model.get_encoder()(inputs["input_ids"]).last_hidden_state.detach()
    attention = capture(
        model, encoder_outputs=hf.modeling_outputs.BaseModelOutput(states), attention_mask=torch.ones(1, 7),
        decoder_input_ids=inputs["decoder_input_ids"],
    )  # fmt: skip
    assert attention.kinds == KINDS[2:]
    assert attention.length == zoo.SOURCE + zoo.OUTPUT


@pytest.mark.parametrize("name", ["t5", "bart"])
def test_padding_of_either_stream_is_cut_out(name):
    short, long = zoo.inputs(name, 4, 3), zoo.inputs(name, 7, 5)
    batch = {
        key: torch.cat([torch.nn.functional.pad(short[key], (0, long[key].shape[1] - short[key].shape[1])), long[key]])
        for key in short
    }
    batch["attention_mask"] = torch.tensor([[1] * 4 + [0] * 3, [1] * 7])
    batch["decoder_attention_mask"] = torch.tensor([[1] * 3 + [0] * 2, [1] * 5])
    extras = ("blocks",)
    padded = capture_batch(zoo.model(name), batch, extras=extras).attention[0]
    alone = capture(zoo.model(name), extras=extras, **short)
    assert padded.length == 7
    for method in ("rollout", "alti"):
        torch.testing.assert_close(relevance(padded, method), relevance(alone, method), atol=1e-4, rtol=0)


def relevance(attention, name):
    from attnx.methods import METHODS
    from attnx.methods.base import call

    choices = {"layer": None, "position": None, "head": None, "residual": 0.5, "normalize": None, "drop_sink": False}
    return call(METHODS[name], attention, **choices)


BANDED = {
    "led": lambda: hf.LEDForConditionalGeneration(
        hf.LEDConfig(
            **{key: size for key, size in zoo.BART.items() if key != "max_position_embeddings"},
            max_encoder_position_embeddings=64,
            max_decoder_position_embeddings=64,
            attention_window=4,
        )
    ),
    "longt5": lambda: hf.LongT5ForConditionalGeneration(hf.LongT5Config(**zoo.T5)),
}


@pytest.mark.parametrize("name", BANDED)
def test_banded_layouts_are_refused_with_the_reason(name):
    with pytest.raises(CaptureError, match="n × n map"):
        capture(BANDED[name]().eval(), **zoo.inputs("t5"))


def test_two_towers_that_never_meet_are_no_chain():
    config = hf.CLIPConfig(
        text_config={"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 60},
        vision_config={"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "image_size": 32},
    )
    with pytest.raises(CaptureError, match="several stacks"):
        capture(hf.CLIPModel(config).eval(), input_ids=torch.ones(1, 4).long(), pixel_values=torch.randn(1, 3, 32, 32))
