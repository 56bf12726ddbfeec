"""All methods in a table: what each is about, what it needs and costs, and where it is from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, TypeAlias, TypedDict

import numpy as np
from torch import Tensor

from attnx.attention import AttentionTensor, as_attention
from attnx.errors import ChoiceError, CostError, InputError, duration
from attnx.graph import EDGE_WEIGHTS, EdgeWeights, Graph, Head, Selection
from attnx.methods.receptive_field import Everywhere, Normalize, by_reach, check_normalize
from attnx.registry import Registry

Relevance: TypeAlias = Callable[[Graph, Selection], Tensor]
"""layer × head × position × input, for exactly what is asked."""

Diagnostic: TypeAlias = Callable[[Graph, Selection, Tensor], np.ndarray[Any, np.dtype[np.float64]]]
"""(graph, asked, relevance as the method gave it) → layer × position: a number that says how far to trust it."""

Seconds: TypeAlias = Callable[[Sequence[int], int, int], float]
"""(layers, positions, asked positions and heads) → what it would take on one core."""

Reading: TypeAlias = Literal["row", "share"]
"""What is read for an explained position: its own row; or the share that inputs have in a target's score, which is one
row whatever the position, signed, and about the answer."""

Facts: TypeAlias = Callable[[Graph, Selection, Tensor], Mapping[str, float | str]]
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
    edge_weights: str = "attention"
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
    def edges(self) -> EdgeWeights:
        return EDGE_WEIGHTS[self.edge_weights]

    @property
    def target_specific(self) -> bool:
        """Whether a target changes what it says."""
        return self.reading == "share" or self.edges.target_specific

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


def apply(method: Method, graph: Graph, selection: Selection, normalize: Normalize | None = None) -> MethodAnswer:
    """The relevance of a graph that was built by the method's rules, and what says how far to trust it.

    Diagnostics are asked before relevance is held against the receptive field. `normalize="column"` is a rule of the
    graph, and has been done by now.
    """
    check_normalize(normalize)
    relevance = method.relevance(graph, selection)
    facts = method.facts(graph, selection, relevance) if method.facts is not None else {}
    found = {name: diagnostic(graph, selection, relevance) for name, diagnostic in method.diagnostics.items()}
    return MethodAnswer(_against_reach(method, relevance, graph, selection, normalize), found, facts)


def _against_reach(
    method: Method, relevance: Tensor, graph: Graph, selection: Selection, normalize: Normalize | None
) -> Tensor:
    """Held against the receptive field, where that is asked for."""
    if normalize not in ("receptive_field", "prefix"):
        return relevance
    reach = method.reach or method.relevance
    everywhere = method.everywhere if method.everywhere_in_streams or not graph.sequences else None
    return by_reach(relevance, graph, selection, normalize, reach, method.relevance, everywhere)


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
    discard_ratio: float = 0.0,
    keep_position: int | None = 0,
    down_to: int = 1,
) -> Any:
    """The public face of a method: attention of any kind in, the same kind out, with the axes that were asked for."""
    check_normalize(normalize)
    if discard_ratio and not method.discards:
        raise ChoiceError(f"{method.name} discards nothing; use rollout")
    tensor = as_attention(attention)
    graph = Graph.of(
        tensor,
        edge_weights=method.edge_weights,
        head=head,
        residual=residual,
        drop_sink=drop_sink,
        column=normalize == "column",
        discard_ratio=discard_ratio,
        keep_position=keep_position,
    )
    number = None if layer is None else tensor.number(layer)
    selection = Selection.of(graph.depth, graph.length, layer=number, position=position, down_to=down_to)
    found = _against_reach(method, method.relevance(graph, selection), graph, selection, normalize)
    relevance = selection.shaped(found, graph.head)
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


_BUILT_IN = {
    "raw": "attnx.methods.rollout:RAW",
    "rollout": "attnx.methods.rollout:ROLLOUT",
    "flow": "attnx.methods.flow:FLOW",
    "effective_rollout": "attnx.methods.rollout:EFFECTIVE_ROLLOUT",
    "norm_rollout": "attnx.methods.rollout:NORM_ROLLOUT",
    "globenc": "attnx.methods.rollout:GLOBENC_ROLLOUT",
    "alti": "attnx.methods.rollout:ALTI_ROLLOUT",
    "value_zeroing": "attnx.methods.rollout:VALUE_ZEROING_ROLLOUT",
    "gradient_rollout": "attnx.methods.rollout:GRADIENT_ROLLOUT",
    "gradient_flow": "attnx.methods.rollout:GRADIENT_FLOW",
    "alti_logit": "attnx.methods.alti_logit:ALTI_LOGIT",
}
METHODS: Registry[Method] = Registry("method", "attnx.methods.base:Method", _BUILT_IN)

PAPER_METHODS = ("raw", "rollout", "flow")
"""The rows of the paper's tables, in its order, and what is computed where nobody chose. Raw has no residual."""


def asked_methods(methods: Sequence[str] | str) -> tuple[Method, ...]:
    """The rows that a caller named; a name that does not exist is an error. `rollout:NAME` names edges, too."""
    names = (methods,) if isinstance(methods, str) else tuple(methods)
    if not names:
        raise InputError(f"no method asked; there are: {', '.join(METHODS.names())}")
    return tuple(_named(name) for name in names)


def _named(name: str) -> Method:
    """A row of `METHODS`, or one of them on other edges: `rollout:NAME` is rollout of the weighting NAME."""
    method, _, edge_weights = name.partition(":") if isinstance(name, str) else (name, "", "")
    if name in METHODS or not edge_weights:
        return METHODS[name]
    row = EDGE_WEIGHTS[edge_weights]
    if row.signed and not METHODS[method].takes_signed:
        raise ChoiceError(f"{method} needs edges that are at least 0, and those of {edge_weights!r} are signed")
    return replace(
        METHODS[method], name=name, title="", edge_weights=edge_weights, by_rows=METHODS[method].by_rows and row.by_rows
    )


def title_of(name: str) -> str:
    """As a heading says it; of a method that is not there, as one of a file may be, its name."""
    return METHODS[name].title if name in METHODS else name


@dataclass(frozen=True)
class Listed:
    """One row."""

    name: str
    kind: str
    """A method reads a graph; a reference is measured on the model itself."""
    about: str
    needs: tuple[str, ...]
    """What capturing brings beside attention, and whether there must be an answer."""
    costs: str
    says: str
    """In a line, what it is and where it is from."""
    long_inputs: bool
    """Whether no whole map is held, so that it runs on thousands of positions."""
    heads: bool
    """Whether single heads can be asked for."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def listed_methods() -> tuple[Listed, ...]:
    """The rows of `METHODS`, in the order in which views show them."""
    return tuple(_row(METHODS[name]) for name in METHODS.names())


def _row(method: Method) -> Listed:
    edge_weights = method.edges
    needs = (*sorted(edge_weights.needs), *(("a head that answers",) if method.target_specific else ()))
    read = "; one more for each answer" if method.reading == "share" else ""
    search = "; a search that grows with the cube of the length" if method.seconds is not None else ""
    return Listed(
        method.name,
        "method",
        "the answer" if method.target_specific else edge_weights.about,
        needs,
        edge_weights.costs + read + search,
        f"{method.title} ({method.paper})" if method.paper else method.title,
        long_inputs=method.by_rows and edge_weights.by_rows,
        heads=edge_weights.per_head,
    )
