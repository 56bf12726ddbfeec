"""The graph for networkx says what it is made of."""

from __future__ import annotations

import networkx
import numpy as np
import pytest

import attnx
from attnx.errors import InputError

WEIGHTS = np.random.default_rng(0).dirichlet(np.ones(3), size=(2, 4, 3))


def test_nodes_carry_layer_position_and_token() -> None:
    graph = attnx.to_networkx(WEIGHTS, ["the", "key", "the"])
    assert len(graph) == 9
    assert graph.nodes[0, 2] == {"layer": 0, "position": 2, "token": "the"}
    assert graph.nodes[2, 1] == {"layer": 2, "position": 1, "token": "key"}


def test_edges_lead_down_one_layer_and_carry_the_capacity() -> None:
    graph = attnx.to_networkx(WEIGHTS)
    assert graph.number_of_edges() == 18
    assert all(upper == lower + 1 for (upper, _), (lower, _) in graph.edges)
    assert graph.edges[(2, 0), (1, 1)]["capacity"] == pytest.approx(WEIGHTS[1, :, 0, 1].mean() / 2)
    assert graph.edges[(1, 2), (0, 2)]["capacity"] == pytest.approx(WEIGHTS[0, :, 2, 2].mean() / 2 + 0.5)


def test_edges_of_no_capacity_are_left_out() -> None:
    causal = np.tril(WEIGHTS)
    graph = attnx.to_networkx(causal / causal.sum(-1, keepdims=True))
    assert graph.number_of_edges() == 12
    assert len(graph) == 9


def test_flow_of_the_graph_is_the_flow_of_attnx() -> None:
    for head in (None, 2):
        graph = attnx.to_networkx(WEIGHTS, head=head)
        row = [networkx.maximum_flow_value(graph, (2, 0), (0, key)) for key in range(3)]
        np.testing.assert_allclose(attnx.flow(WEIGHTS, layer=2, position=0, head=head), row, atol=1e-12)


def test_a_token_for_each_position_is_needed() -> None:
    with pytest.raises(InputError, match="expected 3 tokens, one for each position, found 2"):
        attnx.to_networkx(WEIGHTS, ["the", "key"])


def test_a_graph_is_of_one_head() -> None:
    with pytest.raises(InputError, match="one edge between two nodes"):
        attnx.to_networkx(WEIGHTS, head="all")
