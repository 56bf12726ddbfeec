"""`effective` leaves every head's output as it is, with weights of least norm."""

import numpy as np
import pytest
import torch

from attnx.graph.decomposition import expanded_values
from attnx.graph.gradient import effective, effective_attention, effective_heads
from tests.graph.weightings import by_hand


def random_level(length, width, *, causal=False, seed=0):
    rng = np.random.default_rng(seed)
    weights = rng.random((2, length, length))
    weights = np.tril(weights) if causal else weights
    return by_hand.made_up(by_hand.normalize_rows(weights), rng.normal(size=(2, length, width)), masked=causal)


def matrix(level, function=effective_attention):
    return function(level, 0, level.mask.length).weights


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("length", [3, 5, 12])
def test_the_head_output_is_unchanged_and_the_weights_are_the_least(length, causal):
    level = random_level(length, 4, causal=causal)
    found, values = matrix(level).numpy(), expanded_values(level).numpy()
    np.testing.assert_allclose(found @ values, level.weights.numpy() @ values, atol=1e-10)
    for head in range(2):
        for query in range(length):
            keys = slice(0, query + 1) if causal else slice(None)
            output = level.weights[head, query].numpy() @ values[head]
            least = np.linalg.lstsq(values[head, keys].T, output, rcond=None)[0]
            np.testing.assert_allclose(found[head, query, keys], least, atol=1e-8)
    if causal:
        assert (np.triu(found, 1) == 0).all()


@pytest.mark.parametrize("name", by_hand.SOME)
def test_every_family_keeps_its_outputs(name):
    for level in by_hand.attention(name).layers:
        torch.testing.assert_close(
            matrix(level) @ expanded_values(level), level.weights @ expanded_values(level), atol=1e-8, rtol=0
        )


def test_no_more_keys_than_channels_leave_attention_as_it_is():
    level = random_level(4, 4)
    torch.testing.assert_close(matrix(level), level.weights, atol=1e-10, rtol=0)


def test_what_the_values_cannot_see_is_not_in_it():
    level = random_level(8, 3)
    basis = torch.linalg.svd(level.captured["values"], full_matrices=True).U[..., 3:]
    torch.testing.assert_close(matrix(level) @ basis, torch.zeros(2, 8, 5).double(), atol=1e-10, rtol=0)
    unseen = level.weights + torch.einsum("hik,hjk->hij", torch.rand(2, 8, 5).double(), basis)
    torch.testing.assert_close(matrix(type(level)(unseen, level.mask, captured=level.captured)), matrix(level))


def test_dependent_values_are_taken_apart_as_well():
    level = random_level(9, 4)
    values = level.captured["values"].clone()
    values[..., 3] = values[..., 0]
    level = type(level)(level.weights, level.mask, captured={**level.captured, "values": values})
    torch.testing.assert_close(matrix(level) @ values, level.weights @ values, atol=1e-10, rtol=0)


@pytest.mark.parametrize(("length", "width"), [(4, 8), (12, 4)])
def test_values_that_depend_on_each_other_but_for_rounding_are_taken_for_dependent(length, width):
    """In double precision rounding leaves each of them a pivot of about 1e-8."""
    for seed in range(40):
        level = random_level(length, width, seed=seed)
        values = level.captured["values"].clone()
        by_size = values if length > width else values.mT
        by_size[..., 3] = by_size[..., 0] + by_size[..., 1]
        level = type(level)(level.weights, level.mask, captured={**level.captured, "values": values})
        basis, sizes, _ = torch.linalg.svd(values, full_matrices=False)
        basis = basis * (sizes > 1e-12 * sizes[:, :1])[:, None]
        torch.testing.assert_close(matrix(level), level.weights @ basis @ basis.mT, atol=1e-9, rtol=0)


def test_edges_are_sizes_with_rows_of_one():
    level = random_level(9, 3)
    expected = matrix(level).abs().mean(0)
    torch.testing.assert_close(matrix(level, effective)[0], expected / expected.sum(-1, keepdim=True))
    torch.testing.assert_close(matrix(level, effective_heads).sum(-1), torch.ones(2, 9).double())
