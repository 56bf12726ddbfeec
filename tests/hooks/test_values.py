"""Values, gates and projections together are what each block wrote, or are refused."""

import copy

import pytest
import torch
import transformers as hf
from torch import nn

from attnx.errors import CaptureError
from attnx.hooks import capture_batch
from attnx.hooks.capture import capture
from tests import zoo

ALL = ("values", "projections", "gates")


def written(attention, layer):
    """query × output, from what was captured alone."""
    mixed = (attention.weights[layer] @ attention.values[layer]) * attention.gates[layer]
    return mixed.transpose(0, 1).flatten(1) @ attention.projections[layer].T


def block_output(model, name, inputs):
    """What the block's own module gives, its bias taken off."""
    seen = []
    handle = model.get_submodule(name).register_forward_hook(lambda module, _, output: seen.append(output))
    with torch.no_grad():
        model(**inputs)
    handle.remove()
    output = seen[0][0] if isinstance(seen[0], tuple) else seen[0]
    return output[0]


class Gated(nn.Module):
    """A layer of two heads that does something to what it mixed before it projects it."""

    def __init__(self, between):
        super().__init__()
        self.qkv, self.gate, self.out = nn.Linear(8, 24), nn.Linear(8, 8), nn.Linear(8, 8, bias=False)
        self.between = between

    def forward(self, states):
        query, key, value = (one.view(1, 5, 2, 4).transpose(1, 2) for one in self.qkv(states).chunk(3, -1))
        mixed = torch.nn.functional.scaled_dot_product_attention(query, key, value)
        return states + self.out(self.between(mixed, torch.sigmoid(self.gate(states))))


def flat(mixed):
    return mixed.transpose(1, 2).reshape(1, 5, 8)


GATES = {
    "a gate behind the heads": lambda mixed, gate: flat(mixed) * gate,
    "a gate before the sum": lambda mixed, gate: gate * flat(mixed),
    "a gate of each head": lambda mixed, gate: flat(mixed * gate.view(1, 5, 2, 4).transpose(1, 2)),
    "one number a head": lambda mixed, gate: flat(mixed * gate[..., :2].transpose(1, 2)[..., None]),
    "two gates": lambda mixed, gate: flat(mixed * 0.5) * gate,
}


@pytest.mark.parametrize("kind", GATES)
def test_a_gate_is_followed(kind):
    torch.manual_seed(0)
    model, states = Gated(GATES[kind]).eval(), torch.randn(1, 5, 8)
    attention = capture(model, extras=ALL, states=states)
    torch.testing.assert_close(written(attention, 0), (model(states) - states)[0].detach())


@pytest.mark.parametrize("kind", GATES)
def test_values_without_their_gate_are_refused(kind):
    with pytest.raises(CaptureError, match="gate of each position"):
        capture(Gated(GATES[kind]).eval(), extras=("values", "projections"), states=torch.randn(1, 5, 8))


CHANGES = {
    "a sum": lambda mixed, gate: flat(mixed).add_(gate),
    "a gate in place": lambda mixed, gate: flat(mixed).mul_(gate),
}


@pytest.mark.parametrize("kind", CHANGES)
def test_what_cannot_be_followed_is_refused(kind):
    with pytest.raises(CaptureError, match="something else than a gate"):
        capture(Gated(CHANGES[kind]).eval(), extras=ALL, states=torch.randn(1, 5, 8))


@pytest.mark.skipif(not hasattr(hf, "Qwen3NextConfig"), reason="this transformers has no Qwen3-Next")
def test_the_gate_of_qwen3_next_is_part_of_what_it_writes():
    torch.manual_seed(0)
    config = hf.Qwen3NextConfig(
        vocab_size=zoo.VOCABULARY,
        head_dim=8,
        layer_types=["full_attention"] * 3,
        num_experts=4,
        num_experts_per_tok=2,
        moe_intermediate_size=16,
        shared_expert_intermediate_size=16,
        **zoo.WIDTH,
        **zoo.GROUPED,
    )
    model, inputs = hf.Qwen3NextModel(config).eval(), zoo.inputs("llama")
    with pytest.raises(CaptureError, match=r"layers.0.self_attn multiplies .* gate"):
        capture(model, extras=("values", "projections"), **inputs)
    attention = capture(model, extras=ALL, **inputs)
    for layer in range(3):
        expected = block_output(model, f"layers.{layer}.self_attn", inputs)
        torch.testing.assert_close(written(attention, layer), expected, atol=1e-5, rtol=1e-4)


@pytest.mark.skipif(not hasattr(hf, "NystromformerConfig"), reason="this transformers has no Nystromformer")
def test_values_that_are_added_to_otherwise_are_refused():
    config = hf.NystromformerConfig(vocab_size=120, num_landmarks=9, segment_means_seq_len=9, **zoo.WIDTH)
    model = hf.NystromformerModel(config).eval()
    assert capture(model, **zoo.inputs("bert")).num_layers == 3
    with pytest.raises(CaptureError, match="something else than a gate"):
        capture(model, extras=("values", "projections"), **zoo.inputs("bert"))


class Attending(nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.layer = nn.MultiheadAttention(8, 2, batch_first=True, **options)

    def forward(self, states, mask=None):
        return self.layer(states, states, states, attn_mask=mask, need_weights=False)[0]


@pytest.mark.parametrize("options", [{}, {"bias": False}, {"kdim": 8, "vdim": 8}])
@pytest.mark.parametrize("masked", ["nothing", "forbidden", "added"])
def test_torchs_own_module_gives_its_values(options, masked):
    torch.manual_seed(0)
    model, states = Attending(**options).eval(), torch.randn(1, 5, 8)
    later = torch.ones(5, 5, dtype=torch.bool).triu(1)
    mask = {"nothing": None, "forbidden": later, "added": later.float() * -3}[masked]
    attention = capture(model, extras=ALL, states=states, mask=mask)
    _, weights = model.layer(states, states, states, attn_mask=mask, average_attn_weights=False)
    torch.testing.assert_close(attention.weights[0], weights[0])
    bias = 0 if model.layer.out_proj.bias is None else model.layer.out_proj.bias
    torch.testing.assert_close(written(attention, 0) + bias, model(states, mask)[0])
    assert attention.causal == (masked == "forbidden")


def test_gradients_pass_through_torchs_own_module():
    torch.manual_seed(0)
    model, states = Attending().eval(), torch.randn(1, 5, 8)
    captured = capture_batch(model, {"states": states}, gradients=True)
    torch.testing.assert_close(captured.output, model(states))
    (slopes,) = torch.autograd.grad(captured.output.square().sum(), captured.attention[0].differentiable)
    assert float(slopes.abs().max()) > 0


def test_keys_that_are_no_positions_are_refused():
    with pytest.raises(CaptureError, match="keys that are no positions"):
        capture(Attending(add_bias_kv=True).eval(), extras=ALL, states=torch.randn(1, 5, 8))


def test_an_encoder_of_torch_is_followed_from_layer_to_layer():
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    model = zoo.biased(nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)).eval()
    attention = capture(model, extras=(*ALL, "blocks"), src=torch.randn(1, 5, 8))
    assert (attention.num_layers, attention.num_heads) == (3, 2)
    assert all(float(level.captured["miss"]) < 1e-5 for level in attention.layers)


def with_adapter(name, target, **options):
    """A model of the zoo with LoRA on its output projection."""
    peft = pytest.importorskip("peft", reason="peft is not installed")
    config = peft.LoraConfig(r=4, target_modules=[target], **options)
    model = peft.get_peft_model(copy.deepcopy(zoo.model(name)), config).eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in (one for key, one in model.named_parameters() if "lora_" in key):
            parameter.copy_(0.3 * torch.randn(parameter.shape, generator=generator))
    return model


@pytest.mark.parametrize(("name", "target"), [("llama", "o_proj"), ("opt", "out_proj"), ("gpt2", "attn.c_proj")])
def test_an_adapter_is_part_of_the_output_projection(name, target):
    model = with_adapter(name, target, fan_in_fan_out=name == "gpt2")
    found, merged = (
        capture(one, extras=("blocks",), **zoo.inputs(name))
        for one in (model, copy.deepcopy(model).merge_and_unload().eval())
    )
    for level, expected in zip(found.layers, merged.layers, strict=True):
        torch.testing.assert_close(
            level.captured["projections"], expected.captured["projections"], rtol=1e-5, atol=1e-6
        )


def test_an_adapter_that_is_put_together_otherwise_is_refused():
    model = with_adapter("llama", "o_proj", use_dora=True)
    with pytest.raises(CaptureError, match="several linear maps read the mixed values"):
        capture(model, extras=("values", "projections"), **zoo.inputs("llama"))
