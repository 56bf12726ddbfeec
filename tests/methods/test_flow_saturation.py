"""Ties are counted after rounding, saturation against the input's own column of layer 1."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings

import attnx
from attnx.methods import tied_share
from attnx.methods.flow import column_bound, saturated_share
from tests.methods.flow_attentions import Array, attention, attentions, capacities, residuals


def test_values_tie_when_they_agree_to_nine_decimals() -> None:
    assert tied_share(np.array([1.0, 1.0 - 1e-12, 0.5, 0.25])) == 0.5
    assert tied_share(np.array([1.0, 1.0 - 1e-8, 0.5, 0.25])) == 0.0
    assert tied_share(torch.ones(7)) == 1.0


def test_shares_are_per_row() -> None:
    rows = np.array([[[1.0, 1.0, 0.2, 0.3], [0.1, 0.2, 0.3, 0.4]]])
    np.testing.assert_array_equal(tied_share(rows), [[0.5, 0.0]])
    np.testing.assert_array_equal(saturated_share(rows, np.array([1.0, 1.0, 0.3, 0.4])), [[0.5, 0.5]])


@settings(max_examples=100, deadline=None)
@given(attentions(), residuals)
def test_flow_never_exceeds_the_column_bound(weights: Array, residual: float) -> None:
    assert (attnx.flow(weights, residual=residual) <= column_bound(weights, residual=residual) + 1e-9).all()


def test_the_column_bound_is_the_column_sum_of_layer_one() -> None:
    weights = attention("sharp", layers=3, heads=2, length=6, seed=0)
    sums = np.minimum(1, capacities(weights)[0].sum(0))
    np.testing.assert_allclose(column_bound(weights, position=2), sums, atol=1e-15)
    np.testing.assert_allclose(column_bound(weights, position=2, head="all"), sums, atol=1e-15)
    assert column_bound(weights).shape == (6, 6)


def test_in_a_causal_model_only_queries_up_to_the_position_count() -> None:
    weights = attention("causal", layers=3, heads=1, length=6, seed=0)
    sums = np.minimum(1, capacities(weights)[0][:4].sum(0))
    np.testing.assert_allclose(column_bound(weights, position=3), sums, atol=1e-15)


def test_deep_flow_saturates_and_shallow_flow_does_not() -> None:
    weights = attention("random", layers=12, heads=4, length=20, seed=0)
    found = attnx.flow(weights, position=-1)
    share = saturated_share(found, column_bound(weights, position=-1))
    assert share[0] < 0.2
    assert share[-1] > 0.8
    assert (np.diff(share) >= -0.1).all()


def test_inputs_that_cannot_be_reached_are_not_called_saturated() -> None:
    assert saturated_share(np.array([0.5, 0.0]), np.array([1.0, 0.0])) == 0.0


def test_what_cannot_be_reached_ties_with_nothing():
    assert tied_share(np.array([0.9, 0.6, 0.5, 0.0, 0.0])) == 0
    assert tied_share(np.array([1.0, 1.0, 0.5, 0.0, 0.0])) == pytest.approx(2 / 3)
