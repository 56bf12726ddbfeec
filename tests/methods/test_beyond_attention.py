"""Rollout and flow of edges that know the values or the answer, against products written out."""

import numpy as np
import pytest
import torch

import attnx
from attnx.attention import AttentionTensor, Mask, MaterializedLayer
from attnx.graph import EDGE_WEIGHTS, Graph, Selection
from attnx.methods import METHODS, apply
from tests.graph.weightings import by_hand


def relevance(name, attention, **rules):
    method = METHODS[name]
    graph = Graph.of(attention, edge_weights=method.edge_weights, **rules)
    return apply(method, graph, Selection.of(graph.depth, graph.length)).relevance[-1, 0].numpy()


@pytest.mark.parametrize("family", ["bert", "gpt2", "vit"])
@pytest.mark.parametrize("name", ["norm_rollout", "globenc", "alti"])
def test_it_is_the_plain_product_of_its_levels(name, family):
    attention = by_hand.attention(family)
    function = EDGE_WEIGHTS[METHODS[name].edge_weights].function
    expected = np.eye(attention.length)
    for level in attention.layers:
        expected = function(level, 0, attention.length).weights[0].numpy() @ expected
    np.testing.assert_allclose(relevance(name, attention), expected, rtol=1e-9)


@pytest.mark.parametrize("family", ["bert", "llama", "vit"])
@pytest.mark.parametrize("name", ["effective_rollout", "norm_rollout", "alti"])
def test_rows_sum_to_one(name, family):
    np.testing.assert_allclose(relevance(name, by_hand.attention(family)).sum(-1), 1, atol=1e-9)


@pytest.mark.parametrize("name", ["effective_rollout", "norm_rollout", "globenc", "alti"])
def test_a_long_input_is_read_by_rows_to_the_same_numbers(name):
    held, computed = by_hand.attention("gpt2"), by_hand.attention("gpt2", held=False)
    np.testing.assert_allclose(relevance(name, computed), relevance(name, held), atol=1e-8)


def test_identity_values_without_norms_give_closed_forms():
    """With values that are the identity and states alike, T_i(j) = A[i,j] e_j and P_i(i) = (A[i,i] + 1) e_i."""
    weights = by_hand.normalize_rows(np.random.default_rng(0).random((4, 4)))
    level = by_hand.made_up(weights[None], np.eye(4)[None], states=np.eye(4))
    attention = AttentionTensor((level, level))
    mixed = (weights + np.eye(4)) / 2
    for name in ("norm_rollout", "alti"):
        np.testing.assert_allclose(relevance(name, attention), mixed @ mixed, atol=1e-12)
    np.testing.assert_allclose(relevance("alti", attention), attnx.rollout(attention, layer=2), atol=1e-12)


def answered(weights, gradient, values):
    tensors = (torch.as_tensor(one).double() for one in (weights, gradient, values))
    weights, gradient, values = tensors
    return MaterializedLayer(
        weights, Mask(weights.shape[-1], weights.device), captured={"gradient": gradient, "values": values}
    )


def test_gradient_rollout_is_the_published_rule_on_two_layers_by_hand():
    """R ← R + Ā R with Ā = mean_h max(0, A ∘ ∇A), two heads and two positions."""
    first = answered([[[0.5, 0.5], [1, 0]], [[0, 1], [0.5, 0.5]]], [[[2], [1]], [[1], [-1]]], [[[1], [3]], [[1], [1]]])
    second = answered([[[1, 0], [0.5, 0.5]]] * 2, [[[1], [0]], [[1], [2]]], [[[1], [-1]], [[3], [1]]])
    # ∇A of the first layer: head 0 [[2, 6], [1, 3]], head 1 [[1, 1], [−1, −1]].
    lower = (np.array([[1, 3], [1, 0]]) + np.array([[0, 1], [0, 0]])) / 2
    # Of the second: head 0 [[1, −1], [0, 0]], head 1 [[3, 1], [6, 2]].
    upper = (np.array([[1, 0], [0, 0]]) + np.array([[3, 0], [3, 1]])) / 2
    rule = np.eye(2)
    for layer in (lower, upper):
        rule = rule + layer @ rule
    np.testing.assert_allclose(relevance("gradient_rollout", AttentionTensor((first, second))), rule)


def test_gradient_flow_mixes_rows_of_one_with_half_of_the_residual():
    level = answered([[[0.5, 0.5], [1, 0]]], [[[2], [-1]]], [[[1], [3]]])
    # A ∘ ∇A = [[1, 3], [−1, 0]]: the second row is all residual.
    expected = [[0.5 + 0.125, 0.375], [0, 1]]
    np.testing.assert_allclose(relevance("gradient_flow", AttentionTensor((level,))), expected, atol=1e-9)


@pytest.mark.parametrize("held", [True, False])
def test_a_dropped_sink_gives_nothing_to_others_and_keeps_its_own(held):
    attention = by_hand.attention("gpt2", held)
    found = relevance("alti", attention, drop_sink=True)
    assert (found[1:, 0] == 0).all()
    np.testing.assert_allclose(found.sum(-1), 1, atol=1e-9)
