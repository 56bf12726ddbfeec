"""`alti_logit`: what each input has in the score of an answer (Ferrando et al. 2023).

Attention of layer l writes into the stream from which the answer is read, and of each key j what it writes has a share
in the score:

    Δ_l(j) = Σ_i w_i · T^l_i(j),   score(k) = Σ_l Σ_j Δ_l(j) · R_{l−1}[j,k]  +  w_k · x⁰_k

w is the gradient of the score where the last block ends, with the final norm frozen, so w_i is 0 but where the answer
is read. R is the rollout of ALTI: what stands at j when it enters layer l is a mixture of inputs. One sweep from the
top does it, and no product of matrices is made. MLPs and biases write as well; they belong to no key, and `facts` have
their sums. A layer's row is what was written up to it.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from attnx.attention import AttentionLayer, blocks
from attnx.errors import AttentionError
from attnx.graph import Contributions, Edges, Graph, Selection
from attnx.methods.base import Method


def shares_of_score(graph: Graph, selection: Selection) -> Tensor:
    """layer × 1 × position × input: one row, whatever the position."""
    top = selection.layers[-1]
    sweep = _written_without_sink(graph.layers[top - 1], graph)[None]
    for layer in range(top - 1, selection.down_to - 1, -1):
        edges = graph.layers[layer - 1]
        kept = _written_without_sink(edges, graph)
        sweep = edges.left_multiply(sweep) + kept
        if layer in selection.layers:
            sweep = torch.cat([kept[None], sweep])
    sweep = sweep + _at_entry(graph, selection.down_to).sum(-1).to(sweep)
    return sweep[:, None, None].expand(-1, -1, len(selection.positions), -1)


def account(graph: Graph, selection: Selection, relevance: Tensor) -> Mapping[str, float | str]:
    """What the last row adds up to, and what it leaves out of the score: MLPs, biases, a dropped sink."""
    top = selection.layers[-1]
    layers = [edges.weights.layer for edges in graph.layers[selection.down_to - 1 : top]]
    ends = [layer.captured["states"] for layer in layers[1:]]
    ends.append(graph.layers[top].weights.layer.captured["states"] if top < graph.depth else _captured(graph, "read"))
    dropped = mlps = biases = 0.0
    for edges, layer, end in zip(graph.layers[selection.down_to - 1 : top], layers, ends, strict=True):
        gradient = _captured(graph, "readout").double()
        written = float(written_by_attention(layer).sum())
        dropped += written - float(_written_without_sink(edges, graph).sum())
        constant = float((gradient * Contributions.of(layer).constant.double()).sum())
        whole = float((gradient * (end.double() - layer.captured["states"].double())).sum())
        biases += constant
        mlps += whole - written - constant
    value, positions = float(_captured(graph, "score")), float(relevance[-1, 0, 0].sum())
    left = value - positions - dropped - mlps - biases
    facts = {"value": value, "positions": positions, "mlps": mlps, "biases": biases}
    parts = f"positions {positions:+.4g}, MLPs {mlps:+.4g}"
    if graph.rules.sink is not None:
        facts["sink"] = dropped
        parts += f", dropped sink {dropped:+.4g}"
    if top == graph.depth:
        facts["biases"] += left
        return {**facts, "account": f"{value:+.4g} = {parts}, biases {facts['biases']:+.4g}"}
    return {
        **facts,
        "above": left,
        "account": f"{value:+.4g} = {parts}, biases {biases:+.4g}, layers above {left:+.4g}",
    }


def written_by_attention(layer: AttentionLayer) -> Tensor:
    """Δ, a number for each key, in float64."""
    gradient = _captured_of(layer, "readout").double()
    parts = Contributions.of(layer)
    values, projection = parts.values.double(), parts.projection.double()
    reading = gradient.any(-1)
    tensor = gradient.new_zeros(len(gradient))
    for start, stop in blocks(layer):
        places = reading[start:stop].nonzero()[:, 0]
        if len(places):
            # Rows that are not read are not even computed.
            first, last = start + int(places[0]), start + int(places[-1]) + 1
            block = layer.rows(first, last)
            pulled = torch.einsum(
                "io,ohw->hiw", gradient[first:last] * parts.scale[first:last, None].double(), projection
            )
            gains = block.weights.double() * (pulled @ values[:, block.keys].transpose(1, 2))
            tensor[block.keys] += gains.sum((0, 1))
    return tensor


def _written_without_sink(edges: Edges, graph: Graph) -> Tensor:
    """Δ where products are handed out, without the sink if it is dropped."""
    written = written_by_attention(edges.weights.layer).to(graph.device)
    if graph.rules.sink is not None:
        written[graph.rules.sink] = 0
    return written


def _at_entry(graph: Graph, layer: int) -> Tensor:
    """position × width: what the answer reads of the states that enter a layer."""
    return _captured(graph, "readout").double() * graph.layers[layer - 1].weights.layer.captured["states"].double()


def _captured(graph: Graph, name: str) -> Tensor:
    return _captured_of(graph.layers[-1].weights.layer, name)


def _captured_of(layer: AttentionLayer, name: str) -> Tensor:
    if name not in layer.captured:
        raise AttentionError(
            "a share of the score needs an answer, which attention alone does not have: ask attnx.explain for "
            "alti_logit, with a model that has a head"
        )
    return layer.captured[name]


ALTI_LOGIT = Method(
    "alti_logit",
    shares_of_score,
    title="ALTI-Logit",
    paper="Ferrando et al. 2023",
    edge_weights="alti",
    by_rows=True,
    reading="share",
    facts=account,
)
