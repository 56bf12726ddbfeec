"""What a caller chose for all methods, said as it is used."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from torch import Tensor

from attnx.attention import AttentionTensor
from attnx.attribution import REFERENCES, asked_references
from attnx.errors import ChoiceError, CostError, whole_number
from attnx.graph import EDGE_WEIGHTS, Head, check_head_name, check_residual, check_share
from attnx.methods import (
    METHODS,
    Method,
    Normalization,
    Normalize,
    asked_methods,
    check_cost,
    check_normalization,
)
from attnx.registry import quoted, unknown

MEAN, ENTITIES, EVERY = "mean", "entities", "all"
"""How a caller asks for the mean of all positions, for each entity that a token classifier finds, and for each token of
an output: `position="mean"`."""


def check_choices(
    methods: Sequence[str] | None = None,
    references: Sequence[str] | None = None,
    *,
    normalize: Any = "auto",
    discard_ratio: float = 0.0,
    layer: Any = None,
    head: Any = None,
    position: Any = None,
) -> None:
    """That all of it may exist. What depends on the model or on the input is found out with them."""
    for name in methods or ():
        if not _measured(name):
            _check_method(name)
    for name in references or ():
        REFERENCES.check(name)
    check_normalization(normalize)
    check_share(discard_ratio)
    if isinstance(layer, int) and layer < 1:
        raise ChoiceError(f"layer {layer} was requested; layers are counted from 1, which is closest to the input")
    if isinstance(head, int) and head < 0:
        raise ChoiceError(f"head {head} was requested; heads are counted from 0")
    if isinstance(head, str):
        check_head_name(head)
    if isinstance(position, str):
        check_position_name(position)


def check_position_name(position: str) -> None:
    """A position that is a word."""
    if position not in (MEAN, ENTITIES, EVERY):
        raise ChoiceError(
            f"position must be a whole number, {MEAN!r} for the mean of all, {ENTITIES!r} for each that a token "
            f"classifier finds, or {EVERY!r} for each token of an output, found {position!r}"
        )


AskedMethods: TypeAlias = Sequence[str] | str | Mapping[str, Mapping[str, Any]]
"""Names of methods, or names with options: `{"rollout": {}, "integrated_gradients": {"steps": 64}}`."""


@dataclass(frozen=True)
class MethodChoice:
    """The methods of a call: those that are read off the graph of attention, and those that run the model."""

    graph: tuple[str, ...] | None
    """None where nobody chose."""
    measured: Mapping[str, Mapping[str, Any]] | None
    """Name → options; None where nobody chose."""
    order: tuple[str, ...] | None
    """All in the order in which the caller named them."""

    @classmethod
    def of(cls, methods: AskedMethods | None, references: Any = None) -> MethodChoice:
        """Read `methods`, and what else is measured; a name or an option that does not exist is an error."""
        if methods is None:
            return cls(None, references, None)
        names = (methods,) if isinstance(methods, str) else tuple(methods)
        for name in names:
            if not isinstance(name, str):
                raise ChoiceError(unknown("method", name, (*METHODS.names(), *REFERENCES.names())))
        chosen_options = methods if isinstance(methods, Mapping) else {}
        for name, value in chosen_options.items():
            if not isinstance(value, Mapping | None):
                raise ChoiceError(f"options of {name} are a dictionary, found {quoted(value)}")
        options = {name: dict(chosen_options.get(name) or {}) for name in names}
        graph = tuple(name for name in options if not _measured(name))
        for name in graph:
            _check_method(name)
            if options[name]:
                raise ChoiceError(f"{name} takes no options of its own, found {', '.join(options[name])}")
        chosen = {name: options[name] for name in options if name not in graph}
        measured = asked_references(chosen) if chosen else {}
        more = {} if references is None or len(references) == 0 else asked_references(references)
        if not measured and not graph:
            asked_methods(())
        if not measured and references is None:
            return cls(graph, None, graph)
        return cls(graph, {**measured, **more}, (*options, *more))


def _measured(name: object) -> bool:
    return isinstance(name, str) and name not in METHODS and name in REFERENCES


def _check_method(name: str) -> None:
    """A row of `METHODS`, or one of them on other edges, as `asked_methods` takes them."""
    method, _, edge_weights = name.partition(":")
    if name not in METHODS and edge_weights:
        EDGE_WEIGHTS.check(edge_weights)
        METHODS.check(method)
    elif name not in METHODS:
        raise ChoiceError(unknown("method", name, (*METHODS.names(), *REFERENCES.names())))


LAST = -1
"""The last layer, whatever their number."""

LONG_INPUT = 1024
"""Above this many positions queries and keys are kept, and rows computed from them instead of held."""


@dataclass(frozen=True)
class Plan:
    """What is computed of one input, and how."""

    methods: tuple[Method, ...]
    held: bool
    """Whether attention is held; else queries and keys are."""
    notes: tuple[str, ...] = ()


def plan(
    methods: Sequence[Method] | None,
    length: int,
    config: Any,
    *,
    layer: int | str | None,
    head: Head | None,
    positions: int = 1,
) -> Plan:
    """The plan of an input of `length` positions, so many `positions` of which are explained.

    A method that would take too long is an error if it was asked for. Nobody asked when `methods` is None: it is left
    out then, with a note.
    """
    heads = getattr(config, "num_attention_heads", None)
    hidden = getattr(config, "hidden_size", None)
    top = _levels(config)
    width = hidden if isinstance(hidden, int) else 768
    heights = range(1, top + 1) if layer is None else (top if layer == LAST or isinstance(layer, str) else layer,)
    starts = positions * (heads if head == "all" and isinstance(heads, int) else 1)
    kept, notes = [], []
    for method in asked_methods(DEFAULT_METHODS) if methods is None else methods:
        try:
            check_cost(method, heights, length, starts, width=width)
            kept.append(method)
        except CostError as error:
            if methods is not None:
                raise
            notes.append(f"{method.name} was left out: {error}")
    held = length <= LONG_INPUT or not all(method.by_rows for method in kept)
    return Plan(tuple(kept), held, tuple(notes))


def _levels(config: Any) -> int:
    """About how many levels of attention there are: of an encoder–decoder those of both streams."""
    layers = getattr(config, "num_hidden_layers", None)
    whole = layers if isinstance(layers, int) else 12
    if not getattr(config, "is_encoder_decoder", False):
        return whole
    decoder = getattr(config, "decoder_layers", getattr(config, "num_decoder_layers", None))
    return whole + 2 * (decoder if isinstance(decoder, int) else whole)


DEFAULT_REFERENCES = ("lrp",)
"""What is measured on a model with a head where nobody chose, the one that is shown first in front: by the tables of
docs/truth.md the best that costs at most four forwards."""

DEFAULT_METHODS = ("rollout", "raw", "flow")
"""What is read off the graph where nobody chose."""

MEASURED_UP_TO = 8_192
"""Positions above which nothing is measured that nobody asked for: it takes minutes, though little memory."""


@dataclass(frozen=True)
class Settings:
    """None for methods leaves them to attnx, None for the residual leaves each method its own."""

    methods: tuple[Method, ...] | None = None
    layer: int | str | None = None
    head: Head | None = None
    residual: float | None = None
    normalize: Normalization = "auto"
    drop_sink: bool = False
    discard_ratio: float = 0.0
    all_queries: bool = False
    """Whether the rows of all positions are kept, not only those of the explained one."""
    module: str = ""
    """The beginning of the names of the modules to explain, where a model has several stacks of attention."""
    over_rows: Callable[[Tensor], Tensor] | None = None
    """Makes one row of the rows of all positions, … × query × input, instead of reading the explained one's."""

    @property
    def averaged(self) -> bool:
        """Whether the mean of all positions is explained."""
        return self.over_rows is mean_row

    @classmethod
    def of(cls, methods: Sequence[str] | str | None = None, *, discard_ratio: float = 0.0, **chosen: Any) -> Settings:
        """The settings by the names of the methods; a method or a share that does not exist is an error."""
        made = cls(
            None if methods is None else asked_methods(methods), discard_ratio=check_share(discard_ratio), **chosen
        )
        check_normalization(made.normalize)
        if made.layer is not None and not isinstance(made.layer, str):
            whole_number("layer", made.layer)
        if not isinstance(made.module, str):
            raise ChoiceError(f"module must be the beginning of a module's name, found {made.module!r}")
        if made.residual is not None:
            check_residual(made.residual)
            if made.methods is not None and not any(method.mixes_residual for method in made.methods):
                names = ", ".join(method.name for method in made.methods)
                raise ChoiceError(f"residual={made.residual} asked, but {names} has the model's own; use rollout")
        if made.methods is not None and made.normalize != "auto":
            check_taken(made.methods, made.normalize)
        if made.methods is not None and made.discard_ratio and not any(method.discards for method in made.methods):
            names = ", ".join(method.name for method in made.methods)
            raise ChoiceError(f"discard={discard_ratio} asked, but {names} discards nothing; use rollout")
        return made

    def layer_of(self, attention: AttentionTensor) -> int | None:
        if self.layer is None or self.layer == LAST:
            return None if self.layer is None else attention.num_layers
        return attention.number(self.layer)

    def normalization(self, attention: AttentionTensor, method: Method) -> Normalize | None:
        """The normalisation that a method's row gets; none where it would mean nothing."""
        asked = self.normalize
        if asked == "auto":
            # What comes later does not change what a position knows.
            asked = "prefix" if attention.causal or (attention.sequences and attention.written is not None) else None
        return asked if method.takes(asked) else None

    def residual_of(self, method: Method) -> float:
        return method.residual if self.residual is None or not method.mixes_residual else self.residual

    def on_record(self, attention: AttentionTensor, methods: Sequence[Method]) -> dict[str, Any]:
        """The settings as they were used, for the provenance of a result."""
        head = "mean" if self.head is None else self.head if isinstance(self.head, str) else int(self.head)
        record: dict[str, Any] = {
            "head": head,
            "residual": {
                method.name: self.residual_of(method) if method.mixes_residual else method.edges.residual
                for method in methods
            },
            "normalize": _told({method.name: self.normalization(attention, method) for method in methods}),
            "drop_sink": self.drop_sink,
        }
        record |= {"causal": True} if attention.causal else {}
        record |= {"layer_kinds": list(attention.kinds)} if attention.sequences else {}
        record |= {"module": self.module} if self.module else {}
        return record | ({"discard_ratio": self.discard_ratio} if self.discard_ratio else {})


def mean_row(relevance: Tensor) -> Tensor:
    """The rows of all positions, … × query × input, as one: what a model that pools by the mean answers from."""
    return relevance.mean(-2)


def check_taken(methods: Sequence[Method], normalize: Normalize | None) -> None:
    """That one of the methods at least can be normalised so."""
    if any(method.takes(normalize) for method in methods):
        return
    names = ", ".join(method.name for method in methods)
    why = (
        "is signed"
        if all(method.signed for method in methods)
        else "has the model's own residual, which an even model lacks"
    )
    raise ChoiceError(f"normalize={normalize!r} asked, but {names} {why}; leave normalize out, or use rollout")


def _told(values: Mapping[str, Any]) -> Any:
    """One value where all methods have the same, else those of each."""
    alike = len(set(values.values())) <= 1
    return next(iter(values.values()), None) if alike else dict(values)
