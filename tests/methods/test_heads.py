"""One head in the layer of interest, heads merged below (Appendix A.1), and what the heads' mean is."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import attnx
from attnx.graph import Edges

some = settings(max_examples=40, deadline=None)
seeds = st.integers(0, 10**6)


def attention(seed=0, layers=4, heads=3, length=6):
    return np.random.default_rng(seed).dirichlet(np.full(length, 0.3), (layers, heads, length))


def every_head_by_einsum(weights, residual):
    """layer × head × query × input, with nothing of the package."""
    identity = np.eye(weights.shape[-1])
    single = (1 - residual) * weights + residual * identity
    merged = np.einsum("lhqk->lqk", single) / weights.shape[1]
    below, found = identity, []
    for layer in range(len(weights)):
        found.append(np.einsum("hqk,km->hqm", single[layer], below))
        below = np.einsum("qk,km->qm", merged[layer], below)
    return np.stack(found)


@some
@given(seeds, st.integers(1, 5), st.integers(1, 4), st.integers(1, 7), st.floats(0, 1))
def test_all_heads_of_all_layers_equal_an_einsum(seed, layers, heads, length, residual):
    weights = attention(seed, layers, heads, length)
    expected = every_head_by_einsum(weights, residual)
    np.testing.assert_allclose(attnx.rollout(weights, head="all", residual=residual), expected, atol=1e-12)
    row = attnx.rollout(weights, head="all", residual=residual, position=-1)
    np.testing.assert_allclose(row, expected[:, :, -1], atol=1e-12)
    one = attnx.rollout(weights, head=heads - 1, layer=layers, residual=residual)
    np.testing.assert_allclose(one, expected[-1, -1], atol=1e-12)


@some
@given(seeds, st.integers(1, 5), st.integers(1, 4), st.integers(1, 7), st.floats(0, 1))
def test_the_mean_of_the_heads_rollouts_is_the_layers_rollout(seed, layers, heads, length, residual):
    weights = attention(seed, layers, heads, length)
    each = attnx.rollout(weights, head="all", residual=residual)
    np.testing.assert_allclose(each.mean(1), attnx.rollout(weights, residual=residual), atol=1e-12)


@some
@given(seeds, st.integers(1, 5), st.integers(1, 4), st.integers(1, 6))
def test_the_mean_of_the_heads_flows_is_at_most_the_layers_flow(seed, layers, heads, length):
    """A maximum flow is concave in the capacities: together the heads can carry more than by turns."""
    weights = attention(seed, layers, heads, length)
    assert (attnx.flow(weights, head="all").mean(1) <= attnx.flow(weights) + 1e-9).all()


def test_rows_that_do_not_sum_alike_break_the_identity():
    weights = attention()
    weights[:, 0] *= 0.5
    each = attnx.rollout(weights, head="all")
    assert np.abs(each.mean(1) - attnx.rollout(weights)).max() > 1e-3


@pytest.mark.parametrize("position", [None, 2])
def test_the_layers_below_are_rolled_once_for_all_heads(position, monkeypatch):
    calls = []
    for name in ("left_multiply", "compose"):
        real = getattr(Edges, name)
        monkeypatch.setattr(Edges, name, lambda *a, real=real, name=name: calls.append(name) or real(*a))
    attnx.rollout(attention(heads=9), head="all", position=position)
    assert len(calls) == 3, "one product for each layer but one, whatever the number of heads"
