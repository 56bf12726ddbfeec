"""Rollout against closed forms and a plain numpy product."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import attnx
from attnx.errors import AttentionError, ChoiceError


def attention(seed=0, layers=4, heads=3, length=6):
    return np.random.default_rng(seed).dirichlet(np.ones(length) * 0.3, (layers, heads, length))


def product(matrices, residual=0.5):
    """Independent of the package: the matrix product of §3.1, written out."""
    result = np.eye(matrices.shape[-1])
    for matrix in matrices:
        mixed = (1 - residual) * matrix + residual * np.eye(len(matrix))
        result = (mixed / mixed.sum(-1, keepdims=True)) @ result
    return result


@given(st.integers(0, 10**6), st.integers(1, 5), st.integers(1, 3), st.integers(1, 7), st.floats(0, 1))
@settings(max_examples=60, deadline=None)
def test_rollout_is_the_product_of_the_layers(seed, layers, heads, length, residual):
    weights = attention(seed, layers, heads, length)
    rolled = attnx.rollout(weights, residual=residual)
    for layer in range(layers):
        np.testing.assert_allclose(rolled[layer], product(weights[: layer + 1].mean(1), residual), atol=1e-12)
    np.testing.assert_allclose(rolled.sum(-1), 1, atol=1e-12)


@given(st.integers(0, 10**6), st.integers(1, 5), st.integers(1, 7))
@settings(max_examples=40, deadline=None)
def test_one_row_equals_the_row_of_all(seed, layers, length):
    weights = attention(seed, layers, length=length)
    for position in range(length):
        np.testing.assert_allclose(
            attnx.rollout(weights, position=position), attnx.rollout(weights)[:, position], atol=1e-12
        )


def test_rows_come_in_the_order_in_which_positions_are_asked_for():
    weights = attention(length=5)
    every = attnx.rollout(weights)
    for positions in ([4, 3, 2, 1, 0], [2, 2, 2, 2, 2], [3, 0], [-1, 0, 1]):
        np.testing.assert_allclose(attnx.rollout(weights, position=positions), every[:, positions], atol=1e-12)


def test_layer_one_is_attention_with_residual():
    weights = attention()
    np.testing.assert_allclose(attnx.rollout(weights, layer=1), weights[0].mean(0) / 2 + np.eye(6) / 2, atol=1e-15)


def test_a_head_stands_alone_in_its_layer_and_heads_are_merged_below():
    weights = attention()
    each = attnx.rollout(weights, head="all")
    assert each.shape == (4, 3, 6, 6)
    for layer in range(4):
        for head in range(3):
            own = np.concatenate([weights[:layer].mean(1), weights[layer : layer + 1, head]])
            np.testing.assert_allclose(each[layer, head], product(own), atol=1e-12)
            np.testing.assert_allclose(attnx.rollout(weights, head=head)[layer], product(own), atol=1e-12)
    np.testing.assert_allclose(attnx.rollout(weights, head="all", layer=3, position=2), each[2, :, 2], atol=1e-15)


def test_the_mean_of_the_heads_is_the_layers_rollout():
    weights = attention()
    np.testing.assert_allclose(attnx.rollout(weights, head="all").mean(1), attnx.rollout(weights), atol=1e-12)


def test_rollout_can_end_above_the_input():
    weights = attention()
    for position in (None, 4):
        down = attnx.rollout(weights, down_to=3, position=position)
        expected = [product(weights[2:3].mean(1)), product(weights[2:4].mean(1))]
        np.testing.assert_allclose(down, expected if position is None else [one[4] for one in expected], atol=1e-12)


@pytest.mark.parametrize("merge", ["max", "min"])
def test_heads_merged_by_extremes_are_made_rows_again(merge):
    weights = attention()
    merged = getattr(weights, merge)(1)
    merged /= merged.sum(-1, keepdims=True)
    np.testing.assert_allclose(attnx.rollout(weights, head=merge, layer=4), product(merged), atol=1e-12)


def test_rows_of_a_sink_are_made_whole_and_rows_of_zeros_stay():
    weights = attention() * 0.5
    np.testing.assert_allclose(attnx.rollout(weights).sum(-1), 1, atol=1e-12)
    assert attnx.rollout(np.zeros((1, 1, 2, 2)), residual=0).tolist() == [[[0, 0], [0, 0]]]


def test_the_kind_of_array_that_comes_in_comes_out():
    weights = attention().astype("float32")
    assert isinstance(attnx.rollout(weights), np.ndarray)
    assert isinstance(attnx.rollout(torch.tensor(weights)), torch.Tensor)
    tensor = attnx.AttentionTensor.of(torch.tensor(weights), torch.ones(4, 6, 6, dtype=torch.bool))
    assert isinstance(attnx.rollout(tensor), torch.Tensor)
    assert attnx.rollout(weights).dtype == np.float64


def test_gradients_flow_through_rollout():
    weights = torch.tensor(attention(), requires_grad=True)
    attnx.rollout(weights, layer=4, position=0)[1].backward()
    assert float(weights.grad.abs().sum()) > 0


def test_raw_is_the_mean_of_heads_without_residual():
    weights = attention()
    np.testing.assert_allclose(attnx.raw(weights), weights.mean(1), atol=1e-15)
    np.testing.assert_allclose(attnx.raw(weights, head="all"), weights, atol=1e-15)
    np.testing.assert_allclose(attnx.raw(weights, layer=2, position=3, head=1), weights[1, 1, 3], atol=1e-15)


BAD_CHOICES = [
    ({"layer": 5}, r"layer 5 was requested, but the model has 4 layers \(1 is closest to the input\)"),
    ({"layer": 0}, "layer 0 was requested"),
    ({"head": 3}, "head 3 was requested, but the model has 3"),
    ({"head": "sum"}, "'all', 'mean', 'max' or 'min'"),
    ({"position": 6}, "position 6 was requested, but the input has 6"),
    ({"residual": 1.5}, "between 0 and 1"),
    ({"down_to": 5}, "down_to=5"),
    ({"layer": 2, "down_to": 3}, "down_to=3"),
]


@pytest.mark.parametrize(("options", "message"), BAD_CHOICES)
def test_a_choice_that_does_not_exist_is_named(options, message):
    with pytest.raises(ChoiceError, match=message):
        attnx.rollout(attention(), **options)


def test_a_position_that_is_a_word_is_named_whole():
    with pytest.raises(ChoiceError, match="position must be a whole number, found 'CLS'"):
        attnx.rollout(np.full((2, 1, 3, 3), 1 / 3), position="CLS")


def test_a_position_may_be_counted_from_the_end():
    np.testing.assert_array_equal(attnx.rollout(attention(), position=-1), attnx.rollout(attention(), position=5))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [(lambda row: -row, "minimum -"), (lambda row: row * np.nan, "sum nan"), (lambda row: row * 1.01, "sum 1.01")],
)
def test_what_is_not_attention_is_named_with_layer_and_row(spoil, message):
    weights = attention()
    weights[2, 1, 4] = spoil(weights[2, 1, 4])
    with pytest.raises(AttentionError, match=f"layer 3, head 1, row 4 .*{message}"):
        attnx.rollout(weights)


@pytest.mark.parametrize("shape", [(3, 4, 4), (2, 1, 3, 4), (0, 1, 2, 2), (2, 2)])
def test_other_shapes_are_refused(shape):
    with pytest.raises(AttentionError, match="layer × head × n × n"):
        attnx.rollout(np.zeros(shape))


def test_merged_heads_cannot_be_taken_apart_again():
    merged = attnx.AttentionTensor.of(
        torch.tensor(attention(heads=1)), torch.ones(4, 6, 6, dtype=torch.bool), head="mean"
    )
    assert attnx.rollout(merged).shape == (4, 6, 6)
    for head in (0, "all", "max"):
        with pytest.raises(ChoiceError, match="head=None"):
            attnx.rollout(merged, head=head)


def test_what_transformers_returns_is_taken_as_it_is():
    weights = torch.tensor(attention())
    np.testing.assert_allclose(attnx.rollout(tuple(one[None] for one in weights)), attnx.rollout(weights))
    with pytest.raises(AttentionError, match="batch axis"):
        attnx.rollout(weights[:, None].expand(-1, 2, -1, -1, -1))
    with pytest.raises(AttentionError, match="found NoneType"):
        attnx.rollout(None)


def test_arrays_of_any_memory_layout_are_read():
    weights = attention()
    for other in (weights.astype(">f8"), weights[::-1][::-1], np.asfortranarray(weights)):
        np.testing.assert_array_equal(attnx.rollout(other), attnx.rollout(weights))
    weights.setflags(write=False)
    assert attnx.rollout(weights).shape == (4, 6, 6)
