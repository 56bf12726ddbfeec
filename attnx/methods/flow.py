"""Attention flow: the maximum flow from a hidden position down to each input (Abnar & Zuidema 2020, §3.2).

The exact solver is in `flow_solver`; here are the public function, bounds and saturation, the minimum cut, and the
definition by networkx, which is the oracle of all that is fast.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from typing import Any, Literal, TypeAlias, Unpack, overload

import numpy as np
import torch
from torch import Tensor

from attnx.arguments import checked
from attnx.attention import as_attention
from attnx.errors import ChoiceError, whole_number
from attnx.graph import Graph, Head, Selection, capacity_graph, check_layer, check_position, check_positions
from attnx.methods import ties
from attnx.methods.base import LIMIT, Array, Brought, Method, MethodChoices, call, check_cost
from attnx.methods.receptive_field import Normalize, check_normalize
from attnx.methods.ties import SCORE_DECIMALS
from attnx.registry import unknown

Matrix: TypeAlias = np.ndarray[Any, Any]
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
    saturated = (reachable & (np.abs(values - bounds) <= 10.0**-SCORE_DECIMALS)).sum(-1)
    share = saturated / np.maximum(reachable.sum(-1), 1)
    return float(share) if share.ndim == 0 else share


def saturation(graph: Graph, selection: Selection, flows: Tensor) -> np.ndarray[Any, np.dtype[np.float64]]:
    """layer × position: the share of inputs that are saturated, the mean over heads."""
    share: np.ndarray[Any, np.dtype[np.float64]]
    share = saturated_share(flows, _bound(graph, selection)[None, None]).mean(1)
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

    In a causal model only the queries up to the position count, for no later one lies on its way. With `head="all"`
    the lower layers have their heads merged, as in `flow`, so there is no head axis. `"receptive_field"` scales flows
    and not what can pass, so it has no part in the bound.
    """
    column = check_normalize(normalize) == "column"
    graph = Graph.of(attention, head=head, residual=residual, drop_sink=drop_sink, column=column)
    selection = Selection.of(graph.depth, graph.length, layer=1, position=position)
    bound = selection.shaped(_bound(graph, selection)[None, None], "mean")
    return bound.numpy() if isinstance(attention, np.ndarray) else bound


def _bound(graph: Graph, selection: Selection) -> Tensor:
    """position × input."""
    sums = torch.empty(graph.length, graph.length, dtype=torch.float64, device=graph.device)
    for place in graph.sequences.values() or (slice(0, graph.length),):
        # Flow enters an input in the first layer that computes its sequence; below, it is passed on.
        first = next(
            (layer for layer in graph.layers if layer.weights.query_slice == place), graph.layers[0]
        ).matrix.detach()
        columns = first[:, place]
        sums[:, place] = (
            columns.cumsum(0) if graph.causal_positions == place else columns.sum(0).expand(graph.length, -1)
        )
    return sums[list(selection.positions)].clamp(max=1)


Key: TypeAlias = tuple[Any, ...]

REMEMBERED = 256
"""The most results in the cache."""

NUMBERS = 50_000
"""The most numbers of a cached result; the cache stays below 0.1 GB."""

_uninformed_flows: dict[Key, Tensor] = {}


def flows_everywhere(identity: Tensor, even: Tensor, residual: Tensor, depth: int) -> Tensor:
    """min(1, (depth − 1)·(1 − A[s, s]) + A[s, t]) between two positions, and 1 from a position to itself.

    The cut is the source's own column: all that leaves it on the way, and its edge to the sink in layer 1. Even layers
    hold nothing else back. `own` and `even` are query × input, as in `receptive_field.Everywhere`.
    """
    layer = residual * identity + (1 - residual) * even
    if depth == 1:
        return layer
    straight = (layer * identity).sum(-1, keepdim=True)
    aside = ((depth - 1) * (1 - straight) + layer).clamp(max=1)
    # A position that no query sees is reached only through the residual.
    return torch.where(even > 0, torch.where(identity > 0, 1.0, aside), layer)


def remembered(
    graph: Graph, selection: Selection, *, solve: Callable[[Graph, Selection], Tensor], solver: str
) -> Tensor:
    """Flow of a graph of uniform attention, cached where it is small."""
    numbers = len(selection.layers) * len(selection.positions) * graph.length
    if numbers > NUMBERS or not graph.whole:  # masks of long inputs are not materialized for a key
        return solve(graph, selection)
    key = (solver, selection.layers, selection.positions, graph.rules.residual, graph.rules.sink, *_fingerprint(graph))
    tensor = _uninformed_flows.get(key)
    if tensor is None:
        tensor = solve(graph, selection)
        while len(_uninformed_flows) >= REMEMBERED:
            _uninformed_flows.pop(next(iter(_uninformed_flows)), None)
        _uninformed_flows[key] = tensor.cpu()
    return tensor.to(graph.device)


def _fingerprint(graph: Graph) -> tuple[Any, ...]:
    """Layers of uniform attention are identified by their masks."""
    masks = [edges.weights.layer.mask for edges in graph.layers]
    names: dict[int, bytes] = {}
    for mask in masks:
        if id(mask) not in names:
            seen = np.packbits(mask.visible(0, mask.length).numpy(force=True))
            names[id(mask)] = blake2b(seen.tobytes(), digest_size=16).digest()
    return (graph.length, *(names[id(mask)] for mask in masks))


SECONDS_PER_EDGE = 8e-10
"""One start and one end through one layer of n × n edges cost about n² of these in trained models, whose attention is
sharp; random, even attention takes a quarter. By Whisper tiny.en over 1,500 positions, and
tests/benchmarks/long_inputs.py."""

Solver = Literal["exact", "networkx"]


class FlowChoices(MethodChoices, total=False):
    """The options of `flow`."""

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
        raise ChoiceError(f"threads={threads} was requested; give at least 1, or None for one per core")
    tensor = as_attention(attention)
    layers = (
        range(1, tensor.num_layers + 1) if layer is None else (check_layer(tensor.number(layer), tensor.num_layers),)
    )
    starts = len(check_positions(position, tensor.length)) * (tensor.num_heads if head == "all" else 1)
    check_cost(FLOW, layers, tensor.length, starts, limit, hint="; limit=None waits for it")
    flows = call(
        _row(solver, threads),
        tensor,
        layer=layer,
        position=position,
        head=head,
        residual=residual,
        normalize=normalize,
        drop_sink=drop_sink,
    )
    return flows.numpy() if isinstance(attention, np.ndarray) else flows


def estimated_seconds(layers: Sequence[int], length: int, starts: int = 1) -> float:
    """For so many `starts` (positions or heads) at each of these layers, to all ends."""
    searched = [layer for layer in layers if layer > 2]  # two layers have a closed form
    return SECONDS_PER_EDGE * starts * sum(searched) * float(length) ** 3


def capacities_below(graph: Graph, layer: int) -> Matrix:
    """layer × query × key: the layers below, with heads merged and the residual added."""
    if layer == 1:
        return np.empty((0, graph.length, graph.length))
    return _numpy(torch.stack([edges.matrix for edges in graph.layers[: layer - 1]]))


def top_rows(graph: Graph, selection: Selection, layer: int) -> Matrix:
    """(head · position) × key: the attention of the asked positions in the layer of interest."""
    return _numpy(graph.layers[layer - 1].rows(selection.positions)).reshape(-1, graph.length)


def _flows(
    graph: Graph, selection: Selection, solver: Callable[[Graph, Selection, int | None], Any], threads: int | None
) -> Tensor:
    return torch.from_numpy(solver(graph, selection, threads)).to(graph.device)


def _exact(graph: Graph, selection: Selection, threads: int | None) -> Matrix:
    from attnx.methods.flow_solver import Sources, maximum_flows

    below = capacities_below(graph, selection.layers[-1])
    positions = np.array(selection.positions)
    groups = []
    for layer in selection.layers:
        rows = top_rows(graph, selection, layer)
        heads = len(rows) // len(positions)
        groups.append(Sources(rows, np.tile(positions, heads), layer - 1))
    values = maximum_flows(below, groups, threads)
    return np.stack(values).reshape(len(groups), -1, len(positions), graph.length)


def _by_definition(graph: Graph, selection: Selection, threads: int | None) -> Matrix:
    rows = [
        [
            [
                flow_row(np.concatenate([capacities_below(graph, layer), top[None]]), position)
                for position in selection.positions
            ]
            for top in _numpy(graph.layers[layer - 1].top())
        ]
        for layer in selection.layers
    ]
    return np.array(rows, dtype=np.float64)


def _numpy(matrix: Tensor) -> Matrix:
    array: Matrix = matrix.detach().cpu().numpy()
    return array


def flow_row(capacities: Matrix, position: int) -> list[float]:
    """Maximum flow from (top layer, `position`) to each input position, given capacities[layer, query, key]."""
    import networkx

    graph = capacity_graph(capacities)
    layers, length, _ = capacities.shape
    source = (layers, position)
    return [float(networkx.maximum_flow_value(graph, source, (0, key))) for key in range(length)]


_SOLVERS: dict[str, Callable[[Graph, Selection, int | None], Any]] = {"exact": _exact, "networkx": _by_definition}


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
        digits=SCORE_DECIMALS,
    )


FLOW = _row("exact", None)


@dataclass(frozen=True)
class CutEdge:
    """An edge of the bottleneck: in this layer, the capacity from a query position to a key position."""

    layer: int
    query: int
    key: int
    capacity: float


@dataclass(frozen=True)
class MinimumCut:
    """The bottleneck between one hidden position and one input position; of several, the one next to the source."""

    value: float
    edges: tuple[CutEdge, ...]

    @property
    def layers(self) -> tuple[int, ...]:
        """The layers that have a part in the bottleneck, from the input up."""
        return tuple(sorted({edge.layer for edge in self.edges}))


def minimum_cut(
    attention: Any,
    *,
    layer: int,
    position: int,
    input_position: int,
    head: Head | None = None,
    residual: float = 0.5,
) -> MinimumCut:
    """The edges that no flow from (layer, position) to the input position can pass by; without them it is cut off.

    >>> minimum_cut(np.full((2, 1, 2, 2), 0.5), layer=2, position=0, input_position=1).layers
    (1, 2)
    """
    if head == "all":
        raise ChoiceError("a minimum cut is of one graph; give head as a number, or None for the mean of all heads")
    graph = Graph.of(attention, head=head, residual=residual)
    selection = Selection.of(graph.depth, graph.length, layer=layer, position=position)
    end = check_position(input_position, graph.length)
    edges = _cut_edges(
        capacities_below(graph, layer), top_rows(graph, selection, layer)[0], selection.positions[0], end
    )
    return MinimumCut(value=float(sum(edge.capacity for edge in edges)), edges=edges)


def _cut_edges(capacities: Matrix, row: Matrix, position: int, sink: int) -> tuple[CutEdge, ...]:
    """All edges from the source's side of the cut to the sink's side, the source's layer first."""
    height, length = len(capacities), len(row)
    target = np.arange(length) == sink
    seen = _source_side(capacities, row, sink) if height else np.empty((0, length), bool)
    sides = [~target, *seen, np.arange(length) == position]
    layers = [*capacities, np.where(np.arange(length)[:, None] == position, row, 0.0)]
    edges = []
    for layer in range(height + 1, 0, -1):
        cut = layers[layer - 1] * (sides[layer][:, None] & ~sides[layer - 1])
        edges += [CutEdge(layer, query, key, float(cut[query, key])) for query, key in np.argwhere(cut > 0).tolist()]
    return tuple(edges)


def _source_side(capacities: Matrix, row: Matrix, sink: int) -> Matrix:
    """layer × query: whether more flow could come from the source to here, once no more can reach the sink."""
    from attnx.methods.flow_solver import SWEEPS, ResidualGraph, Task

    height, length = len(capacities), len(row)
    no_bound = np.full((1, length), np.inf)
    task = Task(np.ascontiguousarray(capacities), row[None], np.array([height]), no_bound)
    return task.solve(ResidualGraph.of(task.capacities, sweeps=SWEEPS), sink, sink + 1).seen(height)
