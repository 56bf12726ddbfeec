"""A method reads relevance off a graph. It is a frozen row of `METHODS`, and `apply` is the one driver of all rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, TypedDict

import numpy as np
from torch import Tensor

from attnx.attention.tensor import AttentionTensor, as_attention
from attnx.errors import ChoiceError, CostError
from attnx.graph.asked import Asked, Head
from attnx.graph.graph import Graph
from attnx.graph.registry import WEIGHTINGS
from attnx.graph.weighting import Weighting
from attnx.methods.normalization import Normalize, check_normalize
from attnx.methods.receptive_field import Everywhere, by_reach

Relevance: TypeAlias = Callable[[Graph, Asked], Tensor]
"""layer × head × position × input, for exactly what is asked."""

Diagnostic: TypeAlias = Callable[[Graph, Asked, Tensor], np.ndarray[Any, np.dtype[np.float64]]]
"""(graph, asked, relevance as the method gave it) → layer × position: a number that says how far to trust it."""

Seconds: TypeAlias = Callable[[Sequence[int], int, int], float]
"""(layers, positions, asked positions and heads) → what it would take on one core."""

Reading: TypeAlias = Literal["row", "share"]
"""What is read for an explained position: its own row; or the share that inputs have in a target's score, which is one
row whatever the position, signed, and about the answer."""

Facts: TypeAlias = Callable[[Graph, Asked, Tensor], Mapping[str, float | str]]
"""(graph, asked, relevance) → what else is to be told of the row of the last layer; `account` says it in a line."""

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Brought: TypeAlias = AttentionTensor | Tensor | Sequence[Tensor] | list[Any]
"""Attention as it is brought where tensors come out; of an array comes an array."""


class MethodChoices(TypedDict, total=False):
    """The keyword arguments that all methods take, for type checkers."""

    layer: int | str | None
    position: int | Sequence[int] | None
    head: Head | None
    residual: float
    normalize: Normalize | None
    drop_sink: bool


LIMIT = 60.0
"""Seconds on one core that are begun upon without being told to."""


@dataclass(frozen=True)
class Method:
    """What is read off a graph."""

    name: str
    relevance: Relevance
    title: str = ""
    """As a heading says it: "attention rollout"; by default the name."""
    paper: str = ""
    """Where the method is from."""
    weighting: str = "attention"
    residual: float = 0.5
    """The share of the residual where the caller does not choose."""
    discards: bool = False
    """Whether the lowest weights may be discarded first."""
    everywhere: Everywhere | None = None
    """B of the receptive field in closed form; None: computed on the graph in which everything is seen."""
    everywhere_in_streams: bool = False
    """Whether that form holds for one of several streams, up to a factor, whatever the others bring in."""
    reach: Relevance | None = None
    """U of the receptive field; None: the method itself on the uninformed graph."""
    by_rows: bool = False
    """Whether rows and products with them are enough, and no whole map is read: then a long input is never held."""
    seconds: Seconds | None = None
    """What it would take, where that may be more than a moment."""
    diagnostics: Mapping[str, Diagnostic] = field(default_factory=dict)
    digits: int | None = None
    """Decimals that mean something: beyond them is no order."""
    local: bool = False
    """Whether it tells of one layer alone, and not of the input."""
    takes_signed: bool = False
    """Whether edges may be below 0."""
    reading: Reading = "row"
    facts: Facts | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "title", self.title or self.name)

    @property
    def edges(self) -> Weighting:
        return WEIGHTINGS[self.weighting]

    @property
    def about_answer(self) -> bool:
        """Whether a target changes what it says."""
        return self.reading == "share" or self.edges.about_answer

    @property
    def signed(self) -> bool:
        """Whether scores below 0 speak against the answer."""
        return self.reading == "share" or self.edges.signed

    @property
    def mixes_residual(self) -> bool:
        """Whether the residual is a share that can be chosen, as in the even model of the receptive field."""
        return self.edges.residual == "share"

    def forwards(self, positions: int) -> float | None:
        """Plain forwards that it takes of such an input, where its edges say so; a share of a score takes one more."""
        cost = self.edges.forwards
        return None if cost is None else cost(positions) + (self.reading == "share")

    def takes(self, normalize: Normalize | None) -> bool:
        """Whether a normalisation for decoders means something: U and B are of a model with the same share of the
        residual, and columns are divided where all weights are at least 0."""
        return normalize is None or (not self.signed and (normalize == "column" or self.mixes_residual))


@dataclass(frozen=True, eq=False)
class MethodAnswer:
    """What a method says of a graph."""

    relevance: Tensor
    """layer × head × position × input."""
    diagnostics: Mapping[str, np.ndarray[Any, np.dtype[np.float64]]]
    """Name → layer × position."""
    facts: Mapping[str, float | str] = field(default_factory=dict)


def apply(method: Method, graph: Graph, asked: Asked, normalize: Normalize | None = None) -> MethodAnswer:
    """The relevance of a graph that was built by the method's rules, and what says how far to trust it.

    Diagnostics are asked before relevance is held against the receptive field. `normalize="column"` is a rule of the
    graph, and has been done by now.
    """
    check_normalize(normalize)
    relevance = method.relevance(graph, asked)
    facts = method.facts(graph, asked, relevance) if method.facts is not None else {}
    found = {name: one(graph, asked, relevance) for name, one in method.diagnostics.items()}
    return MethodAnswer(_against_reach(method, relevance, graph, asked, normalize), found, facts)


def _against_reach(
    method: Method, relevance: Tensor, graph: Graph, asked: Asked, normalize: Normalize | None
) -> Tensor:
    """Held against the receptive field, where that is asked for."""
    if normalize not in ("receptive_field", "prefix"):
        return relevance
    reach = method.reach or method.relevance
    everywhere = method.everywhere if method.everywhere_in_streams or not graph.streams else None
    return by_reach(relevance, graph, asked, normalize, reach, method.relevance, everywhere)


def call(
    method: Method,
    attention: Any,
    *,
    layer: int | str | None,
    position: int | Sequence[int] | None,
    head: Head | None,
    residual: float,
    normalize: Normalize | None,
    drop_sink: bool,
    discard: float = 0.0,
    spare: int | None = 0,
    down_to: int = 1,
) -> Any:
    """The public face of a method: attention of any kind in, the same kind out, with the axes that were asked for."""
    check_normalize(normalize)
    if discard and not method.discards:
        raise ChoiceError(f"{method.name} discards nothing; use rollout")
    tensor = as_attention(attention)
    graph = Graph.of(
        tensor,
        weighting=method.weighting,
        head=head,
        residual=residual,
        drop_sink=drop_sink,
        column=normalize == "column",
        discard=discard,
        spare=spare,
    )
    number = None if layer is None else tensor.number(layer)
    asked = Asked.of(graph.depth, graph.length, layer=number, position=position, down_to=down_to)
    found = _against_reach(method, method.relevance(graph, asked), graph, asked, normalize)
    relevance = asked.shaped(found, graph.head)
    return relevance.numpy() if isinstance(attention, np.ndarray) else relevance


def check_cost(
    method: Method,
    layers: Sequence[int],
    length: int,
    starts: int,
    limit: float | None = LIMIT,
    *,
    width: int = 0,
    hint: str = "",
) -> None:
    """Refuse what would take longer than `limit` seconds: one line is better than an hour without a word.

    `width` is that of the stream, where edges must be made of it.
    """
    seconds = method.seconds(layers, length, starts) if method.seconds is not None else 0.0
    if method.edges.seconds is not None:
        read = len(layers) * starts if method.local else max(layers) * length
        seconds += method.edges.seconds(width) * float(read) * length
    if limit is not None and seconds > limit:
        raise CostError(
            f"{method.name} over {length} positions would take about {duration(seconds)} on one core; use rollout, a "
            f"shorter text, or one layer (layer=…){hint}"
        )


def duration(seconds: float) -> str:
    """As people say it."""
    for size, name in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {name}"
    return f"{seconds:.0f} seconds"
