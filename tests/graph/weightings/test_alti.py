"""`alti` against an independent numpy version, and against closed forms."""

import numpy as np
import pytest
import torch

from attnx.graph import decomposition as taken_apart
from attnx.graph.decomposition import contributions
from tests.graph.weightings import by_hand


def by_definition(level):
    _, parts, whole = by_hand.parts(level, "norm")
    nearer = np.abs(whole).sum(-1)[:, None] - np.abs(whole[:, None] - parts).sum(-1)
    return by_hand.normalize_rows(nearer.clip(0))


def matrix(level):
    return contributions(level, 0, level.mask.length).weights[0].numpy()


@pytest.mark.parametrize("name", by_hand.SOME)
def test_it_equals_an_independent_version(name):
    for level in by_hand.attention(name).layers:
        np.testing.assert_allclose(matrix(level), by_definition(level), atol=1e-10)


@pytest.mark.parametrize("name", ["gpt2", "mistral", "bert"])
def test_vectors_in_small_blocks_give_the_same(name, monkeypatch):
    level, computed = by_hand.attention(name).layers[1], by_hand.attention(name, held=False).layers[1]
    expected = matrix(level)
    monkeypatch.setattr(taken_apart, "MAX_BLOCK_ELEMENTS", 300)
    np.testing.assert_allclose(matrix(level), expected, atol=1e-12)
    block = contributions(computed, 3, 6)
    np.testing.assert_allclose(block.weights[0], expected[3:6, block.keys], atol=1e-10)


def test_keys_that_are_masked_give_exactly_nothing():
    found = matrix(by_hand.attention("gpt2").layers[0])
    assert (np.triu(found, 1) == 0).all()


def test_parts_of_one_sign_count_by_their_sums():
    rng = np.random.default_rng(0)
    weights, values = by_hand.normalize_rows(rng.random((2, 4, 4))), rng.random((2, 4, 3))
    level = by_hand.made_up(weights, values)
    sums = (weights * values.sum(-1)[:, None]).sum(0)
    np.testing.assert_allclose(matrix(level), by_hand.normalize_rows(sums), atol=1e-12)


def test_one_position_and_no_values_keep_all_where_it_is():
    assert matrix(by_hand.made_up(np.ones((1, 1, 1)), np.ones((1, 1, 2)))).tolist() == [[1]]
    states = np.random.default_rng(0).normal(size=(3, 4))
    level = by_hand.made_up(np.full((1, 3, 3), 1 / 3), np.zeros((1, 3, 4)), states=states)
    np.testing.assert_allclose(matrix(level), np.eye(3))


def test_a_row_whose_parts_are_all_clipped_keeps_all_where_it_is():
    level = by_hand.made_up(np.full((1, 2, 2), 0.5), -np.ones((1, 2, 3)), bias=np.full(3, 9.0))
    np.testing.assert_allclose(matrix(level), np.eye(2))


def test_single_precision_is_near_double():
    level = by_hand.attention("llama").layers[2]
    captured = {name: one.float() if one.is_floating_point() else one for name, one in level.captured.items()}
    single = type(level)(level.weights.float(), level.mask, captured=captured)
    torch.testing.assert_close(torch.tensor(matrix(single)), torch.tensor(matrix(level)), atol=1e-5, rtol=0)
