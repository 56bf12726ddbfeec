"""Attention rollout, raw attention, and rollout over other edge weights.

Any other pair of a method and edge weights goes by name, such as `rollout:norm` or `flow:alti`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Unpack, overload

import torch
from torch import Tensor

from attnx.arguments import checked
from attnx.attention import normalize_rows
from attnx.errors import ChoiceError
from attnx.graph import Graph, Head, Selection
from attnx.methods.base import Array, Brought, Method, MethodChoices, call
from attnx.methods.flow import FLOW
from attnx.methods.receptive_field import Normalize, rollout_of_uniform_attention


class RolloutChoices(MethodChoices, total=False):
    """The options of `rollout`."""

    down_to: int
    discard_ratio: float
    keep_position: int | None


@overload
def rollout(attention: Array, **choices: Unpack[RolloutChoices]) -> Array: ...


@overload
def rollout(attention: Brought, **choices: Unpack[RolloutChoices]) -> Tensor: ...


@checked
def rollout(
    attention: Any,
    *,
    layer: int | str | None = None,
    position: int | Sequence[int] | None = None,
    head: Head | None = None,
    residual: float = 0.5,
    normalize: Normalize | None = None,
    drop_sink: bool = False,
    down_to: int = 1,
    discard_ratio: float = 0.0,
    keep_position: int | None = 0,
) -> Any:
    """How much of each input position reached each query, layer × query × input; every row sums to 1.

    `down_to` ends the product above the input: with `down_to=3` the last axis is what enters layer 3, and the layer
    axis begins at 3. With a `head`, that head alone stands in the layer of interest and the layers below keep their
    heads merged (Appendix A.1). For decoders `normalize` takes out what the mask alone gives early positions, and
    `drop_sink` what goes to the first token (see `receptive_field` and `sink`). `discard_ratio` drops that share of
    each layer's lowest weights, but none to the position `keep_position`, before they are rolled out: 0.9 is usual in
    vision transformers, whose rollout is noisy (see `discard_lowest`).

    >>> rollout(np.full((2, 1, 2, 2), 0.5), layer=2, position=0)
    array([0.625, 0.375])
    """
    return call(
        ROLLOUT,
        attention,
        layer=layer,
        position=position,
        head=head,
        residual=residual,
        normalize=normalize,
        drop_sink=drop_sink,
        discard_ratio=discard_ratio,
        keep_position=keep_position,
        down_to=down_to,
    )


def rollout_rows(graph: Graph, selection: Selection) -> Tensor:
    """layer × head × position × input: by rows if few are selected, else from the input up."""
    rows_are_few = len(selection.layers) * len(selection.positions) < graph.length
    return (_roll_rows if rows_are_few else _roll_all)(graph, selection)


def _roll_rows(graph: Graph, selection: Selection) -> Tensor:
    """All selected rows in one sweep from the top layer down, which the rows of each layer join."""
    top, length = selection.layers[-1], graph.length
    sweep = graph.layers[top - 1].rows(selection.positions).reshape(-1, length)
    for layer in range(top - 1, selection.down_to - 1, -1):
        edges = graph.layers[layer - 1]
        sweep = edges.left_multiply(sweep)
        if layer in selection.layers:
            sweep = torch.cat([edges.rows(selection.positions).reshape(-1, length), sweep])
    return sweep.view(len(selection.layers), -1, len(selection.positions), length)


def _roll_all(graph: Graph, selection: Selection) -> Tensor:
    """From the bottom up, keeping the rollout of the layers below."""
    layers = []
    under: Tensor | None = None
    every_row = graph.is_merged and selection.all_of(graph.length)  # a layer of interest is like one below
    for layer in range(selection.down_to, selection.layers[-1] + 1):
        edges = graph.layers[layer - 1]
        if every_row:
            under = edges.compose(under)
            layers += [under[None]] if layer in selection.layers else []
            continue
        if layer in selection.layers:
            top = edges.rows(selection.positions)
            layers.append(top if under is None else top @ under)
        if layer < selection.layers[-1]:
            under = edges.compose(under)
    return torch.stack(layers)


ROLLOUT = Method(
    "rollout",
    rollout_rows,
    title="attention rollout",
    paper="Abnar & Zuidema 2020, §3.1",
    discards=True,
    everywhere=rollout_of_uniform_attention,
    everywhere_in_streams=True,
    by_rows=True,
    takes_signed=True,
)


@overload
def raw(attention: Array, **choices: Unpack[MethodChoices]) -> Array: ...


@overload
def raw(attention: Brought, **choices: Unpack[MethodChoices]) -> Tensor: ...


@checked
def raw(
    attention: Any,
    *,
    layer: int | str | None = None,
    position: int | Sequence[int] | None = None,
    head: Head | None = None,
    residual: float = 0.0,
    normalize: Normalize | None = None,
    drop_sink: bool = False,
) -> Any:
    """What each query attends to in each layer, taken alone: layer × query × key.

    Above the first layers a key is no longer the token at its position but a mixture of tokens, so this is not yet
    relevance of the input; `rollout` and `flow` trace it back.

    A query's even attention is the same for all that it sees, so `normalize="receptive_field"` leaves raw attention as
    it is; `"column"` does not. `drop_sink` leaves out what goes to the first token of a decoder.

    >>> raw(np.full((1, 2, 3, 3), 1 / 3), layer=1, position=0)
    array([0.33333333, 0.33333333, 0.33333333])
    """
    return call(
        RAW,
        attention,
        layer=layer,
        position=position,
        head=head,
        residual=residual,
        normalize=normalize,
        drop_sink=drop_sink,
    )


def _layers(graph: Graph, selection: Selection) -> Tensor:
    return torch.stack([graph.layers[layer - 1].rows(selection.positions) for layer in selection.layers])


def _one_layer_everywhere(identity: Tensor, even: Tensor, residual: Tensor, depth: int) -> Tensor:
    return rollout_of_uniform_attention(identity, even, residual, 1)


RAW = Method(
    "raw",
    _layers,
    title="raw attention",
    paper="Abnar & Zuidema 2020, the first row of Tables 1 to 3",
    residual=0.0,
    everywhere=_one_layer_everywhere,
    everywhere_in_streams=True,
    by_rows=True,
    local=True,
    takes_signed=True,
)


def chefer_rules(graph: Graph, selection: Selection) -> Tensor:
    """layer × head × position × input."""
    if not graph.sequences:
        return rollout_rows(graph, selection)
    if not graph.is_merged:
        raise ChoiceError(
            f"gradient_rollout of an encoder–decoder is defined for all heads together, not for head={graph.head!r}"
        )
    source, output = graph.sequences.values()
    relevance = torch.eye(graph.length, dtype=torch.float64, device=graph.device)
    alone = graph.with_residual(0.0)  # Ā without the identity, which the rules add themselves
    relevances = []
    for layer in range(selection.down_to, selection.layers[-1] + 1):
        gains, attention = alone.layers[layer - 1].written, alone.layers[layer - 1].weights.layer
        if attention.kind == "cross":
            of_output, of_source = (_normalized(relevance[place, place]) for place in (output, source))
            relevance[output, source] += of_output.T @ gains[:, source] @ of_source
        else:
            relevance[attention.query_slice] += gains @ relevance
        if layer in selection.layers:
            relevances.append(relevance[list(selection.positions)])
    return torch.stack(relevances)[:, None]


def _normalized(relevance: Tensor) -> Tensor:
    """R̄ of one sequence (rules 8 and 9)."""
    identity = torch.eye(len(relevance), dtype=relevance.dtype, device=relevance.device)
    return normalize_rows(relevance - identity) + identity


def _rollout_variant(name: str, title: str, edge_weights: str, paper: str) -> Method:
    """Rollout over other edge weights, of which nothing is discarded: small ones are no noise."""
    return replace(ROLLOUT, name=name, title=title, edge_weights=edge_weights, paper=paper, discards=False)


EFFECTIVE_ROLLOUT = _rollout_variant(
    "effective_rollout", "rollout of effective attention", "effective", "Brunner et al. 2020, weights"
)
NORM_ROLLOUT = _rollout_variant(
    "norm_rollout", "rollout of norms with residual", "norm_residual", "Kobayashi et al. 2021, weights"
)
GLOBENC_ROLLOUT = _rollout_variant("globenc", "GlobEnc", "globenc", "Modarressi et al. 2022")
ALTI_ROLLOUT = _rollout_variant("alti", "ALTI", "alti", "Ferrando et al. 2022")
VALUE_ZEROING_ROLLOUT = _rollout_variant("value_zeroing", "value zeroing", "value_zeroing", "Mohebbi et al. 2023")
GRADIENT_ROLLOUT = replace(
    _rollout_variant("gradient_rollout", "gradient rollout", "gradient", "Chefer et al. 2021, rules 5 to 10"),
    relevance=chefer_rules,
)
GRADIENT_FLOW = replace(
    FLOW,
    name="gradient_flow",
    title="flow of gradient edges",
    edge_weights="gradient_share",
    paper="Chefer et al. 2021, weights",
)
