"""Attention flow for any layer, query position and head."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from attnx.errors import ChoiceError
from attnx.methods.choices import Head, whole_number
from attnx.methods.flow.cost import LIMIT, check_cost
from attnx.methods.flow.uninformed import flows_everywhere, uninformed_flow
from attnx.methods.question import Attention, Question
from attnx.methods.receptive_field import Normalize, by_reach
from attnx.registry import unknown

Solver = Literal["exact", "networkx"]


def flow(
    attention: Attention,
    *,
    layer: int | None = None,
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
    question = Question.ask(
        attention,
        layer=layer,
        position=position,
        head=head,
        residual=residual,
        normalize=normalize,
        drop_sink=drop_sink,
    )
    solvers = {"exact": _exact, "networkx": _by_definition}
    if solver not in solvers:
        raise ChoiceError(unknown("solver", solver, solvers))
    if threads is not None and whole_number("threads", threads) < 1:
        raise ChoiceError(f"threads={threads} asked; at least 1 is needed, or None for one per core")
    heads = question.heads if head == "each" else 1
    check_cost(question.layers, question.length, heads * len(question.positions), limit)
    solve = partial(_flows, solver=solvers[solver], threads=threads)
    return question.answer(_fair(solve(question), question, solve, solver))


def by_receptive_field(flows: Tensor, attention: Attention, **asked: Any) -> Any:
    """`flow(attention, **asked)` with a `normalize`, of flows that are known already without it."""
    options: dict[str, Any] = {"layer": None, "position": None, "head": None, "residual": 0.5} | asked
    question = Question.ask(attention, **options)
    heads = question.heads if question.head == "each" else 1
    whole = flows.reshape(len(question.layers), heads, len(question.positions), question.length)
    return question.answer(_fair(whole, question, partial(_flows, solver=_exact, threads=None), "exact"))


def _fair(flows: Tensor, question: Question, solve: Callable[[Question], Tensor], solver: str) -> Tensor:
    reach = partial(uninformed_flow, solve=solve, solver=solver)
    return by_reach(flows, question, reach=reach, everywhere=flows_everywhere, depths=question.layers)


def _flows(question: Question, solver: Callable[[Question, int | None], Any], threads: int | None) -> Tensor:
    return torch.from_numpy(solver(question, threads)).to(question.device)


def _exact(question: Question, threads: int | None) -> np.ndarray[Any, Any]:
    from attnx.methods.flow.solver import Sources, maximum_flows

    below = capacities_below(question, max(question.layers))
    positions = np.array(question.positions)
    groups = []
    for layer in question.layers:
        rows = top_rows(question, layer)
        heads = len(rows) // len(positions)
        groups.append(Sources(rows, np.tile(positions, heads), layer - 1))
    values = maximum_flows(below, groups, threads)
    return np.stack(values).reshape(len(groups), -1, len(positions), question.length)


def _by_definition(question: Question, threads: int | None) -> np.ndarray[Any, Any]:
    from attnx.methods.flow.reference import flow_row

    rows = [
        [
            [
                flow_row(np.concatenate([capacities_below(question, layer), top[None]]), position)
                for position in question.positions
            ]
            for top in _numpy(question.top(layer))
        ]
        for layer in question.layers
    ]
    return np.array(rows, dtype=np.float64)


def capacities_below(question: Question, layer: int) -> np.ndarray[Any, Any]:
    """layer × query × key: the layers below, with heads merged and the residual added."""
    return _numpy(question.below[: layer - 1])


def top_rows(question: Question, layer: int) -> np.ndarray[Any, Any]:
    """(head · position) × key: the attention of the asked positions in the layer of interest."""
    return _numpy(question.rows(layer)).reshape(-1, question.length)


def _numpy(matrix: Tensor) -> np.ndarray[Any, Any]:
    array: np.ndarray[Any, Any] = matrix.detach().cpu().numpy()
    return array
