"""Attention flow for any layer, query position and head: the row, its cost, its function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, Unpack, overload

import numpy as np
import torch
from torch import Tensor

from attnx.agreement.ties import DIGITS
from attnx.arguments import checked
from attnx.attention.tensor import as_attention
from attnx.errors import ChoiceError, whole_number
from attnx.graph.asked import Asked, Head, check_layer, check_positions
from attnx.graph.graph import Graph
from attnx.methods.flow.saturation import saturation
from attnx.methods.flow.uninformed import flows_everywhere, remembered
from attnx.methods.method import LIMIT, Array, Brought, Method, MethodChoices, call, check_cost
from attnx.methods.normalization import Normalize
from attnx.registry import unknown

SECONDS_PER_EDGE = 8e-10
"""One start and one end through one layer of n × n edges cost about n² of these in trained models, whose attention is
sharp; random, even attention takes a quarter. By Whisper tiny.en over 1,500 positions, and
tests/benchmarks/long_inputs.py."""

Solver = Literal["exact", "networkx"]


class FlowChoices(MethodChoices, total=False):
    """Those of flow."""

    solver: Solver
    threads: int | None
    limit: float | None


@overload
def flow(attention: Array, **choices: Unpack[FlowChoices]) -> Array: ...


@overload
def flow(attention: Brought, **choices: Unpack[FlowChoices]) -> Tensor: ...


@checked
def flow(
    attention: Any,
    *,
    layer: int | str | None = None,
    position: int | Sequence[int] | None = None,
    head: Head | None = None,
    residual: float = 0.5,
    normalize: Normalize | None = None,
    drop_sink: bool = False,
    solver: Solver = "exact",
    threads: int | None = None,
    limit: float | None = LIMIT,
) -> Any:
    """The maximum flow from each hidden position down to each input position, layer × query × input.

    A value is at most 1 and a row does not sum to 1. With a `head`, that head alone gives the capacities of the layer
    of interest and the layers below keep their heads merged (Appendix A.1). For decoders `normalize` takes out what the
    mask alone gives early positions, and `drop_sink` what goes to the first token (see `receptive_field` and `sink`).

    Values are exact to 1e-9 and do not depend on the number of `threads` (by default one per core, where that is worth
    it). `solver="networkx"` computes the same numbers by the definition, thousands of times slower. Round to 1e-9
    before ranking: many inputs of a deep model tie (see `tied_share`).

    Work that would take more than `limit` seconds is refused with its cost; None waits for it.

    >>> flow(np.full((2, 1, 2, 2), 0.5), layer=2, position=0)
    array([1. , 0.5])
    """
    if not isinstance(solver, str) or solver not in _SOLVERS:
        raise ChoiceError(unknown("solver", solver, _SOLVERS))
    if threads is not None and whole_number("threads", threads) < 1:
        raise ChoiceError(f"threads={threads} asked; at least 1 is needed, or None for one per core")
    tensor = as_attention(attention)
    layers = range(1, tensor.layers + 1) if layer is None else (check_layer(tensor.number(layer), tensor.layers),)
    starts = len(check_positions(position, tensor.length)) * (tensor.heads if head == "each" else 1)
    check_cost(FLOW, layers, tensor.length, starts, limit, hint="; limit=None waits for it")
    found = call(
        _row(solver, threads),
        tensor,
        layer=layer,
        position=position,
        head=head,
        residual=residual,
        normalize=normalize,
        drop_sink=drop_sink,
    )
    return found.numpy() if isinstance(attention, np.ndarray) else found


def estimated_seconds(layers: Sequence[int], length: int, starts: int = 1) -> float:
    """For so many `starts` (positions or heads) at each of these layers, to all ends."""
    searched = [layer for layer in layers if layer > 2]  # two layers have a closed form
    return SECONDS_PER_EDGE * starts * sum(searched) * float(length) ** 3


def capacities_below(graph: Graph, layer: int) -> np.ndarray[Any, Any]:
    """layer × query × key: the layers below, with heads merged and the residual added."""
    if layer == 1:
        return np.empty((0, graph.length, graph.length))
    return _numpy(torch.stack([edges.matrix for edges in graph.levels[: layer - 1]]))


def top_rows(graph: Graph, asked: Asked, layer: int) -> np.ndarray[Any, Any]:
    """(head · position) × key: the attention of the asked positions in the layer of interest."""
    return _numpy(graph.levels[layer - 1].rows(asked.positions)).reshape(-1, graph.length)


def _flows(
    graph: Graph, asked: Asked, solver: Callable[[Graph, Asked, int | None], Any], threads: int | None
) -> Tensor:
    return torch.from_numpy(solver(graph, asked, threads)).to(graph.device)


def _exact(graph: Graph, asked: Asked, threads: int | None) -> np.ndarray[Any, Any]:
    from attnx.methods.flow.solver import Sources, maximum_flows

    below = capacities_below(graph, asked.layers[-1])
    positions = np.array(asked.positions)
    groups = []
    for layer in asked.layers:
        rows = top_rows(graph, asked, layer)
        heads = len(rows) // len(positions)
        groups.append(Sources(rows, np.tile(positions, heads), layer - 1))
    values = maximum_flows(below, groups, threads)
    return np.stack(values).reshape(len(groups), -1, len(positions), graph.length)


def _by_definition(graph: Graph, asked: Asked, threads: int | None) -> np.ndarray[Any, Any]:
    from attnx.methods.flow.reference import flow_row

    rows = [
        [
            [
                flow_row(np.concatenate([capacities_below(graph, layer), top[None]]), position)
                for position in asked.positions
            ]
            for top in _numpy(graph.levels[layer - 1].top())
        ]
        for layer in asked.layers
    ]
    return np.array(rows, dtype=np.float64)


def _numpy(matrix: Tensor) -> np.ndarray[Any, Any]:
    array: np.ndarray[Any, Any] = matrix.detach().cpu().numpy()
    return array


_SOLVERS: dict[str, Callable[[Graph, Asked, int | None], Any]] = {"exact": _exact, "networkx": _by_definition}


def _row(solver: Solver, threads: int | None) -> Method:
    """Flow by one solver."""
    solve = partial(_flows, solver=_SOLVERS[solver], threads=threads)
    return Method(
        "flow",
        solve,
        title="attention flow",
        paper="Abnar & Zuidema 2020, §3.2",
        everywhere=flows_everywhere,
        reach=partial(remembered, solve=solve, solver=solver),
        seconds=estimated_seconds,
        diagnostics={"saturation": saturation},
        digits=DIGITS,
    )


FLOW = _row("exact", None)
