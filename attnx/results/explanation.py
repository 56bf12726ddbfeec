"""The result: relevance of every input position for the explained one, through all layers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeAlias

import numpy as np

from attnx.agreement.ties import DIGITS, tied_share
from attnx.answer.prediction import Prediction
from attnx.errors import AttentionError, ChoiceError, InputError
from attnx.inputs.positions import Position, Word
from attnx.registry import unknown
from attnx.results.older_files import explanation_facts
from attnx.results.result import Array, Result
from attnx.results.storage import array, position_of, prediction_of, word_of

if TYPE_CHECKING:
    from captum.attr._utils.visualization import VisualizationDataRecord
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from PIL.Image import Image

Bars: TypeAlias = Literal["bars", "heat"]
Unit: TypeAlias = Literal["word", "token"]


@dataclass(frozen=True)
class WordScore:
    """A word of the text with its relevance: the sum over its pieces."""

    text: str
    score: float
    positions: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Explanation(Result):
    """What the model looked at, keyed by position. `e["rollout"]` is layers × positions, the last layer last."""

    kind: ClassVar[str] = "explanation"

    positions: tuple[Position, ...]
    words: tuple[Word, ...]
    position: int
    """The explained position: whose view of the input this is."""
    layers: tuple[int, ...]
    """The layers on the first axis, counted from 1 next to the input."""
    relevance: Mapping[str, Array]
    """Method → layers × positions, or layers × heads × positions when every head was asked for."""
    references: Mapping[str, Array] = field(default_factory=dict)
    """Reference → one score for each position, measured on the model itself (see `attnx.references`)."""
    text: str | tuple[str, str] | None = None
    prediction: Prediction | None = None
    causal: bool = False
    """Whether positions see none that come later, as in a decoder."""
    diagnostics: Mapping[str, Mapping[str, tuple[float, ...]]] = field(default_factory=dict)
    """Method → what tells how far to trust it → a number for each layer, such as `saturation` and `tied`."""
    signed: frozenset[str] = frozenset()
    """Methods and references whose scores say for or against; those of all others say only how much."""
    digits: Mapping[str, int] = field(default_factory=dict)
    """Method → decimals to which its scores are exact: beyond them is no order. Others are exact."""
    local: frozenset[str] = frozenset()
    """Methods whose scores are of one layer alone, and lead to the layer below and not to the input."""
    first: str | None = None
    """The method or reference that views show first; None for rollout, or what else was asked for."""
    sink: tuple[float, ...] | None = None
    """Per layer, the share of attention that goes to the first token of a decoder, whose place it may be to collect
    what has nowhere else to go; None for other models and for long inputs."""
    notes: tuple[str, ...] = ()
    """What the user should know of how the input was read."""
    provenance: Mapping[str, Any] = field(default_factory=dict)
    """Versions, model and settings that made these numbers."""
    maps: Mapping[str, Array] | None = None
    """Method → layers × (heads ×) query × input in single precision: every position explained, where asked for."""
    image: Image | None = field(default=None, repr=False, compare=False)
    """The picture that was explained. It stays in memory and is not saved: files are small, and tell no faces."""
    image_size: tuple[int, int] | None = None
    """Its width and height, in which the boxes of the positions are counted; None for a text."""

    def __post_init__(self) -> None:
        _check(self)
        for scores in (*self.relevance.values(), *self.references.values(), *(self.maps or {}).values()):
            scores.setflags(write=False)

    @property
    def methods(self) -> tuple[str, ...]:
        return tuple(self.relevance)

    @property
    def default_method(self) -> str:
        return "rollout" if "rollout" in self.relevance else self.methods[0]

    def row_name(self, method: str | None = None, layer: int | None = None, head: int | None = None) -> str:
        """The method or reference whose row is meant; where nothing is said the first, which may have no layers."""
        if method is None and layer is None and head is None and self.first in (*self.methods, *self.references):
            return str(self.first)
        return method or self.default_method

    @property
    def names(self) -> tuple[str, ...]:
        """All methods and references, the one that is shown first in front."""
        first = self.row_name() if self.first else None
        every = (*self.methods, *self.references)
        return every if first is None else (first, *(name for name in every if name != first))

    @property
    def tokens(self) -> tuple[str, ...]:
        return tuple(one.token for one in self.positions)

    @property
    def title(self) -> str:
        """Its text, of a pair both with a stroke between; empty where there is none."""
        return " / ".join(self.text) if isinstance(self.text, tuple) else self.text or ""

    @property
    def content(self) -> list[int]:
        """The positions that are no special tokens."""
        return [one.index for one in self.positions if not one.special]

    @property
    def saturation(self) -> tuple[float, ...] | None:
        """Per layer, the share of inputs whose flow is all that can enter them at all; None when flow was not asked
        for."""
        return next((found["saturation"] for found in self.diagnostics.values() if "saturation" in found), None)

    def __getitem__(self, method: str) -> Array:
        if method not in self.relevance:
            raise ChoiceError(unknown("method", method, self.relevance) + " (of those that were asked for)")
        return self.relevance[method]

    def scores(self, method: str | None = None, layer: int | None = None, head: int | None = None) -> Array:
        """One row: the relevance of each position. By default what is shown first, of a layer or head rollout.

        The name of a reference that was asked for gives its scores, which have no layer.
        """
        name = self.row_name(method, layer, head)
        if name in self.references:
            return self.references[name]
        row: Array = self[name][self._index(layer)]
        if row.ndim == 1 and head is not None:
            raise ChoiceError(f"head {head} asked, but heads were merged; explain(..., head='each') keeps them apart")
        return row if row.ndim == 1 else _one_head(row, head)

    def map(self, method: str | None = None, head: int | None = None) -> Array:
        """Layers × query × input: the rows of all positions, of one head or of their mean where every head was kept."""
        name = method or self.default_method
        rows = self[name]
        if self.maps is None:
            raise InputError(
                "only the rows of the explained position were kept; explain(..., maps=True) keeps those of all"
            )
        chosen = self.maps[name]
        return chosen if rows.ndim == 2 else _one_head(np.moveaxis(chosen, 1, 0), head)

    def by_word(self, method: str | None = None, layer: int | None = None) -> list[WordScore]:
        """The words of the text in their order, special tokens left out."""
        scores = self.scores(method, layer)
        return [WordScore(one.text, float(scores[list(one.positions)].sum()), one.positions) for one in self.words]

    def top(self, count: int = 5, method: str | None = None, layer: int | None = None) -> list[WordScore]:
        """The words that matter most, best first; words that tie stay in the order of the text."""
        return sorted(self.by_word(method, layer), key=lambda word: -round(word.score, 9))[:count]

    def tied(self, method: str | None = None, layer: int | None = None) -> float:
        """The share of positions whose score another has, too, to 1e-9 or its own digits: their order means nothing."""
        name = self.row_name(method, layer)
        known = self.diagnostics.get(name, {}).get("tied")
        if known is not None:
            return known[self._index(layer)]
        return float(tied_share(self.scores(name, layer), self.digits.get(name, DIGITS)))

    def _index(self, layer: int | None) -> int:
        """Where a layer stands on the first axis, by default the last."""
        layer = self.layers[-1] if layer is None else layer
        if layer not in self.layers:
            raise ChoiceError(f"layer {layer} asked, the explanation has {', '.join(map(str, self.layers))}")
        return self.layers.index(layer)

    def plot(
        self,
        method: str | None = None,
        layer: int | None = None,
        *,
        kind: Bars = "bars",
        by: Unit = "word",
        head: int | None = None,
        ax: Axes | None = None,
        image: Any = None,
    ) -> Axes | Figure:
        """One row in matplotlib, as bars or as a strip of colours (`kind="heat"`), by word or by token.

        Of an image: its overlay in the axes, or without a method the panels of all methods and references as a figure.
        `image` is the picture where the explanation has none, because it was loaded from a file.
        """
        drawn: Axes | Figure = self._view.plot(self, method, layer, kind=kind, by=by, head=head, ax=ax, image=image)
        return drawn

    def plot_layers(
        self, method: str | None = None, *, head: int | None = None, ax: Axes | None = None, image: Any = None
    ) -> Axes | Figure:
        """Layers × positions in matplotlib, the last layer on top (the paper's Figures 2 and 3).

        Of an image: a strip of overlays, one a layer, as a figure; `image` is as in `plot`.
        """
        drawn: Axes | Figure = self._view.more["plot_layers"](self, method, head=head, ax=ax, image=image)
        return drawn

    def plot_graph(self, method: str | None = None, *, head: int | None = None, ax: Axes | None = None) -> Axes:
        """The layered graph of the paper's Figure 1 in matplotlib; needs `explain(..., maps=True)`."""
        drawn: Axes = self._view.more["plot_graph"](self, method, head=head, ax=ax)
        return drawn

    def overlay(
        self, method: str | None = None, layer: int | None = None, head: int | None = None, **options: Any
    ) -> Image:
        """The picture with the relevance of its patches in colour, as a PIL image (see `attnx.render.overlay`)."""
        laid: Image = self._view.more["overlay"](self, method, layer, head, **options)
        return laid

    def to_bertviz(self, method: str | None = None) -> dict[str, Any]:
        """For BertViz's `head_view` and `model_view`; needs `maps=True`. `head="each"` gives all heads, else one."""
        given: dict[str, Any] = self._view.more["to_bertviz"](self, method)
        return given

    def to_captum(
        self, method: str | None = None, layer: int | None = None, *, true_class: str = "–"
    ) -> VisualizationDataRecord:
        """A record for Captum's `visualize_text`."""
        return self._view.more["to_captum"](self, method, layer, true_class=true_class)

    def _saved(self) -> dict[str, Any]:
        return super()._saved() | {"saturation": self.saturation}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        text, maps, size = data["text"], data["maps"], data.get("image_size")
        known = explanation_facts(data) if "causal" not in data else data
        return cls(
            positions=tuple(position_of(one) for one in data["positions"]),
            words=tuple(word_of(one) for one in data["words"]),
            position=data["position"],
            layers=tuple(data["layers"]),
            relevance={name: array(scores) for name, scores in data["relevance"].items()},
            references={name: array(scores) for name, scores in data["references"].items()},
            text=(text[0], text[1]) if isinstance(text, list) else text,
            prediction=None if data["prediction"] is None else prediction_of(data["prediction"]),
            causal=known["causal"],
            diagnostics={
                method: {name: tuple(numbers) for name, numbers in found.items()}
                for method, found in known["diagnostics"].items()
            },
            signed=frozenset(known["signed"]),
            digits=known["digits"],
            local=frozenset(known["local"]),
            first=data.get("first"),
            sink=None if data["sink"] is None else tuple(data["sink"]),
            notes=tuple(data["notes"]),
            provenance=data["provenance"],
            maps=None if maps is None else {name: array(rows, np.float32) for name, rows in maps.items()},
            image_size=None if size is None else (size[0], size[1]),
        )

    def __repr__(self) -> str:
        answer = f", predicted {self.prediction}" if self.prediction else ""
        explained = self.positions[self.position].token
        return (
            f"Explanation({len(self.positions)} positions, {len(self.layers)} layers, explained {explained!r}, "
            f"methods {', '.join(self.methods)}{answer})"
        )


def _check(e: Explanation) -> None:
    length, layers = len(e.positions), len(e.layers)
    for name, scores in e.relevance.items():
        if scores.ndim not in (2, 3) or (scores.shape[0], scores.shape[-1]) != (layers, length):
            found = " × ".join(map(str, scores.shape))
            raise AttentionError(f"{name} is {found}, expected {layers} layers × {length} positions")
        if not np.isfinite(scores).all():
            raise AttentionError(f"{name} has numbers that are not finite")
    for name, scores in e.references.items():
        if scores.shape != (length,) or not np.isfinite(scores).all():
            raise AttentionError(f"reference {name} must be {length} finite numbers, one a position")
    for name, scores in (e.maps or {}).items():
        shape = (*e[name].shape[:-1], length, length)
        if scores.shape != shape or not np.isfinite(scores).all():
            raise AttentionError(f"the map of {name} must be {' × '.join(map(str, shape))} finite numbers")
    for method, diagnosed in e.diagnostics.items():
        for name, numbers in diagnosed.items():
            if len(numbers) != layers:
                raise AttentionError(f"{name} of {method} must be {layers} numbers, one a layer, found {len(numbers)}")
    places = [e.position, *(index for word in e.words for index in word.positions)]
    if not e.relevance or not all(0 <= place < length for place in places):
        raise AttentionError("an explanation needs a method, and words and an explained position inside its input")


def _one_head(heads: Array, head: int | None) -> Array:
    """The asked one on the first axis, or the mean of all."""
    if head is None:
        mean: Array = heads.mean(0)
        return mean
    if not 0 <= head < len(heads):
        raise ChoiceError(f"head {head} asked, the explanation has {len(heads)} (0 to {len(heads) - 1})")
    one: Array = heads[head]
    return one
