"""A product with attention is attention with queries and keys swapped: the numbers are those of its rows."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

import attnx
from attnx.attention import ComputedLayer, Mask, pulled, sdpa_with_logsumexp
from attnx.hooks.capture import capture
from tests import zoo

LENGTH, WIDTH = 33, 8


def level(
    *, causal: bool, keys: int = 4, dtype: torch.dtype = torch.float64, scale: float | None = None
) -> ComputedLayer:
    random = torch.Generator().manual_seed(0)
    query, key, value = (2 * torch.randn(1, n, LENGTH, WIDTH, generator=random, dtype=dtype) for n in (4, keys, keys))
    found = sdpa_with_logsumexp(query, key, value, is_causal=causal, scale=scale, enable_gqa=keys < 4)
    assert found is not None
    assert torch.equal(
        found[0], F.scaled_dot_product_attention(query, key, value, is_causal=causal, scale=scale, enable_gqa=keys < 4)
    )
    return ComputedLayer(query[0], key[0], Mask(LENGTH, key.device, triangular=causal), scale, sums=found[1][0])


def some_vectors(count: int) -> torch.Tensor:
    """Of weights that span many orders, as rollout's do."""
    vectors = torch.rand(count, LENGTH, generator=torch.Generator().manual_seed(1), dtype=torch.float64) ** 20
    return vectors / vectors.sum(-1, keepdim=True)


def by_rows(one: ComputedLayer, vectors: torch.Tensor) -> torch.Tensor:
    return vectors @ one.rows(0, LENGTH).weights.double().mean(0)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("how", [{}, {"keys": 2}, {"scale": 0.7}])
@pytest.mark.parametrize("vectors", [1, 3, 2 * WIDTH + 5])
def test_a_product_without_rows_is_the_product_with_them(causal, how, vectors):
    one, given = level(causal=causal, **how), some_vectors(vectors)
    torch.testing.assert_close(pulled(one, given), by_rows(one, given), atol=1e-14, rtol=1e-11)


def test_in_single_precision_each_number_is_right_to_six_digits():
    one, given = level(causal=True, dtype=torch.float32), some_vectors(5)
    torch.testing.assert_close(pulled(one, given), by_rows(one, given), atol=0, rtol=1e-5)


def test_queries_behind_the_last_one_asked_for_take_no_part():
    one, given = level(causal=True), some_vectors(2)
    given[:, 10:] = 0
    found = pulled(one, given)
    assert not found[:, 10:].any()
    torch.testing.assert_close(found, by_rows(one, given), atol=1e-14, rtol=1e-11)
    assert not pulled(one, torch.zeros(1, LENGTH, dtype=torch.float64)).any()


def test_where_the_kernel_tells_no_sums_rows_are_used():
    query = torch.randn(1, 2, 5, 4)
    assert sdpa_with_logsumexp(query, query, query, attn_mask=torch.ones(5, 5).bool()) is None
    assert sdpa_with_logsumexp(query, query, query, dropout_p=0.1) is None
    assert sdpa_with_logsumexp(*[query.bfloat16()] * 3) is None
    assert sdpa_with_logsumexp(*[query.requires_grad_()] * 3) is None
    assert pulled(replace(level(causal=True), sums=None), some_vectors(1)) is None


def test_sums_that_are_not_those_of_the_rows_are_found_out():
    one = level(causal=True)
    assert pulled(replace(one, sums=one.sums + 0.01), some_vectors(2)) is None


@pytest.mark.parametrize(("name", "known"), [("gpt2", True), ("bert", True), ("llama", True), ("mistral", False)])
def test_rollout_of_a_model_is_the_same_with_and_without_rows(name, known):
    attention = capture(zoo.model(name), held=False, **zoo.inputs(name, 13))
    assert all((one.sums is not None) == known for one in attention.layers)
    without = replace(attention, layers=tuple(replace(one, sums=None) for one in attention.layers))
    choices = {"position": [5, 12]}
    torch.testing.assert_close(
        attnx.rollout(attention, **choices), attnx.rollout(without, **choices), atol=1e-7, rtol=1e-5
    )
