"""Attention is found again in the residual stream of every family, or its model is refused by name."""

import copy

import pytest
import torch
from torch import nn

from attnx.attention import LinearizedNorm
from attnx.errors import CaptureError, ChoiceError
from attnx.hooks import capture_batch
from attnx.hooks.capture import capture
from tests import zoo

POST = ("bert", "distilbert", "roberta", "albert")
ON_BRANCH = ("gemma2", "gemma3", "beit", "dinov2", "dinov2_with_registers")


def in_double(name):
    inputs = {key: one.double() if one.is_floating_point() else one for key, one in zoo.inputs(name).items()}
    return zoo.biased(copy.deepcopy(zoo.model(name))).double(), inputs


def summed(level):
    """x_i + Σ_j T_i(j) + b, and what comes of it behind the norms that were brought: written out again."""
    weights, captured = level.rows(0, level.mask.length).weights, level.captured
    values = captured["values"].repeat_interleave(level.heads // len(captured["values"]), 0)
    branch = torch.einsum("hij,hjw->ihw", weights, values).flatten(1) @ captured["projections"].T + captured["bias"]
    on_branch, behind = (LinearizedNorm.of(captured, name) for name in ("branch", "norm"))
    joined = captured["states"] + (branch if on_branch is None else on_branch(branch))
    return joined if behind is None else behind(joined)


@pytest.mark.parametrize("held", [True, False])
@pytest.mark.parametrize("name", zoo.FAMILIES)
def test_the_sum_is_what_goes_on_in_every_family(name, held):
    model, inputs = in_double(name)
    attention = capture(model, extras=("blocks",), held=held, **inputs)
    # Gemma computes its norms in single precision.
    slack = 1e-6 if name.startswith("gemma") else 1e-10
    assert all(float(level.captured["miss"]) <= slack for level in attention.layers)
    for level in attention.layers:
        assert ("norm.gain" in level.captured) == (name in POST)
        assert ("branch.gain" in level.captured) == (name in ON_BRANCH)


@pytest.mark.parametrize(
    ("name", "module", "after"),
    [
        ("gpt2", "h.1.ln_2", False),
        ("llama", "layers.1.post_attention_layernorm", False),
        ("gemma2", "layers.1.pre_feedforward_layernorm", False),
        ("vit", "layers.1.layernorm_after", False),
        ("bert", "encoder.layer.1.attention.output.LayerNorm", True),
        ("distilbert", "transformer.layer.1.sa_layer_norm", True),
    ],
)
def test_the_sum_equals_what_a_hook_sees(name, module, after):
    model, inputs = in_double(name)
    seen = {}
    level = capture(model, extras=("blocks",), **inputs).layers[1]
    names = dict(model.named_modules())
    place = next(
        one for one in names if one.endswith(module) or one.endswith(module.replace("layers", "encoder.layer"))
    )
    hook = lambda _, args, output: seen.update(state=output if after else args[0])  # noqa: E731
    names[place].register_forward_hook(hook)
    model(**inputs)
    torch.testing.assert_close(
        summed(level), seen["state"][0].detach(), atol=1e-6 if name == "gemma2" else 1e-10, rtol=0
    )


def test_padding_is_cut_out_of_what_is_brought():
    model = zoo.model("llama")
    ids = zoo.inputs("llama")["input_ids"]
    mask = torch.ones_like(ids)
    mask[0, 6:] = 0
    padded = capture_batch(model, {"input_ids": ids, "attention_mask": mask}, extras=("blocks",)).attention[0]
    alone = capture(model, extras=("blocks",), input_ids=ids[:, :6])
    for one, other in zip(padded.layers, alone.layers, strict=True):
        torch.testing.assert_close(one.captured["states"], other.captured["states"], atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(one.captured["values"], other.captured["values"], atol=1e-5, rtol=1e-4)


def test_values_are_kept_once_for_heads_that_share_them():
    attention = capture(zoo.model("llama"), extras=("values",), **zoo.inputs("llama"))
    assert attention.layers[0].captured["values"].shape[0] == 2
    assert attention.values[0].shape[0] == 4


def test_merged_heads_cannot_be_taken_apart():
    with pytest.raises(ChoiceError, match="use head=None"):
        capture(zoo.model("bert"), head="mean", extras=("blocks",), **zoo.inputs("bert"))


@pytest.mark.parametrize("register", ["register_forward_pre_hook", "register_forward_hook"])
def test_the_hooks_of_the_caller_belong_to_the_model(register):
    """A vector that steers the model is added to what enters a block, or to what leaves the one before."""
    model, inputs = in_double("gpt2")
    vector = torch.linspace(-1, 1, model.config.n_embd).double()
    block = model.h[1 if "pre" in register else 0]
    getattr(block, register)(lambda _, args, output=None: (args[0] if output is None else output) + vector)
    seen = []
    model.h[1].ln_1.register_forward_pre_hook(lambda _, args: seen.append(args[0][0].detach()))
    level = capture(model, extras=("blocks",), **inputs).layers[1]
    torch.testing.assert_close(level.captured["states"], seen[0], atol=1e-10, rtol=0)


def test_no_hook_stays_on_the_model():
    model = zoo.model("bert")
    capture(model, extras=("blocks",), **zoo.inputs("bert"))
    assert not zoo.observed(model)


class Gated(nn.Module):
    """One block whose attention is scaled by a gate of the query before its projection."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList([GatedBlock()])

    def forward(self, states):
        for layer in self.layers:
            states = layer(states)
        return states


class GatedBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.out = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, states):
        heads = states.unflatten(-1, (2, 4)).transpose(1, 2)
        mixed = nn.functional.scaled_dot_product_attention(heads, heads, heads).transpose(1, 2).flatten(2)
        return states + self.out(mixed * self.gate(states).sigmoid())


def test_a_gate_is_refused_with_the_module_and_what_to_use():
    with pytest.raises(CaptureError, match=r"layers\.0 multiplies what it mixed by a gate.*use methods of"):
        capture(Gated().eval(), extras=("blocks",), states=torch.randn(1, 5, 8))
