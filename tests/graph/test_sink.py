"""The first token of a decoder: its share, and relevance without it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import attnx
from attnx.errors import ChoiceError
from attnx.graph import sink_share
from tests import streams_zoo
from tests.methods.test_receptive_field import attention, even, mask, wrap


def with_sink(share, seed=0, length=6):
    """Random causal attention in which every later query gives that share to position 0."""
    weights, tensor = attention("causal", seed, length=length)
    weights[:, :, 1:, 0] = 0
    weights[:, :, 1:] *= (1 - share) / weights[:, :, 1:].sum(-1, keepdims=True)
    weights[:, :, 1:, 0] = share
    return weights, wrap(weights, tensor.visible.numpy())


def test_the_share_is_the_mean_over_later_queries():
    weights, tensor = attention("causal")
    np.testing.assert_allclose(sink_share(tensor), weights[:, :, 1:, 0].mean((1, 2)))
    np.testing.assert_allclose(sink_share(weights, head="all"), weights[:, :, 1:, 0].mean(2))
    np.testing.assert_allclose(sink_share(weights, head=2, layer=3), weights[2, 2, 1:, 0].mean())
    assert isinstance(sink_share(weights), np.ndarray)
    assert isinstance(sink_share(tensor), torch.Tensor)


def test_only_queries_that_see_the_sink_count():
    weights, tensor = attention("causal window")
    np.testing.assert_allclose(sink_share(tensor), weights[:, :, 1:3, 0].mean((1, 2)))
    weights, tensor = attention("causal padded")
    np.testing.assert_allclose(sink_share(tensor), weights[:, :, 3:, 2].mean((1, 2)))


def test_evenly_spread_attention_has_the_share_of_the_docs():
    np.testing.assert_allclose(sink_share(even(mask("causal", 1, 5))), [np.mean([1 / 2, 1 / 3, 1 / 4, 1 / 5])])


@pytest.mark.parametrize("method", ["raw", "rollout", "flow"])
@pytest.mark.parametrize("head", [None, 1, "all"])
def test_dropped_is_as_if_the_first_position_were_no_key(method, head):
    weights, tensor = with_sink(0.7)
    call = getattr(attnx, method)
    without = weights.copy()
    without[..., 0] = 0
    np.testing.assert_allclose(call(tensor, head=head, drop_sink=True), call(without, head=head), atol=1e-9)
    np.testing.assert_allclose(call(weights, head=head, drop_sink=True), call(without, head=head), atol=1e-9)


def test_the_sink_has_no_relevance_but_for_itself():
    dropped = attnx.rollout(with_sink(0.7)[0], drop_sink=True)
    assert (dropped[:, 1:, 0] == 0).all()
    np.testing.assert_allclose(dropped[:, 0, 0], 1)
    np.testing.assert_allclose(dropped.sum(-1), 1)


def test_a_layer_that_gives_all_to_the_sink_does_nothing():
    weights, _ = with_sink(0.3)
    weights[2] = 0
    weights[2, :, :, 0] = 1
    np.testing.assert_allclose(
        attnx.rollout(weights, drop_sink=True, layer=4),
        attnx.rollout(np.delete(weights, 2, 0), drop_sink=True, layer=3),
        atol=1e-12,
    )


def test_without_the_sink_the_rest_is_still_held_against_its_reach():
    """An uninformed decoder that does not see its first token prefers none of the others."""
    decoder = even(mask("causal", 4, 7))
    for method in (attnx.rollout, attnx.flow):
        fair = method(decoder, position=-1, drop_sink=True, normalize="receptive_field")
        assert (fair[:, 0] == 0).all()
        np.testing.assert_allclose(fair[:, 1:-1], np.repeat(fair[:, 1:2], 5, 1), atol=1e-9)


def test_no_other_model_has_a_first_token_to_drop():
    weights, _ = attention("all")
    for call in (sink_share, lambda one: attnx.rollout(one, drop_sink=True)):
        with pytest.raises(ChoiceError, match="first token of a decoder"):
            call(weights)
    with pytest.raises(ChoiceError, match="longer input"):
        sink_share(np.ones((2, 1, 1, 1)))


class TestOutputOfAnEncoderDecoder:
    """Its sink is the start of the output: source 3 positions, output 4, of which position 3 is the start."""

    def chain(self):
        encoder = [streams_zoo.rows_of_one(2, 3, 3, seed=1)]
        layers = [
            (streams_zoo.rows_of_one(2, 4, 4, seed=seed, causal=True), streams_zoo.rows_of_one(2, 4, 3, seed=seed + 9))
            for seed in (2, 3)
        ]
        return encoder, layers

    def test_its_share_is_of_the_output_s_own_attention_alone(self):
        encoder, layers = self.chain()
        attention = streams_zoo.by_hand(encoder, layers)
        expected = [0.0] + [share for own, _ in layers for share in (float(own[:, 1:, 0].mean()), 0.0)]
        np.testing.assert_allclose(sink_share(attention), expected)
        np.testing.assert_allclose(sink_share(attention, layer="self 2"), expected[3])
        np.testing.assert_allclose(sink_share(attention, head="all")[1], layers[0][0][:, 1:, 0].mean(1))

    def test_an_output_of_its_start_alone_has_no_sink(self):
        attention = streams_zoo.by_hand([np.ones((1, 1, 1))], [(np.ones((1, 1, 1)), np.ones((1, 1, 1)))])
        with pytest.raises(ChoiceError, match="no later position sees position 1"):
            sink_share(attention)

    @pytest.mark.parametrize("method", [attnx.rollout, attnx.flow])
    def test_dropped_it_takes_nothing_and_the_source_is_left_alone(self, method):
        encoder, layers = self.chain()
        without = [(own.clone(), cross) for own, cross in layers]
        for own, _ in without:
            own[:, :, 0] = 0
        found = method(streams_zoo.by_hand(encoder, layers), drop_sink=True)
        np.testing.assert_allclose(found, method(streams_zoo.by_hand(encoder, without)), atol=1e-9)
        assert float(found[-1, 4:, 3].abs().max()) == 0
