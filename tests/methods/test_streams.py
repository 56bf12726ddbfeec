"""Methods on a chain of two streams, against products, graphs and recursions that are written out."""

import networkx
import numpy as np
import pytest
import torch

import attnx
from attnx.attention import AttentionTensor
from attnx.errors import ChoiceError
from attnx.graph import Graph, Selection
from attnx.hooks.capture import capture
from attnx.methods import METHODS, apply, asked_methods
from attnx.methods.flow import column_bound
from tests import streams_zoo as zoo

SOURCE, OUTPUT = slice(0, 4), slice(4, 7)


def made_up(layers=2, *, own=None, cross=None):
    """Four positions of source and three of output, two heads."""
    encoder = [zoo.rows_of_one(2, 4, 4, seed=seed) for seed in range(2)]
    own = own or [zoo.rows_of_one(2, 3, 3, seed=10 + seed, causal=True) for seed in range(layers)]
    cross = cross or [zoo.rows_of_one(2, 3, 4, seed=20 + seed) for seed in range(layers)]
    return zoo.by_hand(encoder, list(zip(own, cross, strict=True)))


def relevance(attention, name, **rules):
    (method,) = asked_methods(name)
    graph = Graph.of(attention, edge_weights=method.edge_weights, residual=method.residual, **rules)
    return apply(method, graph, Selection.of(graph.depth, graph.length)).relevance[-1, 0]


@pytest.mark.slow
@pytest.mark.parametrize("method", ["rollout", "norm_rollout", "alti", "effective_rollout", "rollout:norm"])
@pytest.mark.parametrize("name", sorted({*zoo.FAMILIES} - {"fsmt"}))  # whose blocks run length × batch × width
def test_rows_of_the_chain_sum_to_one(name, method):
    attention = capture(zoo.model(name), extras=("blocks",), **zoo.inputs(name))
    np.testing.assert_allclose(relevance(attention, method).sum(-1), 1, atol=1e-9)


def test_one_decoder_level_is_the_formula_by_hand():
    """½·C·(½I + ½E)² beside the source, ½·(½I + ½S) beside the output."""
    attention = made_up(1)
    encoder, own, cross = (
        [level.level.weights.mean(0) for level in attention.layers if level.kind == kind]
        for kind in ("encoder", "self", "cross")
    )
    rolled = (torch.eye(4) + encoder[1]) / 2 @ ((torch.eye(4) + encoder[0]) / 2)
    expected = torch.cat([cross[0] @ rolled / 2, (torch.eye(3) + own[0]) / 4], dim=1)
    torch.testing.assert_close(attnx.rollout(attention, layer="cross")[OUTPUT], expected, atol=1e-15, rtol=0)


@pytest.mark.parametrize("head", [1, "all"])
def test_a_head_stands_alone_in_the_level_of_interest(head):
    attention = made_up(2)
    found = attnx.rollout(attention, layer="cross 2", head=head)
    found = found if head == 1 else found[1]
    below = attnx.rollout(attention, layer="self 2")
    alone = attention.layers[-1].level.weights[1]
    expected = alone @ below[SOURCE] / 2 + below[OUTPUT] / 2
    torch.testing.assert_close(found[OUTPUT], expected, atol=1e-15, rtol=0)
    torch.testing.assert_close(found[SOURCE], below[SOURCE])


def test_what_is_carried_stays_without_any_residual():
    found = attnx.rollout(made_up(), residual=0.0, layer=1)
    torch.testing.assert_close(found[OUTPUT, OUTPUT], torch.eye(3, dtype=torch.float64))
    assert not found[OUTPUT, SOURCE].any()


def test_a_row_that_is_read_alone_is_the_row_of_all():
    attention = made_up()
    whole = attnx.rollout(attention)
    for position in (1, 6, [5, 0]):
        torch.testing.assert_close(attnx.rollout(attention, position=position), whole[:, position])


@pytest.mark.parametrize("method", [attnx.rollout, attnx.flow])
def test_cross_attention_that_is_cut_gives_the_source_nothing(method):
    attention = made_up(2, cross=[torch.zeros(2, 3, 4)] * 2)
    assert not method(attention)[-1, OUTPUT, SOURCE].any()
    assert bool((method(made_up(2))[-1, OUTPUT, SOURCE] > 0).all())


@pytest.mark.parametrize("method", [attnx.rollout, attnx.flow])
def test_an_output_that_sees_only_the_source_has_nothing_of_what_was_written_before(method):
    attention = made_up(2, own=[torch.eye(3).expand(2, 3, 3)] * 2)
    assert not method(attention)[-1, OUTPUT, OUTPUT].tril(-1).any()
    assert bool((method(made_up(2))[-1, 6, OUTPUT] > 0).all())


@pytest.mark.parametrize("method", ["alti", "norm_rollout"])
@pytest.mark.parametrize("name", ["t5", "bart", "mbart"])
def test_a_model_that_carries_nothing_of_the_source_gives_it_nothing(name, method):
    model = zoo.FAMILIES[name]().eval()
    with torch.no_grad():
        for module, parameter in model.named_parameters():
            if ("encoder_attn.v_proj" in module) or ("EncDecAttention.v" in module):
                parameter.zero_()
    found = relevance(capture(model, extras=("blocks",), **zoo.inputs(name)), method)
    assert not found[zoo.SOURCE :, : zoo.SOURCE].any()
    assert bool((found[-1, zoo.SOURCE :] > 0).any())


def test_flow_is_networkx_over_a_graph_with_one_shared_encoder_top():
    attention = made_up(2)
    expected = np.zeros((3, 7))
    for start in range(3):
        graph = shared_top(attention)
        for end in range(7):
            leaf = ("source", 0, end) if end < 4 else ("output", 0, end - 4)
            expected[start, end] = networkx.maximum_flow_value(graph, ("output", 4, start), leaf)
    np.testing.assert_allclose(attnx.flow(attention, layer="cross")[OUTPUT], expected, atol=1e-9)
    by_definition = attnx.flow(attention, layer="cross", solver="networkx")[OUTPUT]
    np.testing.assert_allclose(by_definition, expected, atol=1e-9)


def shared_top(attention):
    """Nodes (stream, height, position). The encoder's top is one node a position, which every cross level reads."""
    graph = networkx.DiGraph()
    heights = {"source": 0, "output": 0}
    for level in attention.layers:
        own = "source" if level.kind == "encoder" else "output"
        over = "output" if level.kind == "self" else "source"
        weights = level.level.weights.mean(0)
        heights[own] += 1
        for query in range(weights.shape[0]):
            top, below = (own, heights[own], query), (own, heights[own] - 1, query)
            graph.add_edge(top, below, capacity=0.5)
            for key in range(weights.shape[1]):
                end = (over, heights[over] - (own == over), key)
                more = graph.edges[top, end]["capacity"] if graph.has_edge(top, end) else 0.0
                graph.add_edge(top, end, capacity=more + float(weights[query, key]) / 2)
    return graph


@pytest.mark.parametrize("name", ["t5", "bart", "marian", "pegasus", "bert-bert"])
def test_alti_is_the_recursion_of_alti_plus(name):
    """source ← ρ (S · source) + C · E and output ← ρ (S · output), with E the rollout of the whole encoder."""
    attention = capture(zoo.model(name), extras=("blocks",), **zoo.inputs(name))
    edges = Graph.of(attention, edge_weights="alti").layers
    place = attention.sequences
    whole = torch.eye(zoo.SOURCE, dtype=torch.float64)
    source = torch.zeros(zoo.OUTPUT, zoo.SOURCE, dtype=torch.float64)
    output = torch.eye(zoo.OUTPUT, dtype=torch.float64)
    for level, edge in zip(attention.layers, edges, strict=True):
        if level.kind == "encoder":
            whole = edge.matrix[place["source"], place["source"]] @ whole
        elif level.kind == "self":
            own = edge.matrix[place["output"], place["output"]]
        else:
            rows = edge.matrix[place["output"]]
            kept = rows[:, place["output"]].diagonal()[:, None]
            source = kept * (own @ source) + rows[:, place["source"]] @ whole
            output = kept * (own @ output)
    found = relevance(attention, "alti")[place["output"]]
    torch.testing.assert_close(found, torch.cat([source, output], dim=1), atol=1e-12, rtol=0)


@pytest.mark.parametrize("name", ["t5", "bart", "mbart"])
def test_an_alti_row_of_cross_attention_is_the_definition(name):
    """c = max(0, ‖y‖₁ − ‖y − p‖₁) over the source's parts and the residual as one more."""
    attention = capture(zoo.model(name).double(), extras=("blocks",), **zoo.inputs(name))
    zoo.model(name).float()
    level = attention.layers[attention.number("cross 2") - 1].level
    captured = level.captured
    heads, width = level.heads, captured["values"].shape[-1]
    projection = captured["projections"].reshape(-1, heads, width)
    parts = torch.einsum("hj,hjw,ohw->jo", level.weights[:, 3], captured["values"], projection)
    parts = torch.cat([parts, captured["states"][3][None]])
    whole = parts.sum(0) + captured["bias"]
    if "norm.gain" in captured:
        scale, gain = captured["norm.scale"][3], captured["norm.gain"]
        parts = gain * (parts - parts.mean(-1, keepdim=True)) * scale
        whole = gain * (whole - whole.mean()) * scale + captured["norm.shift"]
    nearer = (whole.abs().sum() - (whole - parts).abs().sum(-1)).clamp(min=0)
    expected = nearer / nearer.sum()
    row = Graph.of(attention, edge_weights="alti").layers[attention.number("cross 2") - 1].matrix[zoo.SOURCE + 3]
    torch.testing.assert_close(row[: zoo.SOURCE], expected[:-1], atol=1e-9, rtol=0)
    torch.testing.assert_close(row[zoo.SOURCE + 3], expected[-1], atol=1e-9, rtol=0)


@pytest.mark.parametrize("normalize", ["prefix", "receptive_field"])
@pytest.mark.parametrize("method", [attnx.rollout, attnx.flow])
def test_the_receptive_field_changes_the_output_alone_and_keeps_the_split(method, normalize):
    attention = made_up(2)
    plain, fair = method(attention), method(attention, normalize=normalize)
    torch.testing.assert_close(fair[..., SOURCE], plain[..., SOURCE])
    torch.testing.assert_close(fair.sum(-1), plain.sum(-1))
    assert not torch.allclose(fair[-1, 6], plain[-1, 6], atol=1e-3)


def test_an_even_output_is_even_over_what_it_has_read():
    """After the correction every earlier token of an uninformed decoder has the same share, whatever the source."""
    even = [(torch.ones(3, 3).double().tril() / torch.arange(1, 4)[:, None]).expand(2, 3, 3)] * 2
    fair = attnx.rollout(made_up(2, own=even), layer="cross", position=6, normalize="prefix")[OUTPUT]
    assert float(fair[0]) == pytest.approx(float(fair[1]), abs=1e-12)
    share = (1 - 0.5**2) / 3
    assert float(fair[0] / fair.sum()) == pytest.approx(share, abs=1e-12)


def test_the_sink_is_the_first_token_of_the_output():
    attention = made_up(2)
    found = attnx.rollout(attention, layer="cross", drop_sink=True)
    assert not found[5:, 4].any()
    assert bool((found[5:, SOURCE] > 0).all())
    np.testing.assert_allclose(found.sum(-1), 1)


def test_a_level_of_few_rows_is_found_in_the_bound_of_flow():
    attention = made_up(2)
    flows = attnx.flow(attention, layer="cross", position=6)
    bound = column_bound(attention, position=6)
    assert bool((flows <= bound + 1e-9).all())
    assert float(bound[6]) < 1


def test_gradient_rollout_follows_the_rules_for_cross_attention():
    attention = with_gradients(made_up(2))
    gains = [(level.level.weights * level.level.captured["gain"]).clamp(min=0).mean(0) for level in attention.layers]
    r_ee, r_dd, r_de = torch.eye(4).double(), torch.eye(3).double(), torch.zeros(3, 4).double()
    for level, gain in zip(attention.layers, gains, strict=True):
        if level.kind == "encoder":
            r_ee = r_ee + gain @ r_ee
        elif level.kind == "self":
            r_dd, r_de = r_dd + gain @ r_dd, r_de + gain @ r_de
        else:
            r_de = r_de + normalised(r_dd).T @ gain @ normalised(r_ee)
    found = relevance(attention, "gradient_rollout")
    torch.testing.assert_close(found[OUTPUT], torch.cat([r_de, r_dd], dim=1), atol=1e-12, rtol=0)
    torch.testing.assert_close(found[SOURCE, SOURCE], r_ee, atol=1e-12, rtol=0)


def normalised(matrix):
    rest = matrix - torch.eye(len(matrix))
    return rest / rest.sum(-1, keepdim=True).where(rest.sum(-1, keepdim=True) > 0, 1) + torch.eye(len(matrix))


def with_gradients(attention):
    """One-hot values make the gradient of a head's output, at a key, that of the weight itself."""
    layers = []
    for number, level in enumerate(attention.layers):
        heads, queries, keys = level.level.weights.shape
        gain = torch.randn(heads, queries, keys, dtype=torch.float64, generator=torch.Generator().manual_seed(number))
        values = torch.eye(keys, dtype=torch.float64).expand(heads, keys, keys)
        layers.append(level.with_captured({"values": values, "gradient": gain, "gain": gain}))
    return AttentionTensor(tuple(layers), sequences=attention.sequences)


@pytest.mark.parametrize("name", ["globenc", "rollout:gradient_signed", "value_zeroing"])
def test_what_is_not_defined_for_two_streams_is_refused_by_name(name):
    (method,) = asked_methods(name)
    with pytest.raises(ChoiceError, match=f"{method.edge_weights}.*a single stack"):
        Graph.of(made_up(), edge_weights=method.edge_weights)


def test_nothing_is_discarded_of_two_streams():
    with pytest.raises(ChoiceError, match="encoder–decoder"):
        attnx.rollout(made_up(), discard_ratio=0.5)
    with pytest.raises(ChoiceError, match="encoder–decoder"):
        Graph.of(made_up()).with_residual(0.5, discard_ratio=0.5)


def test_every_other_row_of_the_registry_answers():
    attention = capture(zoo.model("t5"), extras=("blocks",), **zoo.inputs("t5"))
    for name in METHODS.names():
        method = METHODS[name]
        if method.edges.supports_sequences and not method.target_specific:
            assert bool(relevance(attention, name).isfinite().all())
