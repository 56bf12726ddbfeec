"""Attention that a caller brings: arrays and tensors with every kind of mask, and what else is read off them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import torch

import attnx
from tests.regression import present
from tests.regression.group import FLOW, Array, Group, Outcome, numbers, outcome, tolerance_of
from tests.regression.on_families import METHODS
from tests.regression.options import BY_DEFINITION, CHOICES, DISCARDING, OF_FLOW, OF_ROLLOUT, called, together

LAYERS, HEADS, LENGTH = 4, 3, 7
EVERY = 47
"""So many combinations of options lie between two that a kind of mask is asked."""


def groups() -> Iterator[Group]:
    for number, kind in enumerate(_MASKS):
        for place, method in enumerate(METHODS):
            slow = method == "flow" and kind not in ("everything", "causal")
            yield Group(f"arrays/{kind}/{method}", partial(_answers, kind, method, 3 * number + place), slow=slow)
            yield Group(f"masked/{kind}/{method}", partial(_masked, kind, method, 3 * number + place), slow=True)
        yield Group(f"arrays/{kind}/read off", partial(_read_off, kind))
    yield Group("arrays/as they are brought", _brought)


def weights(kind: str) -> Array:
    """layer × head × n × n of random attention behind a mask; some heads see little."""
    random = np.random.RandomState(list(_MASKS).index(kind))
    drawn = random.uniform(size=(LAYERS, HEADS, LENGTH, LENGTH)) ** 3 * _MASKS[kind]
    sums = drawn.sum(-1, keepdims=True)
    rows = drawn / np.where(sums > 0, sums, 1)
    # A softmax with a sink of its own leaves rows that sum to less than 1.
    return rows * random.uniform(0.4, 1.0, size=sums.shape) if kind == "short rows" else rows


def visible(kind: str) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """layer × query × key."""
    return np.broadcast_to(_MASKS[kind], (LAYERS, LENGTH, LENGTH)).copy()


def _answers(kind: str, method: str, first: int) -> dict[str, Outcome]:
    more = {"rollout": OF_ROLLOUT + DISCARDING, "flow": OF_FLOW + BY_DEFINITION}.get(method, [])
    asked = CHOICES + more + together(first, EVERY)
    call, given = METHODS[method], weights(kind)
    return {called(one): outcome(partial(call, given, **one), tolerance_of(method)) for one in asked}


def _masked(kind: str, method: str, first: int) -> dict[str, Outcome]:
    """With the mask told: what depends on it cannot be read off an array that has zeros for other reasons."""
    given = present.held(torch.from_numpy(weights(kind)), torch.from_numpy(visible(kind)))
    asked = [one for one in CHOICES if {"normalize", "drop_sink"} & set(one)] + together(first, EVERY)
    call = METHODS[method]
    return {called(one): outcome(partial(call, given, **one), tolerance_of(method)) for one in asked}


def _read_off(kind: str) -> dict[str, Outcome]:
    """Sink, ties, saturation, bounds, cuts and the graph."""
    given = weights(kind)
    flows = attnx.flow(given)
    found: dict[str, Outcome] = {"tied share": numbers(present.tied_share(flows))}
    for options in ({}, {"layer": 2}, {"head": "all"}, {"head": 1}, {"head": "max", "layer": 4}):
        found[f"sink share {called(options)}"] = outcome(partial(present.sink_share, given, **options))
    for options in (
        {},
        {"position": 3},
        {"head": "all", "position": [5, 0]},
        {"head": "min", "residual": 0.3},
        {"normalize": "column"},
        {"drop_sink": True},
    ):
        found[f"column bound {called(options)}"] = outcome(partial(present.column_bound, given, **options))
    found["saturated share"] = numbers(present.saturated_share(flows, present.column_bound(given)))
    for options in ({}, {"head": 1}, {"head": "max"}, {"residual": 0.3}):
        found[f"graph {called(options)}"] = numbers(_capacities(attnx.to_networkx(given, **options)))
        cut = present.minimum_cut(given, layer=4, position=5, input_position=1, **options)
        edges = [[edge.layer, edge.query, edge.key, edge.capacity] for edge in cut.edges]
        found[f"cut {called(options)}"] = numbers([[0, 0, 0, cut.value], *edges], FLOW)
    return found


def _capacities(graph: Any) -> Array:
    """layer × query × key."""
    found = np.zeros((LAYERS, LENGTH, LENGTH))
    for (layer, query), (_, key), capacity in graph.edges(data="capacity"):
        found[layer - 1, query, key] = capacity
    return found


def _brought() -> dict[str, Outcome]:
    """The same attention in other clothes; the kind of array that comes out goes by what came in."""
    found: dict[str, Outcome] = {}
    for kind in ("everything", "causal", "padded"):
        given = weights(kind)
        tensor, mask = torch.from_numpy(given), torch.from_numpy(visible(kind))
        clothes: dict[str, Any] = {
            "float32 array": given.astype(np.float32),
            "float16 array": given.astype(np.float16),
            "list": given.tolist(),
            "double tensor": tensor,
            "float tensor": tensor.float(),
            "tuple of layers": tuple(tensor[:, None]),
            "with its mask": present.held(tensor, mask),
            "behind a wider mask": present.held(tensor, torch.ones_like(mask)),
        }
        for name, attention in clothes.items():
            for method, call in METHODS.items():
                for options in ({}, {"normalize": "receptive_field", "position": 3}, {"drop_sink": True}):
                    case = f"{kind} {name} {method} {called(options)}"
                    found[case] = outcome(partial(call, attention, **options), tolerance_of(method))
            found[f"{kind} {name} type"] = type(attnx.rollout(attention)).__name__
        found[f"{kind} slope"] = numbers(_slope(tensor))
    return found


def _slope(weights: torch.Tensor) -> torch.Tensor | None:
    """Gradients go through rollout."""
    leaf = weights.clone().requires_grad_()
    attnx.rollout(leaf, layer=LAYERS, position=2)[1].backward()
    return leaf.grad


def _masks() -> dict[str, np.ndarray[Any, np.dtype[np.bool_]]]:
    query, key = np.indices((LENGTH, LENGTH))
    everything = np.ones((LENGTH, LENGTH), dtype=bool)
    real = (query < LENGTH - 2) & (key < LENGTH - 2)
    return {
        "everything": everything,
        "short rows": everything,
        "causal": key <= query,
        "causal window": (key <= query) & (query - key < 3),
        "window": abs(query - key) < 3,
        "padded": real,
        "padded causal": real & (key <= query),
        "padded on the left": (key <= query) & (key > 1),
    }


_MASKS = _masks()
