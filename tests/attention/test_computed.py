"""Queries and keys kept beside the kernel give the attention that was captured whole, on every kind of mask."""

import pytest
import torch
import transformers as hf

import attnx
from attnx.attention import AttentionTensor, MaterializedLayer, blocks, pad_keys
from attnx.attention import layers as layers
from attnx.errors import CaptureError, InputError
from attnx.hooks import capture_batch
from attnx.hooks import verification as proof
from attnx.hooks.capture import capture
from tests import half_precision, zoo


@pytest.fixture(autouse=True)
def several_blocks(monkeypatch):
    """Tiny inputs in blocks of two or three rows, as long inputs in blocks of some dozens."""
    monkeypatch.setattr(layers, "MAX_BLOCK_ELEMENTS", 120)


def whole(attention: AttentionTensor) -> torch.Tensor:
    """layer × head × query × key, put together from the blocks."""
    return torch.stack(
        [
            torch.cat([pad_keys(layer.rows(*span), attention.length) for span in blocks(layer)], dim=1)
            for layer in attention.layers
        ]
    )


def seen(attention: AttentionTensor) -> torch.Tensor:
    return torch.stack([layer.mask.visible(0, attention.length) for layer in attention.layers])


@pytest.mark.parametrize("name", zoo.FAMILIES)
def test_rows_computed_again_are_the_ones_captured(name):
    model, inputs = zoo.model(name), zoo.inputs(name, 13)
    held, long = capture(model, **inputs), capture(model, held=False, **inputs)
    assert len(list(blocks(long.layers[0]))) > 3
    torch.testing.assert_close(whole(long), held.weights, atol=1e-5, rtol=0)
    assert torch.equal(seen(long), held.visible)
    assert (long.num_layers, long.num_heads, long.length) == (held.num_layers, held.num_heads, held.length)
    assert (long.causal, long.modules) == (held.causal, held.modules)


@pytest.mark.parametrize("name", ["mistral", "llama"])
def test_the_interface_keeps_them_too(name):
    zoo.needs_interface(name)
    held = capture(zoo.model(name), **zoo.inputs(name, 13))
    long = capture(zoo.model(name), held=False, backend="interface", **zoo.inputs(name, 13))
    torch.testing.assert_close(whole(long), held.weights, atol=1e-5, rtol=0)


def test_keys_outside_a_window_are_not_even_computed():
    long = capture(zoo.model("mistral"), held=False, **zoo.inputs("mistral", 13))
    block = long.layers[0].rows(11, 13)
    assert block.first_key == 8
    assert block.weights.shape == (4, 2, 5)


@pytest.mark.parametrize("name", ["llama", "mistral"])
def test_shared_keys_are_kept_once_also_where_the_model_repeats_them(name):
    layer = capture(zoo.model(name), held=False, **zoo.inputs(name)).layers[0]
    assert (layer.query.shape, layer.key.shape) == ((4, 9, 8), (2, 9, 8))


def test_what_is_kept_holds_no_buffer_of_the_model():
    for layer in capture(zoo.model("gpt2"), held=False, **zoo.inputs("gpt2")).layers:
        for part in (layer.query, layer.key):
            assert part.is_contiguous()
            assert part.untyped_storage().nbytes() == part.nbytes


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "mistral", "t5", "bloom"])
def test_padding_is_cut_out(name):
    ids = torch.cat([zoo.inputs(name, 11)["input_ids"], zoo.inputs(name, 11)["input_ids"].flip(1)])
    mask = torch.ones_like(ids)
    mask[1, 7:] = 0
    batch = {"input_ids": ids, "attention_mask": mask}
    for held, long in zip(
        capture_batch(zoo.model(name), batch).attention,
        capture_batch(zoo.model(name), batch, held=False).attention,
        strict=True,
    ):
        torch.testing.assert_close(whole(long), held.weights, atol=1e-5, rtol=0)
        assert torch.equal(seen(long), held.visible)


def test_half_precision_is_computed_in_float32():
    half_precision.needs("float16")
    model = hf.BertModel(zoo.model("bert").config)
    model.load_state_dict(zoo.model("bert").state_dict())
    model = model.half().eval()
    long = capture(model, held=False, **zoo.inputs("bert"))
    assert long.layers[0].query.dtype == torch.float16
    torch.testing.assert_close(whole(long), capture(model, **zoo.inputs("bert")).weights, atol=1e-5, rtol=0)


def test_a_cap_on_scores_is_kept():
    zoo.needs_interface("llama")
    torch.manual_seed(0)
    config = hf.Gemma2Config(
        vocab_size=zoo.VOCABULARY, head_dim=8, attn_logit_softcapping=2.0, sliding_window=4, **zoo.WIDTH, **zoo.GROUPED
    )
    model = hf.Gemma2Model._from_config(config, attn_implementation="eager").eval()
    with torch.no_grad():
        for layer in model.layers:
            layer.self_attn.q_proj.weight.mul_(30)
    inputs = zoo.inputs("llama", 13)
    held = capture(model, backend="observer", **inputs)
    long = capture(model, held=False, backend="interface", **inputs)
    assert long.layers[0].softcap == 2.0
    torch.testing.assert_close(whole(long), held.weights, atol=1e-5, rtol=0)


@pytest.mark.skipif(not hasattr(hf, "GptOssConfig"), reason="this transformers has no model with sinks")
def test_sinks_are_kept():
    config = hf.GptOssConfig(
        vocab_size=zoo.VOCABULARY, head_dim=8, num_local_experts=4, num_experts_per_tok=2, **zoo.WIDTH, **zoo.GROUPED
    )
    torch.manual_seed(0)
    model = hf.GptOssModel(config).eval()
    held = capture(model, **zoo.inputs("llama"))
    long = capture(model, held=False, backend="interface", **zoo.inputs("llama"))
    assert long.layers[0].sinks is not None
    torch.testing.assert_close(whole(long), held.weights, atol=1e-5, rtol=0)
    torch.testing.assert_close(attnx.rollout(long, position=-1), attnx.rollout(held, position=-1), atol=1e-5, rtol=0)


def test_a_layer_without_a_kernel_is_held_with_its_heads_merged():
    long = capture(zoo.model("bloom"), held=False, head="mean", **zoo.inputs("bloom"))
    assert long.held == long.modules
    assert all(isinstance(layer, MaterializedLayer) and layer.heads == 1 for layer in long.layers)
    held = capture(zoo.model("bloom"), **zoo.inputs("bloom"))
    torch.testing.assert_close(attnx.rollout(long, position=4), attnx.rollout(held, position=4), atol=1e-5, rtol=0)


def test_what_does_not_give_back_the_kernels_output_is_reported(monkeypatch):
    class Rescaled(torch.nn.Module):
        def forward(self, states):
            return torch.nn.functional.scaled_dot_product_attention(states, states, states)

    monkeypatch.setattr(proof, "pad_keys", lambda *where: pad_keys(*where) * 0.9)
    with pytest.raises(CaptureError, match="do not reproduce its output"):
        capture(Rescaled(), held=False, states=torch.ones(1, 2, 12, 4))


class IgnoresItsMask(torch.nn.Module):
    def forward(self, states, attention_mask):
        return torch.nn.functional.scaled_dot_product_attention(states, states, states)


def test_a_model_that_reads_its_padding_is_reported():
    inputs = {"states": torch.randn(2, 2, 9, 4), "attention_mask": torch.ones(2, 9)}
    inputs["attention_mask"][0, 6:] = 0
    with pytest.raises(CaptureError, match="attends to padding"):
        capture_batch(IgnoresItsMask(), inputs, held=False)


def test_not_a_number_is_reported_with_its_layer():
    model = hf.BertModel(zoo.model("bert").config).eval()
    with torch.no_grad():
        model.encoder.layer[1].attention.self.query.weight.fill_(float("nan"))
    with pytest.raises(CaptureError, match=r"layer 2 .* not finite"):
        capture(model, held=False, **zoo.inputs("bert"))


def test_a_query_that_sees_nothing_gives_nothing():
    class Masked(torch.nn.Module):
        def forward(self, states):
            mask = torch.ones(9, 9, dtype=torch.bool)
            mask[4] = False
            return torch.nn.functional.scaled_dot_product_attention(states, states, states, attn_mask=mask).nan_to_num()

    long = capture(Masked(), held=False, states=torch.randn(1, 2, 9, 4))
    assert float(whole(long)[0, :, 4].abs().sum()) == 0
    rolled = attnx.rollout(long, layer=1, position=4)
    assert rolled.tolist() == [0, 0, 0, 0, 1, 0, 0, 0, 0]


def test_the_same_layouts_are_refused():
    config = hf.SwinConfig(image_size=32, patch_size=2, embed_dim=16, depths=[1, 1], num_heads=[2, 2], window_size=4)
    with pytest.raises(CaptureError, match="windows"):
        capture(hf.SwinModel(config).eval(), held=False, **zoo.inputs("vit"))
    with pytest.raises(InputError, match="batch of 2"):
        capture(zoo.model("bert"), held=False, input_ids=torch.ones(2, 4, dtype=torch.long))
