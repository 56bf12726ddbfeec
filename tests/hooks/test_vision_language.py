"""A picture and a text as one chain: vision tower, projector, decoder."""

from __future__ import annotations

import pytest
import torch

import attnx
from attnx.adapters import find_projection
from attnx.errors import CaptureError
from attnx.graph import Graph
from attnx.hooks import capture_batch
from tests import pictures_with_text as zoo

FAMILIES = list(zoo.FAMILIES)


def mixed(attention):
    """Half the mean of the heads, half what stays, of head × query × key."""
    return 0.5 * attention.double().mean(0) + 0.5 * torch.eye(attention.shape[-1], dtype=torch.float64)


def eager_maps(family):
    """What transformers' eager attention softmaxes, of the tower and of the decoder, each head × query × key."""
    row = zoo.FAMILIES[family]
    model = type(zoo.model(family))._from_config(zoo.model(family).config, attn_implementation="eager").eval()
    model.load_state_dict(zoo.model(family).state_dict())
    seen = []
    plain = torch.nn.functional.softmax

    def softmax(*args, **kwargs):
        seen.append(plain(*args, **kwargs))
        return seen[-1]

    torch.nn.functional.softmax = softmax
    try:
        with torch.no_grad():
            model(**row.inputs())
    finally:
        torch.nn.functional.softmax = plain
    length = row.inputs()["input_ids"].shape[1]
    decoder = [one[0] for one in seen[-2:]]
    assert all(one.shape[-1] == length for one in decoder)
    return seen[:-2], decoder


@pytest.mark.parametrize("family", FAMILIES)
def test_rollout_of_the_chain_is_the_product_of_eagers_own_maps(family):
    model, inputs = zoo.model(family), zoo.FAMILIES[family].inputs()
    found = find_projection(model, inputs)
    calls, decoder = eager_maps(family)
    length, patches = inputs["input_ids"].shape[1], found.patches
    below = torch.eye(length + patches, dtype=torch.float64)
    place = 0
    layer = torch.zeros(patches, patches, dtype=torch.float64)
    left = len(found.tower)
    for one in (tile for call in calls for tile in call):
        size = one.shape[-1]
        layer[place : place + size, place : place + size] = mixed(one)
        place += size
        if place == patches and left:
            below[length:, length:] = layer @ below[length:, length:]
            place, left, layer = 0, left - 1, torch.zeros_like(layer)
    projector = torch.eye(length + patches, dtype=torch.float64)
    for token, read in enumerate(found.reads):
        if read:
            projector[token] = 0
            projector[token, [length + patch for patch in read]] = 1 / len(read)
    below = projector @ below
    for one in decoder:
        below[:length] = mixed(one) @ below[:length]
    rolled = attnx.rollout(attnx.capture(model, **inputs), layer="decoder")
    torch.testing.assert_close(rolled, below, atol=2e-6, rtol=0)
    torch.testing.assert_close(rolled.sum(-1), torch.ones(length + patches, dtype=torch.float64))


@pytest.mark.parametrize("family", ["llava", "llava_next", "qwen2_vl", "idefics3"])
def test_long_inputs_whose_maps_are_computed_give_the_same(family):
    model, inputs = zoo.model(family), zoo.FAMILIES[family].inputs()
    held, computed = (attnx.rollout(attnx.capture(model, held=one, **inputs), layer="decoder") for one in (True, False))
    torch.testing.assert_close(held, computed, atol=2e-6, rtol=0)


def test_a_picture_whose_tokens_are_masked_gives_nothing():
    inputs = zoo.FAMILIES["llava"].inputs()
    length = inputs["input_ids"].shape[1]
    visible = torch.ones(length, length).tril().bool()
    visible[-2:, 1:17] = False  # the words behind the picture do not see it
    masked = {**inputs, "attention_mask": torch.where(visible, 0.0, -1e9)[None, None]}
    rolled = attnx.rollout(attnx.capture(zoo.model("llava"), **masked), layer="decoder", position=length - 1)
    assert float(rolled[length:].abs().max()) == 0
    assert float(rolled[1:17].abs().max()) == 0
    assert float(rolled.sum()) == pytest.approx(1)


def test_image_tokens_hold_nothing_of_their_own_at_the_input():
    attention = attnx.capture(zoo.model("llava"), **zoo.FAMILIES["llava"].inputs())
    rolled = attnx.rollout(attention, layer="decoder")
    assert float(rolled[:, 1:17].abs().max()) == 0
    assert attention.kinds == ("vision", "vision", "projector", "decoder", "decoder")
    assert attention.written == slice(0, 19)


def test_the_share_of_the_residual_does_not_change_the_projector():
    attention = attnx.capture(zoo.model("llava"), **zoo.FAMILIES["llava"].inputs())
    rows = [attnx.raw(attention, layer="projector", residual=share) for share in (0.0, 0.5)]
    assert torch.equal(*(row[1:17] for row in rows))


@pytest.mark.parametrize("edge_weights", ["rollout", "alti", "flow"])
def test_rows_sum_to_one_or_flow_is_at_most_one(edge_weights):
    extras = ("blocks",) if edge_weights == "alti" else ()
    attention = attnx.capture(zoo.model("llava_next"), extras=extras, **zoo.FAMILIES["llava_next"].inputs())
    if edge_weights == "flow":
        found = attnx.flow(attention, layer="decoder", position=attention.written.stop - 1)
        assert float(found.min()) >= 0
        assert float(found.max()) <= 1 + 1e-9
        return
    graph = Graph.of(attention, edge_weights="alti" if edge_weights == "alti" else "attention")
    product = torch.eye(graph.length, dtype=torch.float64)
    for edges in graph.layers:
        product = edges.compose(product)
    torch.testing.assert_close(product.sum(-1), torch.ones(graph.length, dtype=torch.float64))


def test_several_inputs_at_once_are_refused_with_what_to_do():
    inputs = zoo.FAMILIES["llava"].inputs()
    double = {name: torch.cat([one, one]) for name, one in inputs.items()}
    with pytest.raises(CaptureError, match="several stacks"):
        capture_batch(zoo.model("llava"), double)
