"""Attention rollout: relevance of the input as the product of all layers' attention with residual (§3.1).

Ã(1) = A(1) and Ã(i) = A(i) · Ã(i−1). For one query the product is a chain of vector–matrix products.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack, overload

import torch
from torch import Tensor

from attnx.arguments import checked
from attnx.graph.asked import Asked, Head
from attnx.graph.graph import Graph
from attnx.methods.method import Array, Brought, Method, MethodChoices, call
from attnx.methods.normalization import Normalize
from attnx.methods.receptive_field import rolled_everywhere


class RolloutChoices(MethodChoices, total=False):
    """Those of rollout."""

    down_to: int
    discard: float
    spare: int | None


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
    discard: float = 0.0,
    spare: int | None = 0,
) -> Any:
    """How much of each input position reached each query, layer × query × input; every row sums to 1.

    `down_to` ends the product above the input: with `down_to=3` the last axis is what enters layer 3, and the layer
    axis begins at 3. With a `head`, that head alone stands in the layer of interest and the layers below keep their
    heads merged (Appendix A.1). For decoders `normalize` takes out what the mask alone gives early positions, and
    `drop_sink` what goes to the first token (see `receptive_field` and `sink`). `discard` drops that share of each
    layer's lowest weights, but none to the position `spare`, before they are rolled out: 0.9 is usual in vision
    transformers, whose rollout is noisy (see `discarded`).

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
        discard=discard,
        spare=spare,
        down_to=down_to,
    )


def rolled(graph: Graph, asked: Asked) -> Tensor:
    """layer × head × position × input: by rows where few are asked for, else from the bottom up."""
    rows_are_few = len(asked.layers) * len(asked.positions) < graph.length
    return (_roll_rows if rows_are_few else _roll_all)(graph, asked)


def _roll_rows(graph: Graph, asked: Asked) -> Tensor:
    """All asked rows in one sweep from the top layer down: each layer's rows join the sweep where they start."""
    top, length = asked.layers[-1], graph.length
    sweep = graph.levels[top - 1].rows(asked.positions).reshape(-1, length)
    for layer in range(top - 1, asked.down_to - 1, -1):
        edges = graph.levels[layer - 1]
        sweep = edges.pull(sweep)
        if layer in asked.layers:
            sweep = torch.cat([edges.rows(asked.positions).reshape(-1, length), sweep])
    return sweep.view(len(asked.layers), -1, len(asked.positions), length)


def _roll_all(graph: Graph, asked: Asked) -> Tensor:
    """From the bottom up, keeping the rollout of the layers below."""
    found = []
    under: Tensor | None = None
    every_row = graph.is_merged and asked.all_of(graph.length)  # a layer of interest is like one below
    for layer in range(asked.down_to, asked.layers[-1] + 1):
        edges = graph.levels[layer - 1]
        if every_row:
            under = edges.push(under)
            found += [under[None]] if layer in asked.layers else []
            continue
        if layer in asked.layers:
            top = edges.rows(asked.positions)
            found.append(top if under is None else top @ under)
        if layer < asked.layers[-1]:
            under = edges.push(under)
    return torch.stack(found)


ROLLOUT = Method(
    "rollout",
    rolled,
    title="attention rollout",
    paper="Abnar & Zuidema 2020, §3.1",
    discards=True,
    everywhere=rolled_everywhere,
    everywhere_in_streams=True,
    by_rows=True,
    takes_signed=True,
)
