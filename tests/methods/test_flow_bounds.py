"""A chain cut is a cut: never below the flow, and often equal to it."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings

import attnx
from attnx.methods.flow_solver import chain_cuts
from tests.methods.flow_attentions import Array, attention, attentions, capacities, residuals


@settings(max_examples=150, deadline=None)
@given(attentions(length=9), residuals)
def test_a_chain_cut_is_never_below_the_flow(weights: Array, residual: float) -> None:
    graph = capacities(weights, residual)
    positions = np.arange(graph.shape[-1])
    bounds = chain_cuts(graph[:-1], graph[-1], positions)
    assert (bounds >= attnx.flow(weights, layer=len(graph), residual=residual) - 1e-9).all()


def test_the_best_chain_cut_is_the_least_over_all_chains() -> None:
    """Each chain written out as the set of nodes on the source's side."""
    graph = capacities(attention("sharp", layers=4, heads=1, length=5, seed=0))
    bounds = chain_cuts(graph[:-1], graph[-1], np.arange(5))
    for source, sink in np.ndindex(5, 5):
        own, others = np.arange(5) == source, np.arange(5) != sink
        cuts = []
        for switch in range(5):
            for below in (np.zeros(5, bool), others):
                inner = [own if level >= switch else below for level in range(1, 4)]
                cuts.append([others, *inner, own])
            inner = [others if level < switch else np.ones(5, bool) for level in range(1, 4)]
            cuts.append([others, *inner, own])
        values = [sum(graph[i][np.ix_(side[i + 1], ~side[i])].sum() for i in range(4)) for side in cuts]
        assert bounds[source, sink] <= min(values) + 1e-12
        assert bounds[source, sink] >= attnx.flow(graph[:, None], layer=4, residual=0)[source, sink] - 1e-12


def test_deep_uniform_attention_needs_no_search_beyond_its_bounds() -> None:
    graph = capacities(attention("uniform", layers=6, heads=1, length=8, seed=0))
    np.testing.assert_allclose(chain_cuts(graph[:-1], graph[-1], np.arange(8)), 1, atol=1e-15)


def test_queries_that_the_source_cannot_reach_do_not_widen_a_cut() -> None:
    weights = attention("causal", layers=6, heads=1, length=8, seed=1)
    graph = capacities(weights)
    bounds = chain_cuts(graph[:-1], graph[-1], np.arange(8))
    assert (np.triu(bounds, 1) == 0).all()
