"""Rollout without the lowest weights: what is dropped, what stays, and that rows still sum to 1."""

import numpy as np
import pytest
import torch

import attnx
from attnx.errors import ChoiceError
from attnx.graph.edges import discard_lowest
from tests import zoo


def attention(layers=4, heads=3, length=10, seed=0):
    return np.random.default_rng(seed).dirichlet(np.full(length, 0.5), size=(layers, heads, length))


def by_hand(weights, share, keep_position):
    """One entry after the other, lowest first."""
    length = len(weights)
    order = sorted((weights[row][column], row, column) for row in range(length) for column in range(length))
    left = weights.copy()
    for _, row, column in order[: int(share * length * length)]:
        if column != keep_position:
            left[row, column] = 0
    sums = left.sum(1, keepdims=True)
    return left / np.where(sums > 0, sums, 1)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 0.99])
@pytest.mark.parametrize("keep_position", [0, 3, None])
def test_the_lowest_share_of_a_layer_is_dropped_and_rows_sum_to_one(share, keep_position):
    weights = attention()[0, 0]
    found = discard_lowest(torch.tensor(weights), share, keep_position).numpy()
    np.testing.assert_allclose(found, by_hand(weights, share, keep_position), atol=1e-12)
    assert set(np.round(found.sum(1), 9)) <= {0.0, 1.0}


@pytest.mark.parametrize("fusion", ["mean", "max", "min"])
def test_rollout_is_that_of_the_layers_without_their_noise(fusion):
    weights = attention()
    fused = getattr(weights, fusion)(1)
    fused = fused / fused.sum(-1, keepdims=True)
    expected = np.eye(10)
    for layer in fused:
        mixed = 0.5 * by_hand(layer, 0.8, 0) + 0.5 * np.eye(10)
        expected = mixed / mixed.sum(1, keepdims=True) @ expected
    found = attnx.rollout(weights, layer=4, head=fusion, discard_ratio=0.8)
    np.testing.assert_allclose(found, expected, atol=1e-12)
    np.testing.assert_allclose(found.sum(1), 1)


def test_each_head_is_thinned_by_itself():
    weights = attention()
    each = attnx.rollout(weights, layer=1, head="all", discard_ratio=0.7)
    for head in range(3):
        mixed = 0.5 * by_hand(weights[0, head], 0.7, 0) + 0.5 * np.eye(10)
        np.testing.assert_allclose(each[head], mixed, atol=1e-12)


def test_ties_stay_together():
    """Even weights have no lowest: which of them go would be chance."""
    flat = torch.full((5, 5), 0.2)
    torch.testing.assert_close(discard_lowest(flat, 0.9), flat)


def test_nothing_discarded_is_rollout():
    np.testing.assert_array_equal(attnx.rollout(attention(), discard_ratio=0.0), attnx.rollout(attention()))


@pytest.mark.parametrize("share", [-0.1, 1, 1.0, 2, "x", True, float("nan")])
def test_a_share_that_leaves_nothing_is_refused(share):
    with pytest.raises(ChoiceError, match="discard_ratio must be at least 0"):
        attnx.rollout(attention(), discard_ratio=share)


def test_spared_is_a_position_of_the_input():
    with pytest.raises(ChoiceError, match="position 10 was requested"):
        attnx.rollout(attention(), discard_ratio=0.5, keep_position=10)


def test_every_image_of_a_batch_is_thinned():
    """Public code that sets weights of the first image only would leave the second as it was."""
    images = [{"pixel_values": torch.randn(1, 3, 32, 32, generator=torch.Generator().manual_seed(i))} for i in (1, 2)]
    model = zoo.model("vit")
    together = attnx.explain(model, None, images, discard_ratio=0.9)
    for image, one in zip(images, together, strict=True):
        weights = attnx.capture(model, **image)
        np.testing.assert_allclose(one["rollout"], attnx.rollout(weights, position=0, discard_ratio=0.9), atol=1e-6)
        np.testing.assert_allclose(one["flow"], attnx.flow(weights, position=0), atol=1e-6)
        assert one.provenance["settings"]["discard_ratio"] == 0.9
        assert np.abs(one["rollout"] - attnx.rollout(weights, position=0).numpy()).max() > 0.01


def test_without_cls_no_patch_is_spared():
    image = {"pixel_values": torch.randn(1, 3, 32, 32, generator=torch.Generator().manual_seed(1))}
    model = zoo.model("siglip_vision_model")
    one = attnx.explain(model, None, image, position=5, discard_ratio=0.9)
    expected = attnx.rollout(attnx.capture(model, **image), position=5, discard_ratio=0.9, keep_position=None)
    np.testing.assert_allclose(one["rollout"], expected, atol=1e-6)


def test_discard_needs_a_method_that_discards():
    image = {"pixel_values": torch.zeros(1, 3, 32, 32)}
    with pytest.raises(ChoiceError, match="raw, flow discards nothing; use rollout"):
        attnx.explain(zoo.model("vit"), None, image, methods=["raw", "flow"], discard_ratio=0.9)
