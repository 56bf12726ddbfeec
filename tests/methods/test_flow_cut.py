"""The minimum cut is a cut, and it is the flow."""

from __future__ import annotations

import networkx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import attnx
from attnx.errors import ChoiceError
from attnx.methods.flow import minimum_cut
from tests.methods.flow_attentions import Array, attention, attentions, residuals


@settings(max_examples=80, deadline=None)
@given(attentions(), residuals, st.data())
def test_capacities_of_the_cut_sum_to_the_flow(weights: Array, residual: float, data: st.DataObject) -> None:
    layer = data.draw(st.integers(1, len(weights)))
    position, sink = (data.draw(st.integers(0, weights.shape[-1] - 1)) for _ in range(2))
    cut = minimum_cut(weights, layer=layer, position=position, input_position=sink, residual=residual)
    row = attnx.flow(weights, layer=layer, position=position, residual=residual)
    assert cut.value == pytest.approx(row[sink], abs=1e-9)
    assert cut.value == pytest.approx(sum(edge.capacity for edge in cut.edges), abs=1e-15)


@settings(max_examples=80, deadline=None)
@given(attentions(), residuals, st.data())
def test_without_the_edges_of_the_cut_nothing_flows(weights: Array, residual: float, data: st.DataObject) -> None:
    layers = len(weights)
    position, sink = (data.draw(st.integers(0, weights.shape[-1] - 1)) for _ in range(2))
    cut = minimum_cut(weights, layer=layers, position=position, input_position=sink, residual=residual)
    graph = attnx.to_networkx(weights, residual=residual)
    for edge in cut.edges:
        assert graph.edges[(edge.layer, edge.query), (edge.layer - 1, edge.key)]["capacity"] == edge.capacity
        graph.remove_edge((edge.layer, edge.query), (edge.layer - 1, edge.key))
    assert networkx.maximum_flow_value(graph, (layers, position), (0, sink)) <= 1e-10


def test_the_cut_in_layer_one_is_the_edge_itself() -> None:
    weights = attention("random", layers=3, heads=1, length=4, seed=0)
    cut = minimum_cut(weights, layer=1, position=2, input_position=-1)
    assert [(edge.layer, edge.query, edge.key) for edge in cut.edges] == [(1, 2, 3)]
    assert cut.layers == (1,)


def test_a_saturated_input_is_cut_in_layer_one() -> None:
    weights = attention("uniform", layers=6, heads=1, length=8, seed=0)
    weights[0, :, :, 5] *= 0.2
    weights[0] /= weights[0].sum(-1, keepdims=True)
    cut = minimum_cut(weights, layer=6, position=0, input_position=5)
    assert cut.layers == (1,)
    assert {edge.key for edge in cut.edges} == {5}
    assert len(cut.edges) == 8


def test_a_cut_is_of_one_graph() -> None:
    with pytest.raises(ChoiceError, match="a minimum cut is of one graph"):
        minimum_cut(np.full((2, 1, 2, 2), 0.5), layer=1, position=0, input_position=0, head="all")
