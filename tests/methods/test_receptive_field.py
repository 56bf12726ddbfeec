"""Both normalisations for decoders, against their definitions written out in numpy, and the properties they promise."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import attnx
from attnx.errors import AttentionError, ChoiceError
from attnx.methods import flow as flow_module
from tests import zoo
from tests.methods.flow_attentions import residuals

some = settings(max_examples=40, deadline=None)
METHODS = ("rollout", "flow")
methods = st.sampled_from(METHODS)
MASKS = ("all", "causal", "window", "causal window", "padded left", "causal padded", "layers differ")


def mask(kind, layers, length):
    """layer × query × key."""
    query, key = np.indices((length, length))
    seen = np.ones((layers, length, length), bool)
    if "causal" in kind:
        seen &= key <= query
    if "window" in kind:
        seen &= abs(query - key) <= 2
    if "padded" in kind:
        seen &= key >= min(2, length - 1)
    if kind == "layers differ":
        seen[1::2] &= abs(query - key) <= 1
    return seen


def attention(kind, seed=0, layers=4, heads=3, length=6):
    """(weights, AttentionTensor) of random attention behind a mask; a query that sees nothing has a row of zeros."""
    seen = mask(kind, layers, length)
    weights = np.random.default_rng(seed).exponential(size=(layers, heads, length, length)) ** 2 * seen[:, None]
    weights /= np.maximum(weights.sum(-1, keepdims=True), 1e-300)
    return weights, wrap(weights, seen)


def wrap(weights, seen):
    return attnx.AttentionTensor.of(torch.tensor(weights), torch.tensor(seen))


def even(seen):
    """The uninformed model behind a mask: layer × 1 × query × key."""
    return (seen / np.maximum(seen.sum(-1, keepdims=True), 1))[:, None]


def in_shares(rows):
    sums = rows.sum(-1, keepdims=True)
    return rows / np.where(sums > 0, sums, 1)


def by_definition(method, weights, seen, residual=0.5, **options):
    """R · B / U with three calls of the plain method, each row scaled back to its own sum."""
    call = getattr(attnx, method)
    everything = np.broadcast_to(seen.any((0, 1)), seen.shape)
    relevance = call(weights, residual=residual, **options)
    reach, free = (call(even(one), residual=residual) for one in (seen, everything))
    if options.get("head") == "all":
        reach, free = reach[:, None], free[:, None]
    fair = np.where(reach > 0, relevance * free / np.where(reach > 0, reach, 1), 0)
    sums = fair.sum(-1, keepdims=True)
    return fair * relevance.sum(-1, keepdims=True) / np.where(sums > 0, sums, 1)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize("head", [None, "all", 1, "max"])
def test_it_is_what_the_definition_says(method, kind, head):
    weights, tensor = attention(kind)
    expected = by_definition(method, weights, mask(kind, 4, 6), head=head)
    found = getattr(attnx, method)(tensor, head=head, normalize="receptive_field")
    np.testing.assert_allclose(found, expected, atol=1e-8)
    row = getattr(attnx, method)(tensor, head=head, normalize="receptive_field", position=4, layer=3)
    np.testing.assert_allclose(row, expected[2, ..., 4, :], atol=1e-8)


@some
@given(st.sampled_from(MASKS), st.integers(0, 999), st.integers(1, 6), st.integers(1, 7), residuals, methods)
def test_it_is_what_the_definition_says_for_any_attention(kind, seed, layers, length, residual, method):
    weights, tensor = attention(kind, seed, layers, 2, length)
    expected = by_definition(method, weights, mask(kind, layers, length), residual)
    found = getattr(attnx, method)(tensor, residual=residual, normalize="receptive_field")
    np.testing.assert_allclose(found, expected, atol=1e-7)


@some
@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 7), residuals, st.sampled_from(["raw", *METHODS]))
def test_a_bidirectional_model_is_unchanged(seed, layers, length, residual, method):
    weights, _ = attention("all", seed, layers, 2, length)
    call = getattr(attnx, method)
    for normalize in ("receptive_field", "column"):
        np.testing.assert_allclose(
            call(weights, residual=residual, normalize=normalize), call(weights, residual=residual), atol=1e-8
        )


@some
@given(st.sampled_from(MASKS), st.integers(1, 6), st.integers(1, 7), residuals, methods)
def test_an_uninformed_model_gets_what_one_that_sees_everything_gets(kind, layers, length, residual, method):
    seen = mask(kind, layers, length)
    call = getattr(attnx, method)
    fair = call(wrap(even(seen), seen), residual=residual, normalize="receptive_field").numpy()
    everything = call(even(np.broadcast_to(seen.any((0, 1)), seen.shape)), residual=residual)
    free = np.where(call(even(seen), residual=residual) > 0, everything, 0)
    np.testing.assert_allclose(in_shares(fair), in_shares(free), atol=1e-7)


def test_the_last_row_of_an_uninformed_decoder_prefers_nothing_but_itself():
    fair = attnx.rollout(even(mask("causal", 5, 8)), position=-1, normalize="receptive_field")
    np.testing.assert_allclose(fair[:, :-1], np.repeat(fair[:, :1], 7, 1), atol=1e-12)
    np.testing.assert_allclose(fair[:, -1] - fair[:, 0], 0.5 ** np.arange(1, 6), atol=1e-12)


@pytest.mark.parametrize("normalize", ["receptive_field", "column"])
def test_rows_keep_their_sums(normalize):
    weights, tensor = attention("causal")
    np.testing.assert_allclose(attnx.rollout(tensor, normalize=normalize).sum(-1), 1, atol=1e-12)
    flows = attnx.flow(tensor, normalize="receptive_field")
    np.testing.assert_allclose(flows.sum(-1), attnx.flow(weights).sum(-1), atol=1e-12)


def test_what_a_query_cannot_reach_has_nothing():
    _, tensor = attention("causal window", length=8, layers=2)
    reach = np.linalg.matrix_power(mask("causal window", 1, 8)[0].astype(int), 2) > 0
    for method in METHODS:
        for normalize in ("receptive_field", "column"):
            fair = getattr(attnx, method)(tensor, layer=2, normalize=normalize).numpy()
            assert ((fair > 0) == reach).all()


@pytest.mark.parametrize("family", ["gpt2", "mistral", "modernbert", "bert"])
def test_the_masks_of_real_families_are_taken_as_they_were_seen(family):
    seen = attnx.capture(zoo.model(family), **zoo.inputs(family, 12))
    weights, visible = seen.weights.double().numpy(), seen.visible.numpy()
    for method in METHODS:
        fair = getattr(attnx, method)(seen, normalize="receptive_field")
        np.testing.assert_allclose(fair, by_definition(method, weights, visible), atol=1e-6)
    changed = not np.allclose(attnx.rollout(seen), attnx.rollout(seen, normalize="receptive_field"), atol=1e-3)
    assert changed is (family != "bert")


def test_three_tokens_by_hand():
    """The worked example of docs/decoders.md."""
    decoder = even(mask("causal", 2, 3))
    np.testing.assert_allclose(attnx.rollout(decoder, layer=2, position=2) * 72, [23, 17, 32])
    np.testing.assert_allclose(attnx.rollout(even(mask("all", 2, 3)), layer=2, position=2) * 72, [18, 18, 36])
    fair = attnx.rollout(decoder, layer=2, position=2, normalize="receptive_field")
    np.testing.assert_allclose(fair, [0.25, 0.25, 0.5], atol=1e-15)

    decoder[:, 0, 2] = [0, 1 / 2, 1 / 2]
    np.testing.assert_allclose(attnx.rollout(decoder, layer=2, position=2) * 16, [1, 6, 9])
    expected = np.array([1 * 18 / 23, 6 * 18 / 17, 9 * 36 / 32])
    fair = attnx.rollout(decoder, layer=2, position=2, normalize="receptive_field")
    np.testing.assert_allclose(fair, expected / expected.sum(), atol=1e-15)


def test_columns_by_hand():
    even_row = attnx.raw(even(mask("causal", 1, 3)), layer=1, position=2, normalize="column")
    np.testing.assert_allclose(even_row * 11, [2, 3, 6], atol=1e-12)


@some
@given(st.sampled_from(MASKS), st.integers(0, 10**6), residuals, st.sampled_from([None, 2, "all", "max"]))
def test_columns_are_divided_by_the_queries_that_see_them_before_all_else(kind, seed, residual, head):
    weights, tensor = attention(kind, seed)
    seen = mask(kind, 4, 6)

    def divided(matrix):
        """… × layer × query × key."""
        columns = matrix / np.maximum(seen.sum(-2, keepdims=True), 1)
        sums = columns.sum(-1, keepdims=True)
        return columns * matrix.sum(-1, keepdims=True) / np.where(sums > 0, sums, 1)

    merged = weights.mean(1)
    if head == "max":
        merged = weights.max(1)
        merged = merged / np.maximum(merged.sum(-1, keepdims=True), 1e-300)
    below = divided(merged)
    for method in METHODS:
        found = getattr(attnx, method)(tensor, layer=4, residual=residual, head=head, normalize="column")
        heads = {None: [None], "max": [None], 2: [2], "all": [0, 1, 2]}[head]
        for one, row in zip(heads, found if head == "all" else [found], strict=True):
            layers = below.copy()
            if one is not None:
                layers[3] = divided(weights[:, one])[3]
            expected = getattr(attnx, method)(layers[:, None], layer=4, residual=residual)
            np.testing.assert_allclose(row, expected, atol=1e-8)


def test_raw_attention_has_no_reach_to_take_out():
    weights, tensor = attention("causal window")
    np.testing.assert_allclose(attnx.raw(tensor, normalize="receptive_field"), weights.mean(1), atol=1e-12)
    assert not np.allclose(attnx.raw(tensor, normalize="column"), weights.mean(1))


def test_a_rollout_that_ends_above_the_input_is_held_against_as_many_layers():
    weights, tensor = attention("causal")
    upper = wrap(weights[2:], mask("causal", 2, 6))
    np.testing.assert_allclose(
        attnx.rollout(tensor, down_to=3, normalize="receptive_field"),
        attnx.rollout(upper, normalize="receptive_field"),
        atol=1e-12,
    )


def test_a_plain_array_is_causal_when_nothing_looks_ahead():
    weights, tensor = attention("causal")
    for plain in (weights, torch.tensor(weights)):
        for normalize in ("receptive_field", "column"):
            np.testing.assert_allclose(
                attnx.rollout(plain, normalize=normalize), attnx.rollout(tensor, normalize=normalize), atol=1e-12
            )
    weights[3, 0, 1, 1:3] = weights[3, 0, 1, 1] / 2
    np.testing.assert_allclose(attnx.rollout(weights, normalize="receptive_field"), attnx.rollout(weights), atol=1e-12)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("drop_sink", [False, True])
def test_a_prefix_is_explained_as_if_the_text_ended_there(method, drop_sink):
    weights, _ = attention("causal")
    call = getattr(attnx, method)
    rows = call(weights, normalize="prefix", drop_sink=drop_sink)
    for end in range(1, 7):
        ended = call(
            wrap(weights[..., :end, :end], mask("causal", 4, end)),
            position=-1,
            normalize="receptive_field",
            drop_sink=drop_sink,
        )
        np.testing.assert_allclose(rows[:, end - 1, :end], ended, atol=1e-9)
        assert (rows[:, end - 1, end:] == 0).all()


@pytest.mark.parametrize("method", METHODS)
def test_only_a_decoder_has_prefixes(method):
    with pytest.raises(ChoiceError, match="normalize='prefix' is for decoders"):
        getattr(attnx, method)(attention("all")[0], position=0, normalize="prefix")


def test_gradients_flow_through_the_normalised_rollout():
    weights = torch.tensor(attention("causal")[0], requires_grad=True)
    attnx.rollout(weights, layer=4, position=-1, normalize="receptive_field")[1].backward()
    assert float(weights.grad.abs().sum()) > 0


def test_the_flow_of_an_uninformed_model_is_searched_once(monkeypatch):
    monkeypatch.setattr(flow_module, "_uninformed_flows", {})
    _, tensor = attention("causal", layers=5)
    one = attnx.flow(tensor, position=-1, normalize="receptive_field")
    assert len(flow_module._uninformed_flows) == 1
    _, other = attention("causal", seed=1, layers=5)
    attnx.flow(other, position=-1, normalize="receptive_field", head="all")
    assert len(flow_module._uninformed_flows) == 1
    attnx.flow(tensor, position=-1, normalize="receptive_field", residual=0.4)
    attnx.flow(attention("causal window", layers=5)[1], position=-1, normalize="receptive_field")
    assert len(flow_module._uninformed_flows) == 3
    np.testing.assert_array_equal(attnx.flow(tensor, position=-1, normalize="receptive_field"), one)


def test_only_so_many_flows_are_remembered(monkeypatch):
    monkeypatch.setattr(flow_module, "_uninformed_flows", {})
    monkeypatch.setattr(flow_module, "REMEMBERED", 2)
    _, tensor = attention("causal")
    for position in range(5):
        attnx.flow(tensor, position=position, normalize="receptive_field")
    assert [key[2] for key in flow_module._uninformed_flows] == [(3,), (4,)]
    monkeypatch.setattr(flow_module, "NUMBERS", 5)
    attnx.flow(tensor, position=0, normalize="receptive_field")
    assert len(flow_module._uninformed_flows) == 2


def test_a_mask_that_the_attention_contradicts_is_an_error():
    weights, _ = attention("all")
    with pytest.raises(AttentionError, match=r"row 0 has relevance .* at position 1, which its mask cannot reach"):
        attnx.rollout(wrap(weights, mask("causal", 4, 6)), normalize="receptive_field")


def test_a_normalisation_that_does_not_exist_is_named():
    with pytest.raises(ChoiceError, match="did you mean 'column'"):
        attnx.rollout(attention("causal")[0], normalize="columns")
