"""Flow against its definition, against brute force, and against what must hold for any maximum flow."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import attnx
from attnx.errors import AttentionError, ChoiceError
from attnx.methods.flow import rounded
from attnx.methods.flow_solver import Sources, maximum_flows
from tests.methods.flow_attentions import KINDS, Array, attention, attentions, capacities, residuals

few = settings(max_examples=25, deadline=None)
many = settings(max_examples=120, deadline=None)


def least_cut_by_brute_force(graph: Array, source: int, sink: int) -> float:
    """The least of all cuts: every set of hidden states between source and sink, tried in turn."""
    layers, length, _ = graph.shape
    best = np.inf
    for sides in product([False, True], repeat=(layers - 1) * length):
        inner = np.array(sides, dtype=bool).reshape(layers - 1, length)
        side = [np.arange(length) != sink, *inner, np.arange(length) == source]
        best = min(best, sum(graph[i][np.ix_(side[i + 1], ~side[i])].sum() for i in range(layers)))
    return float(best)


def top_flows(graph: Array) -> Array:
    """All flows from the top layer of capacities that nothing normalises again."""
    sources = Sources(graph[-1], np.arange(graph.shape[-1]), len(graph) - 1)
    return maximum_flows(graph[:-1], [sources], threads=1)[0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("residual", [0.0, 0.5])
def test_flow_equals_networkx_for_every_kind_of_attention(kind: str, residual: float) -> None:
    weights = attention(kind, layers=5, heads=2, length=6, seed=0)
    exact = attnx.flow(weights, residual=residual)
    reference = attnx.flow(weights, residual=residual, solver="networkx")
    np.testing.assert_allclose(exact, reference, rtol=0, atol=1e-9)


@few
@given(attentions(), residuals, st.data())
def test_flow_equals_networkx(weights: Array, residual: float, data: st.DataObject) -> None:
    choice = {
        "layer": data.draw(st.integers(1, len(weights))),
        "position": data.draw(st.integers(0, weights.shape[-1] - 1)),
        "head": data.draw(st.sampled_from([None, 0, "all", "max", "min"])),
        "residual": residual,
    }
    exact, reference = attnx.flow(weights, **choice), attnx.flow(weights, **choice, solver="networkx")
    np.testing.assert_allclose(exact, reference, rtol=0, atol=1e-9)


@few
@given(attentions(layers=4, length=3), residuals)
def test_flow_is_the_least_of_all_cuts(weights: Array, residual: float) -> None:
    graph = capacities(weights, residual)
    found = attnx.flow(weights, layer=len(weights), residual=residual)
    for source, sink in np.ndindex(found.shape):
        assert found[source, sink] == pytest.approx(least_cut_by_brute_force(graph, source, sink), abs=1e-9)


@many
@given(attentions(), residuals)
def test_layer_one_flow_equals_attention_with_residual(weights: Array, residual: float) -> None:
    np.testing.assert_allclose(
        attnx.flow(weights, layer=1, residual=residual), capacities(weights, residual)[0], rtol=0, atol=1e-15
    )


@many
@given(attentions(), residuals)
def test_two_layers_equal_the_closed_form(weights: Array, residual: float) -> None:
    if len(weights) < 2:
        return
    first, second = capacities(weights, residual)[:2]
    closed = np.minimum(second[:, :, None], first[None]).sum(1)
    np.testing.assert_allclose(attnx.flow(weights, layer=2, residual=residual), closed, rtol=0, atol=1e-12)


@many
@given(attentions(length=9), residuals)
def test_flow_is_at_most_what_leaves_the_source_and_what_enters_the_input(weights: Array, residual: float) -> None:
    graph = capacities(weights, residual)
    found = attnx.flow(weights, residual=residual)
    assert (found >= 0).all()
    assert (found <= graph.sum(-1)[:, :, None] + 1e-9).all()
    assert (found[1:] <= graph[0].sum(0) + 1e-9).all()


@many
@given(attentions(length=9), st.floats(0, 1))
def test_flow_grows_with_the_capacities(weights: Array, share: float) -> None:
    graph = capacities(weights)
    smaller = graph * np.random.default_rng(0).uniform(share, 1, size=graph.shape)
    assert (top_flows(smaller) <= top_flows(graph) + 1e-9).all()


@many
@given(attentions(length=9), st.sampled_from([1e-3, 0.3, 2.0, 1e3]))
def test_flow_scales_with_the_capacities(weights: Array, factor: float) -> None:
    graph = capacities(weights)
    # What is exact to 1e-9 is so to 1e-9 × factor when it is multiplied.
    slack = 1e-9 * max(1.0, factor)
    np.testing.assert_allclose(top_flows(graph * factor), top_flows(graph) * factor, rtol=0, atol=slack)


@pytest.mark.parametrize("kind", ["random", "causal", "sharp"])
def test_every_way_to_ask_gives_the_same_numbers(kind: str) -> None:
    weights = attention(kind, layers=5, heads=3, length=12, seed=1)
    everything = attnx.flow(weights)
    assert everything.shape == (5, 12, 12)
    np.testing.assert_array_equal(attnx.flow(weights, position=3), everything[:, 3])
    np.testing.assert_array_equal(attnx.flow(weights, layer=4), everything[3])
    np.testing.assert_array_equal(attnx.flow(weights, layer=5, position=-1), everything[4, -1])
    each = attnx.flow(weights, head="all", position=3)
    assert each.shape == (5, 3, 12)
    np.testing.assert_array_equal(attnx.flow(weights, head=2, position=3), each[:, 2])


@pytest.mark.parametrize("kind", ["random", "sharp", "causal"])
def test_threads_do_not_change_a_bit(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnx.methods.flow_solver.EDGES_AT_ONCE", 20_000)
    weights = attention(kind, layers=6, heads=2, length=30, seed=2)
    alone = attnx.flow(weights, threads=1)
    for threads in (2, 3, 8):
        np.testing.assert_array_equal(attnx.flow(weights, threads=threads), alone)


@pytest.mark.slow
@pytest.mark.parametrize("length", [63, 64, 65, 100])
def test_flow_equals_networkx_where_sets_need_more_than_one_word(length: int) -> None:
    import networkx

    weights = attention("sharp", layers=3, heads=1, length=length, seed=3)
    graph = attnx.to_networkx(weights)
    found = attnx.flow(weights, layer=3, position=0)
    for sink in (0, length - 1):
        assert found[sink] == pytest.approx(networkx.maximum_flow_value(graph, (3, 0), (0, sink)), abs=1e-9)


def test_a_path_may_go_up_more_often_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    weights = attention("sharp", layers=7, heads=1, length=40, seed=4)
    enough = attnx.flow(weights, layer=7)
    monkeypatch.setattr("attnx.methods.flow_solver.SWEEPS", 1)
    np.testing.assert_array_equal(attnx.flow(weights, layer=7), enough)


def test_one_position_keeps_all_of_itself() -> None:
    np.testing.assert_array_equal(attnx.flow(np.ones((4, 2, 1, 1))), np.ones((4, 1, 1)))


def test_without_residual_a_row_of_zeros_has_no_flow() -> None:
    weights = attention("random", layers=4, heads=1, length=5, seed=5)
    weights[3, :, 2] = 0
    found = attnx.flow(weights, layer=4, residual=0)
    assert (found[2] == 0).all()
    assert (found[[0, 1, 3, 4]] > 0).all()


def test_a_causal_model_sends_no_flow_to_later_positions() -> None:
    found = attnx.flow(attention("causal", layers=4, heads=1, length=6, seed=6))
    assert (np.triu(found, 1) == 0).all()
    assert (found[:, np.tri(6, dtype=bool)] > 0).all()


def test_uniform_attention_ties_exactly() -> None:
    found = attnx.flow(attention("uniform", layers=6, heads=1, length=10, seed=0), layer=6)
    assert (rounded(found) == 1).all()


def test_the_kind_that_comes_in_comes_out() -> None:
    weights = torch.softmax(torch.randn(3, 2, 5, 5, requires_grad=True), -1)
    found = attnx.flow(weights, position=0)
    assert isinstance(found, torch.Tensor)
    assert found.dtype == torch.float64
    assert not found.requires_grad
    np.testing.assert_allclose(found.numpy(), attnx.flow(weights.detach().numpy(), position=0), atol=1e-7)


def test_half_precision_is_flowed_in_double_precision() -> None:
    weights = torch.softmax(torch.randn(3, 2, 5, 5, generator=torch.manual_seed(0)), -1).to(torch.bfloat16)
    assert (weights.double().sum(-1) > 1 + 1e-4).any(), "rounded rows are meant to sum to more than 1"
    np.testing.assert_allclose(attnx.flow(weights), attnx.flow(weights, solver="networkx"), rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("spoil", "value"), [("negative", -0.1), ("NaN", np.nan), ("infinite", np.inf), ("above one", 1.1)]
)
def test_what_is_not_attention_is_named_by_layer_and_row(spoil: str, value: float) -> None:
    weights = attention("random", layers=4, heads=2, length=5, seed=7)
    weights[2, 1, 3, 0] = value
    with pytest.raises(AttentionError, match=r"layer 3, head 1, row 3 is not attention"):
        attnx.flow(weights)


def test_rows_may_sum_to_one_and_a_ten_thousandth() -> None:
    weights = attention("random", layers=4, heads=2, length=5, seed=7)
    assert np.isfinite(attnx.flow(weights * (1 + 0.9e-4))).all()
    with pytest.raises(AttentionError, match="sum to at most 1"):
        attnx.flow(weights * (1 + 1.1e-4))


def test_maps_that_are_not_square_are_refused() -> None:
    with pytest.raises(AttentionError, match=r"layer × head × n × n, found shape \(2, 1, 3, 4\)"):
        attnx.flow(np.full((2, 1, 3, 4), 0.25))


def test_a_choice_that_does_not_exist_is_refused() -> None:
    weights = attention("random", layers=3, heads=2, length=4, seed=8)
    with pytest.raises(ChoiceError, match="layer 4 was requested, but the model has 3"):
        attnx.flow(weights, layer=4)
    with pytest.raises(ChoiceError, match="did you mean 'networkx'"):
        attnx.flow(weights, solver="networks")  # type: ignore[arg-type]
    with pytest.raises(ChoiceError, match="threads=0 was requested"):
        attnx.flow(weights, threads=0)


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(attentions(layers=8, length=14), residuals)
@pytest.mark.slow
def test_flow_equals_networkx_at_length(weights: Array, residual: float) -> None:
    layer = len(weights)
    exact = attnx.flow(weights, layer=layer, position=0, residual=residual)
    reference = attnx.flow(weights, layer=layer, position=0, residual=residual, solver="networkx")
    np.testing.assert_allclose(exact, reference, rtol=0, atol=1e-9)


@pytest.mark.parametrize("threads", [0, -1, 1.5, "2", True])
@pytest.mark.parametrize("layers", [1, 4])
def test_threads_are_counted_in_whole_numbers_from_one(threads, layers):
    with pytest.raises(ChoiceError, match="threads"):
        attnx.flow(np.full((layers, 1, 2, 2), 0.5), threads=threads)
