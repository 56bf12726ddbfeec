"""How much a row of flow still tells: inputs that tie, and inputs that are saturated.

A flow to an input is at most what enters the input at all, the sum of its column in A(1), and at most what leaves the
source, 1. Deep enough, flow *is* that bound for most inputs: the layers between hold nothing back, many inputs tie at 1
exactly, and the row tells of layer 1 alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from attnx.agreement import ties
from attnx.agreement.ties import DIGITS
from attnx.graph.asked import Asked, Head
from attnx.graph.graph import Graph
from attnx.methods.normalization import Normalize, check_normalize

Rows: TypeAlias = Tensor | np.ndarray[Any, np.dtype[Any]]


def rounded(flow: Rows) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Flow as it may be ranked, for two exact algorithms differ in the decimals beyond."""
    return ties.rounded(flow.detach().cpu() if isinstance(flow, Tensor) else flow)


def tied_share(flow: Rows) -> Any:
    """The share of inputs with the same flow as another input, of those that have any: a number for a row, an array
    for flow with more axes. What cannot be reached at all, as later tokens in a decoder, ties with nothing.

    >>> tied_share(np.array([1.0, 1.0, 0.5, 0.25]))
    0.5
    """
    return ties.tied_share(rounded(flow))


def saturated_share(flow: Rows, bound: Rows) -> Any:
    """The share of inputs whose flow equals their `column_bound`, of those that can have any flow.

    >>> saturated_share(np.array([1.0, 0.5, 0.2, 0.0]), np.array([1.0, 0.7, 0.2, 0.0]))
    0.6666666666666666
    """
    values, bounds = np.broadcast_arrays(rounded(flow), rounded(bound))
    reachable = bounds > 0
    saturated = (reachable & (np.abs(values - bounds) <= 10.0**-DIGITS)).sum(-1)
    share = saturated / np.maximum(reachable.sum(-1), 1)
    return float(share) if share.ndim == 0 else share


def saturation(graph: Graph, asked: Asked, flows: Tensor) -> np.ndarray[Any, np.dtype[np.float64]]:
    """layer × position: the share of inputs that are saturated, the mean over heads."""
    share: np.ndarray[Any, np.dtype[np.float64]]
    share = saturated_share(flows, _bound(graph, asked)[None, None]).mean(1)
    return share


def column_bound(
    attention: Any,
    *,
    position: int | Sequence[int] | None = None,
    head: Head | None = None,
    residual: float = 0.5,
    normalize: Normalize | None = None,
    drop_sink: bool = False,
) -> Any:
    """min(1, column sum of A(1)), the most that can flow to each input from any depth: query × input.

    In a causal model only the queries up to the position count, for no later one lies on its way. With `head="each"`
    the lower layers have their heads merged, as in `flow`, so there is no head axis. `"receptive_field"` scales flows
    and not what can pass, so it has no part in the bound.
    """
    column = check_normalize(normalize) == "column"
    graph = Graph.of(attention, head=head, residual=residual, drop_sink=drop_sink, column=column)
    asked = Asked.of(graph.depth, graph.length, layer=1, position=position)
    bound = asked.shaped(_bound(graph, asked)[None, None], "mean")
    return bound.numpy() if isinstance(attention, np.ndarray) else bound


def _bound(graph: Graph, asked: Asked) -> Tensor:
    """position × input."""
    sums = torch.empty(graph.length, graph.length, dtype=torch.float64, device=graph.device)
    for place in graph.streams.values() or (slice(0, graph.length),):
        # What enters an input enters it in the first level that writes its stream; below, it is carried.
        first = next((one for one in graph.levels if one.weights.own == place), graph.levels[0]).matrix.detach()
        columns = first[:, place]
        sums[:, place] = columns.cumsum(0) if graph.written == place else columns.sum(0).expand(graph.length, -1)
    return sums[list(asked.positions)].clamp(max=1)
