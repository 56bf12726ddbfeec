"""The rest of a block is found by what is seen, or its model is refused by name; the model is left as it was."""

import copy

import pytest
import torch
from torch import nn

from attnx.errors import CaptureError
from attnx.hooks import capture_batch
from attnx.hooks import recompute as rest
from attnx.hooks.capture import capture
from tests import zoo


def nothing(level):
    """Nothing is taken away at every position."""
    states = level.captured["states"]
    return level.rest(torch.zeros_like(states), torch.arange(len(states)))


@pytest.mark.parametrize("name", zoo.FAMILIES)
def test_with_nothing_taken_away_it_gives_what_the_block_gave(name):
    inputs = {key: one.double() if one.is_floating_point() else one for key, one in zoo.inputs(name).items()}
    attention = capture(copy.deepcopy(zoo.model(name)).double(), extras=("rest",), **inputs)
    for level, above in zip(attention.layers, attention.layers[1:], strict=False):
        # Gemma computes its norms in single precision.
        slack = 1e-5 if name.startswith("gemma") else 1e-9
        torch.testing.assert_close(nothing(level), above.captured["states"], atol=slack, rtol=slack)


def test_inputs_of_a_padded_batch_have_each_their_own():
    model = zoo.model("bert")
    ids = torch.cat([zoo.inputs("bert")["input_ids"]] * 2)
    mask = torch.ones_like(ids)
    mask[1, 6:] = 0
    batch = capture_batch(model, {"input_ids": ids, "attention_mask": mask}, extras=("rest",)).attention
    for captured in batch:
        for level, above in zip(captured.layers, captured.layers[1:], strict=False):
            torch.testing.assert_close(nothing(level), above.captured["states"], atol=1e-4, rtol=1e-4)


def test_the_model_is_as_it_was():
    model = copy.deepcopy(zoo.model("bert")).train()
    before = {name: one.clone() for name, one in model.state_dict().items()}
    nothing(capture(model, extras=("rest",), **zoo.inputs("bert")).layers[0])
    assert all(module.training for module in model.modules())
    assert not zoo.observed(model)
    assert all(torch.equal(one, before[name]) for name, one in model.state_dict().items())
    assert all(one.grad is None for one in model.parameters())


class Stack(nn.Module):
    """Blocks of one kind."""

    def __init__(self, block):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList([block(), block()])

    def forward(self, states):
        for layer in self.layers:
            states = layer(states)
        return states


class Attending(nn.Module):
    def __init__(self):
        super().__init__()
        self.out, self.norm, self.up, self.down = nn.Linear(8, 8), nn.LayerNorm(8), nn.Linear(8, 16), nn.Linear(16, 8)

    def attended(self, states):
        heads = states.unflatten(-1, (2, 4)).transpose(1, 2)
        mixed = nn.functional.scaled_dot_product_attention(heads, heads, heads)
        return self.out(mixed.transpose(1, 2).flatten(2))

    def mlp(self, states):
        return self.down(self.up(states).relu())


class FixedShapes(Attending):
    """Shapes are taken before attention."""

    def forward(self, states):
        shape = states.shape
        behind = states + self.attended(states)
        return (behind.view(shape) + self.mlp(self.norm(behind)).view(shape)).contiguous()


class MixesBehind(Attending):
    """The rest looks at neighbours."""

    def forward(self, states):
        behind = states + self.attended(states)
        return behind + self.mlp(self.norm(behind)).roll(1, 1)


class ReadsEarlier(Attending):
    """The rest reads what entered the block, multiplied with what attention made."""

    def forward(self, states):
        behind = states + self.attended(states)
        return behind + self.mlp(self.norm(behind)) * states


class NormWithoutWeights(Attending):
    """The sum enters no norm that can be seen."""

    def forward(self, states):
        behind = states + self.attended(states)
        return behind + self.mlp(nn.functional.layer_norm(behind, (8,)))


class BesideLater(Attending):
    """The MLP stands beside attention, and runs after it."""

    def forward(self, states):
        normed = self.norm(states)
        behind = states + self.attended(states)
        return behind + self.mlp(normed)


@pytest.mark.parametrize("block", [FixedShapes, NormWithoutWeights, BesideLater])
def test_blocks_of_many_kinds_can_be_run_on(block):
    model, states = Stack(block).double().eval(), torch.randn(1, 5, 8).double()
    layers = capture(model, extras=("rest",), states=states).layers
    torch.testing.assert_close(nothing(layers[0]), layers[1].captured["states"])
    taken = torch.randn(5, 8).double()
    layer, entered = model.layers[1], layers[1].captured["states"][None]
    with torch.no_grad():
        behind = entered + layer.attended(entered) - taken
        read = {
            FixedShapes: lambda: layer.norm(behind),
            NormWithoutWeights: lambda: nn.functional.layer_norm(behind, (8,)),
            BesideLater: lambda: layer.norm(entered),
        }
        expected = behind + layer.mlp(read[block]())
    torch.testing.assert_close(layers[1].rest(taken, torch.arange(5)), expected[0])


@pytest.mark.parametrize("block", [MixesBehind, ReadsEarlier])
def test_what_cannot_be_run_by_itself_is_refused_by_name_with_what_to_use(block):
    layers = capture(Stack(block).eval(), extras=("rest",), states=torch.randn(1, 5, 8)).layers
    with pytest.raises(CaptureError, match=r"rest of the block around layers\.0 cannot.*use alti, or methods"):
        nothing(layers[0])


@pytest.mark.parametrize(
    "error", [torch.OutOfMemoryError("full"), RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried")]
)
def test_memory_that_is_used_up_is_not_taken_for_a_block_that_cannot_be_run(monkeypatch, error):
    (level, *_) = capture(zoo.model("bert"), extras=("rest",), **zoo.inputs("bert")).layers

    def full(*_):
        raise error

    monkeypatch.setattr(rest._Tail, "__call__", full)
    with pytest.raises(RuntimeError, match=r"full|allocate"):
        nothing(level)


def test_a_shape_that_was_fixed_is_a_block_that_cannot_be_run(monkeypatch):
    (level, *_) = capture(zoo.model("bert"), extras=("rest",), **zoo.inputs("bert")).layers

    def fixed(*_):
        raise RuntimeError("shape '[1, 7]' is invalid for input of size 8")

    monkeypatch.setattr(rest._Tail, "__call__", fixed)
    with pytest.raises(CaptureError, match="cannot be run by itself"):
        nothing(level)
