"""Products by oneDNN are torch's, and are asked of it only in layouts for which it has quick code."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from attnx.linearize import LRP, linearized_run
from attnx.linearize import autograd as carried
from attnx.linearize import matmul as onednn
from tests import zoo

RANDOM = torch.Generator().manual_seed(5)


class Operands(TorchDispatchMode):
    """Notes whether what oneDNN multiplies lies in memory without gaps, as it is or turned."""

    def __init__(self):
        super().__init__()
        self.dense = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if "linear_pointwise" in str(func):
            self.dense.append(all(one.is_contiguous() or one.mT.is_contiguous() for one in args[:2]))
        return func(*args, **(kwargs or {}))


@pytest.fixture(autouse=True)
def _taken():
    if not onednn.prefers_onednn():
        pytest.skip("torch's own library is as quick on this processor, so oneDNN is never asked")


@pytest.mark.parametrize("taken", [lambda x: x, lambda x: x[:, ::2], lambda x: x[::3], lambda x: x.mT], ids=range(4))
@pytest.mark.parametrize("weight", [lambda w: w, lambda w: w[:, 3:], lambda w: w[::2], lambda w: w.mT], ids=range(4))
def test_views_with_gaps_are_closed_before_they_are_multiplied(taken, weight):
    rows, matrix = taken(torch.randn(24, 24, generator=RANDOM)), weight(torch.randn(30, 30, generator=RANDOM))
    width = min(rows.shape[1], matrix.shape[1])
    rows, matrix = rows[:, :width], matrix[:, :width]
    with Operands() as seen:
        found = onednn.onednn_linear(rows, matrix, None)
    torch.testing.assert_close(found, rows @ matrix.t())
    assert seen.dense == [True]


def test_attention_hands_back_dense_slopes_where_heads_stand_side_by_side():
    length, heads, width = 200, 3, 16
    values = torch.randn(1, heads, length, width, generator=RANDOM, requires_grad=True)
    attention = torch.rand(1, heads, length, length, generator=RANDOM).softmax(-1)
    result = carried.mix_values(values, lambda: attention, lambda: attention @ values.detach(), repeated=False)
    slope = torch.randn(1, length, heads, width, generator=RANDOM).transpose(1, 2)
    with Operands() as seen:
        (found,) = torch.autograd.grad(result, values, slope)
    torch.testing.assert_close(found, attention.mT @ slope)
    assert seen.dense == [True] * heads


def test_linear_maps_of_a_run_without_gradients_go_by_it_and_others_do_not():
    states, weight, bias = (torch.randn(shape, generator=RANDOM) for shape in ((2, 7, 32), (48, 32), (48,)))
    with onednn.OneDnnMode(), Operands() as seen:
        with torch.no_grad():
            found = torch.nn.functional.linear(states, weight, bias)
        assert len(seen.dense) == 1
        torch.nn.functional.linear(states.requires_grad_(), weight, bias)
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            assert torch.nn.functional.linear(states, weight, bias).dtype is torch.bfloat16
    assert len(seen.dense) == 1
    torch.testing.assert_close(found, torch.nn.functional.linear(states, weight, bias).detach(), atol=1e-4, rtol=0)


def test_under_autocast_the_frozen_model_answers_as_the_model_does():
    model, ids = zoo.model("llama"), zoo.inputs("llama", 9)
    entry = model.get_input_embeddings()

    def score():
        return model(**ids).last_hidden_state[:, -1].float().sum(-1)

    with torch.autocast("cpu", torch.bfloat16):
        with torch.no_grad():
            own = score()
        found = linearized_run(model, score, LRP, entry=entry)
    assert torch.equal(found.scores, own)
    with torch.no_grad():
        assert not torch.equal(found.scores, score())
