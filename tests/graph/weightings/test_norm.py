"""`norm`, `norm_residual` and `globenc` against all vectors written out, and against closed forms."""

import numpy as np
import pytest
import torch

from attnx.graph import Contributions
from attnx.graph.decomposition import norms, norms_of_encoder, norms_of_heads, norms_with_residual
from tests.graph.weightings import by_hand


def matrix(function, level):
    return function(level, 0, level.mask.length).weights


@pytest.mark.parametrize("name", by_hand.SOME)
def test_norms_equal_all_vectors_written_out(name):
    for level in by_hand.attention(name).layers:
        alone, whole, _ = by_hand.parts(level, "norm")
        expected = by_hand.normalize_rows(np.linalg.norm(alone, axis=-1))
        np.testing.assert_allclose(matrix(norms, level)[0], expected, atol=1e-7)
        expected = by_hand.normalize_rows(np.linalg.norm(whole, axis=-1))
        np.testing.assert_allclose(matrix(norms_with_residual, level)[0], expected, atol=1e-7)
        if "norm.gain" not in level.captured:
            assert torch.equal(matrix(norms_of_encoder, level), matrix(norms_with_residual, level))
            continue
        _, whole, _ = by_hand.parts(level, "norm", "last")
        np.testing.assert_allclose(
            matrix(norms_of_encoder, level)[0], np.linalg.norm(whole, axis=-1), rtol=1e-6, atol=1e-7
        )


@pytest.mark.parametrize("name", by_hand.SOME)
def test_parts_sum_to_what_goes_on(name):
    for level in by_hand.attention(name).layers:
        _, _, expected = by_hand.parts(level, "norm")
        weights = level.rows(0, level.mask.length).weights
        found = Contributions.of(level, "norm").outputs(weights, 0, slice(0, level.mask.length))
        np.testing.assert_allclose(found, expected, atol=1e-10)


@pytest.mark.parametrize("function", [norms, norms_of_heads, norms_with_residual, norms_of_encoder])
@pytest.mark.parametrize("name", ["gpt2", "mistral"])
def test_some_rows_are_those_of_all(name, function):
    for held, computed in zip(by_hand.attention(name).layers, by_hand.attention(name, held=False).layers, strict=True):
        expected = matrix(function, held)[:, 3:6]
        for level in (held, computed):
            block = function(level, 3, 6)
            torch.testing.assert_close(block.weights, expected[..., block.keys], atol=1e-7, rtol=1e-5)


def test_one_key_that_is_looked_at_has_all_of_the_norm():
    values = np.random.default_rng(0).normal(size=(2, 3, 4))
    weights = np.zeros((2, 3, 3))
    weights[:, :, 1] = 1
    level = by_hand.made_up(weights, values)
    assert Contributions.of(level).norms(level.weights, 0)[0, 1] == pytest.approx(np.linalg.norm(values[:, 1]))
    np.testing.assert_allclose(matrix(norms, level)[0], weights[0])


def test_heads_that_cancel_hand_nothing_over():
    weights, values = np.full((2, 2, 2), 0.5), np.ones((2, 2, 3))
    values[1, 0] = -1
    level = by_hand.made_up(weights, values, projection=np.tile(np.eye(3), 2))
    np.testing.assert_allclose(matrix(norms, level)[0], [[0, 1], [0, 1]], atol=1e-12)
    np.testing.assert_allclose(matrix(norms_of_heads, level), np.full((2, 2, 2), 0.5))


def test_values_of_one_size_give_attention_itself():
    rng = np.random.default_rng(1)
    weights = by_hand.normalize_rows(rng.random((1, 4, 4)))
    level = by_hand.made_up(weights, np.eye(4)[None])
    np.testing.assert_allclose(matrix(norms, level), weights, atol=1e-12)


@pytest.mark.parametrize("function", [norms_with_residual, norms_of_encoder])
def test_no_values_leave_everything_where_it_is(function):
    states = np.eye(3) * 2
    level = by_hand.made_up(np.full((1, 3, 3), 1 / 3), np.zeros((1, 3, 3)), states=states)
    found = matrix(function, level)[0]
    np.testing.assert_allclose(found / found.sum(-1, keepdims=True), np.eye(3), atol=1e-12)


def test_scaling_all_values_changes_nothing():
    level = by_hand.attention("gpt2").layers[0]
    captured = {**level.captured, "values": level.captured["values"] * -3}
    torch.testing.assert_close(
        matrix(norms, type(level)(level.weights, level.mask, captured=captured)), matrix(norms, level)
    )
