"""The words of several explanations in one table: each row has the words that stand for each other.

Words are matched by their characters. Where the text is the same, words that share characters are one row, however a
tokenizer cut them; where it was changed, the changes say which characters became which. Of texts that differ in a way
that nobody told, and of those without characters, the sequences of words are compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

import numpy as np

from attnx.adapters import PICTURE, Position, Positions, Span, Word, content_words
from attnx.adapters import TEXT as WORDS
from attnx.errors import ChoiceError, InputError, how_many
from attnx.methods import SCORE_DECIMALS
from attnx.methods.ties import tied_share
from attnx.registry import unknown
from attnx.results.attribution import Attribution, one_head
from attnx.results.base import Array, Result
from attnx.results.storage import (
    ANSWER,
    PROVENANCE,
    TEXT,
    Below,
    Between,
    Facts,
    Filled,
    OwnName,
    Rising,
    Rules,
    Shape,
    check,
)
from attnx.results.warnings import Row, Said, Units, WordScore, best, in_quotes, legible, line, remarks, summed
from attnx.targets import Prediction, visible

if TYPE_CHECKING:
    from captum.attr._utils.visualization import VisualizationDataRecord
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from PIL.Image import Image

    from attnx.adapters import Audio

Bars: TypeAlias = Literal["bars", "heat"]
Unit: TypeAlias = Literal["word", "token"]


class Drawn(Result):
    """The drawing side of an explanation."""

    def plot(
        self,
        method: str | None = None,
        layer: int | None = None,
        *,
        kind: Bars = "bars",
        by: Unit = "word",
        content_only: bool = False,
        head: int | None = None,
        ax: Axes | None = None,
        image: Any = None,
    ) -> Axes | Figure:
        """One row in matplotlib, as bars or as a strip of colours (`kind="heat"`), by word or by token.

        `content_only` leaves punctuation and special tokens out, and says what share they hold. Of an image: its
        overlay in the axes, or without a method the panels of all methods and references as a figure.
        `image` is the picture where the explanation has none, because it was loaded from a file.
        """
        drawn: Axes | Figure = self._view.plot(
            self, method, layer, kind=kind, by=by, content_only=content_only, head=head, ax=ax, image=image
        )
        return drawn

    def plot_layers(
        self,
        method: str | None = None,
        *,
        special: bool = False,
        content_only: bool = False,
        head: int | None = None,
        ax: Axes | None = None,
        image: Any = None,
    ) -> Axes | Figure:
        """Layers × positions in matplotlib, the last layer on top (the paper's Figures 2 and 3).

        Special tokens, which would take most of the colours, are drawn if you ask for them; `content_only` leaves
        punctuation out, too. Of an image: a strip of overlays, one a layer, as a figure; `image` is as in `plot`.
        """
        drawn: Axes | Figure = self._view.more["plot_layers"](
            self, method, special=special, content_only=content_only, head=head, ax=ax, image=image
        )
        return drawn

    def plot_graph(self, method: str | None = None, *, head: int | None = None, ax: Axes | None = None) -> Axes:
        """The layered graph of the paper's Figure 1 in matplotlib; needs `explain(..., all_queries=True)`."""
        drawn: Axes = self._view.more["plot_graph"](self, method, head=head, ax=ax)
        return drawn

    def overlay(
        self, method: str | None = None, layer: int | None = None, head: int | None = None, **options: Any
    ) -> Image:
        """The picture with the relevance of its patches in colour, as a PIL image (see `attnx.views.image`)."""
        laid: Image = self._view.more["overlay"](self, method, layer, head, **options)
        return laid

    def to_bertviz(self, method: str | None = None) -> dict[str, Any]:
        """For BertViz's `head_view` and `model_view`; needs `all_queries=True`, and `head="all"` for all heads."""
        result: dict[str, Any] = self._view.more["to_bertviz"](self, method)
        return result

    def to_captum(
        self, method: str | None = None, layer: int | None = None, *, true_class: str = "–"
    ) -> VisualizationDataRecord:
        """A record for Captum's `visualize_text`."""
        return self._view.more["to_captum"](self, method, layer, true_class=true_class)


OFFERED = ("blankout", "lrp")
"""The measurements that a verdict offers where there is none, or but one: the first that is not there."""


_DERIVED = ("verdict", "remarks")
"""What files tell besides, for their readers: it follows from the fields."""


@dataclass(frozen=True, eq=False)
class Explanation(Drawn):
    """What the model looked at, keyed by position. `e["rollout"]` is layers × positions, the last layer last.

    >>> model, tokenizer = attnx.load_demo()
    >>> e = explain(model, tokenizer, "the keys to the cabinet", methods="rollout")
    >>> e["rollout"].shape
    (6, 7)
    >>> [word.text for word in e.words]
    ['the', 'keys', 'to', 'the', 'cabinet']
    """

    kind: ClassVar[str] = "explanation"
    rules: ClassVar[Rules] = {
        **TEXT,
        "position": Below("positions"),
        "attributions": Filled(),
        "attributions.*": OwnName(),
        "attributions.*.layers": Rising(),
        "attributions.*.precision": Between(0, 17),
        "attributions.*.diagnostics": Facts(),
        "prediction": ANSWER,
        "sink": Shape("layers"),
        "spans.*.positions": Filled(),
        "spans.*.positions.*": Below("positions"),
        **PROVENANCE,
    }

    positions: Positions
    words: tuple[Word, ...]
    position: int
    """The explained position: whose view of the input this is."""
    attributions: Mapping[str, Attribution]
    """Method → its scores, in the order shown; the first is what is meant where no method is named."""
    text: str | tuple[str, str] | None = None
    prediction: Prediction | None = None
    causal: bool = False
    """Whether positions see none that come later, as in a decoder."""
    sink: tuple[float, ...] | None = None
    """Per layer, the share of attention that goes to the first token of a decoder, or of an encoder–decoder's output,
    whose place it may be to collect what has nowhere else to go. Of an image, what patches give to those that take far
    more than their share (`provenance["input"]["sinks"]`). None where there is no such place, and for long inputs."""
    notes: tuple[str, ...] = ()
    """What the user should know of how the input was read."""
    provenance: Mapping[str, Any] = field(default_factory=dict)
    """Versions, model and settings that made these numbers."""
    spans: tuple[Span, ...] = field(default=())
    """Parts of the text that the caller named, as further units (`by_span`)."""
    image: Image | None = field(default=None, repr=False, compare=False)
    """The picture that was explained. It stays in memory and is not saved: files are small, and tell no faces."""
    image_size: tuple[int, int] | None = None
    """Its width and height, in which the boxes of the positions are counted; None for a text."""
    audio: Audio | None = field(default=None, repr=False, compare=False)
    """The sound that was explained. As a picture it stays in memory and is not saved: files tell no voices."""
    sequences: Mapping[str, int] = field(default_factory=dict)
    """Of an encoder–decoder how many positions its source and its output have, in the order of the count; else none."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "positions", Positions(self.positions))
        check(self)
        for attribution in self.attributions.values():
            attribution.check(len(self.positions))

    @property
    def methods(self) -> tuple[str, ...]:
        """All methods, the default in front."""
        return tuple(self.attributions)

    @property
    def layers(self) -> tuple[int, ...]:
        """The layers of the methods that have any, counted from 1 next to the input."""
        return next((attribution.layers for attribution in self.attributions.values() if attribution.layers), ())

    @property
    def tokens(self) -> tuple[str, ...]:
        return tuple(position.token for position in self.positions)

    @property
    def texts(self) -> tuple[str, ...]:
        """Its text, or the two of a pair; none where it came tokenised. `segment` counts them."""
        return (self.text,) if isinstance(self.text, str) else self.text or ()

    @property
    def title(self) -> str:
        """Its text, of a pair both with a stroke between; empty where there is none."""
        return " / ".join(text for text in self.texts if text)

    @property
    def shares(self) -> dict[str, float]:
        """How much is from each stream of an encoder–decoder, or from text and picture; else empty.

        It is by what is shown first of all that can tell.

        Rollout of attention cannot: its share of the output is r to the power of the cross levels, whatever the text.
        """
        names = [
            name
            for name, attribution in self.attributions.items()
            if not attribution.single_layer and not self.split_by_residual(name)
        ]
        return self.sequence_shares(names[0]) if self.sequences and names else {}

    def split_by_residual(self, method: str, layer: int | None = None) -> bool:
        """Whether a row is divided between the streams by the share of the residual alone, whatever was read."""
        settings = self.provenance.get("settings", {})
        share = settings.get("residual", {}).get(method)
        if "output" not in self.sequences or not isinstance(share, float) or not self.attributions[method].layers:
            return False
        crossed = settings.get("layer_kinds", [])[: self.layers[self.attributions[method].index(layer)]].count("cross")
        return bool(abs(self.sequence_shares(method, layer)["output"] - share**crossed) < 1e-6)

    def sequence_shares(self, method: str | None = None, layer: int | None = None) -> dict[str, float]:
        """How much of a row is from each stream. Where scores have a sign, of all that speaks for or against.

        Image tokens, whose boxes say that they are of the picture, count to it.
        """
        scores = np.abs(self.scores(method, layer))
        if PICTURE in self.sequences:
            length = self.sequences[WORDS]
            seen = [place >= length or position.box is not None for place, position in enumerate(self.positions)]
            from_picture, whole = float(scores[seen].sum()), float(scores.sum()) or 1.0
            return {WORDS: 1 - from_picture / whole, PICTURE: from_picture / whole}
        ends = np.cumsum(list(self.sequences.values()))
        sums = [float(array.sum()) for array in np.split(scores, ends[:-1])]
        return {name: value / (sum(sums) or 1.0) for name, value in zip(self.sequences, sums, strict=True)}

    @property
    def seconds(self) -> float | None:
        """Of sound, when its last stretch ends; None for all else."""
        return max((position.time[1] for position in self.positions if position.time is not None), default=None)

    @property
    def time_segments(self) -> tuple[Word, ...]:
        """The stretches of time of a sound, in their order, each called by its beginning; none of a text."""
        each = self.positions.time_segments
        begins = [when[0] if (when := self.positions.when(places)) else 0.0 for places in each]
        return tuple(
            Word(number, f"{begin:.2f} s", places)
            for number, (begin, places) in enumerate(zip(begins, each, strict=True))
        )

    @property
    def content(self) -> list[int]:
        """The positions that are no special tokens."""
        return self.positions.content

    @property
    def content_words(self) -> tuple[Word, ...]:
        """The words without punctuation."""
        return content_words(self.words)

    @property
    def explained(self) -> str:
        """Whose view of the input this is: the explained position's token, or the mean of all."""
        return "the mean of all positions" if self._averaged else self._as_written(self.positions[self.position])

    @property
    def _averaged(self) -> bool:
        return bool(self.provenance.get("input", {}).get("averaged", False))

    def _as_written(self, position: Position) -> str:
        """The slice of the text, white space by its symbols; the tokenizer's name where there is none."""
        piece = position.piece(self.texts)
        return piece.strip() or visible(piece) or position.token

    @property
    def verdict(self) -> str:
        """In one sentence: what was explained and from where, how it compares with measurements, and what to beware of.

        Where a keyword of `explain` would help, it is named.
        """
        return self._verdict(keywords=True)

    def _verdict(self, *, keywords: bool) -> str:
        row = self.row()
        answer = self.prediction
        subject = f"{_subject(answer)} from" if answer else "what reaches"
        is_word = not self._averaged and not self.positions[self.position].special
        place = (in_quotes if is_word else legible)(self.explained)
        return f"{subject} {place} by {legible(row.what)}: {line(remarks(row), keywords=keywords)}"

    def remarks(self, method: str | None = None, layer: int | None = None) -> tuple[Said, ...]:
        """All that is to be said of how far to trust a row, the weightiest first; by default of what is shown first."""
        return remarks(self.row(method, layer))

    def __getitem__(self, method: str) -> Array:
        return self._attribution(method).scores

    def _attribution(self, method: str) -> Attribution:
        if not isinstance(method, str) or method not in self.attributions:
            raise ChoiceError(unknown("method", method, self.attributions) + " (of those that were requested)")
        return self.attributions[method]

    def scores(self, method: str | None = None, layer: int | None = None, head: int | None = None) -> Array:
        """One row: the score of each position.

        Args:
            method: By default the first of `methods`, or where a layer or head is given the first that has layers.
            layer: By default the last. A method without layers has one row, whatever the layer.
            head: One of the heads that were kept apart (`head="all"`); by default their mean.
        """
        attribution = self._attribution(chosen_method(self, method, layer, head))
        return attribution.scores if attribution.layers is None else attribution.row(layer, head)

    def row(self, method: str | None = None, layer: int | None = None, head: int | None = None) -> Row:
        """One row with all that bears on how far to trust it."""
        name = chosen_method(self, method, layer, head)
        attribution = self._attribution(name)
        others = {other: measure for other, measure in self.attributions.items() if other != name}
        measured = {other: measure for other, measure in others.items() if measure.layers is None}
        return Row(
            attribution=attribution,
            layer=None if attribution.layers is None else attribution.layers[attribution.index(layer)],
            scores=self.scores(name, layer, head),
            positions=self.positions,
            words=self.words,
            explained=self.explained,
            prediction=self.prediction,
            others=measured,
            causal=self.causal,
            diagnostics=attribution.at(layer) if head is None else attribution.facts,
            tied=self.tied(name, layer),
            input=self.provenance.get("input", {}),
            offer=self._offer(),
            compared={other: compared_over(self, name, other) for other in measured},
        )

    def _offer(self) -> tuple[str, ...]:
        """What a caller would name to have one more measurement beside those that are there."""
        new = next((name for name in OFFERED if name not in self.attributions), None)
        return (*self.attributions, *(() if new is None else (new,)))

    def matrix(self, method: str | None = None, head: int | None = None) -> Array:
        """Layers × query × input: the rows of all positions, of one head or of their mean where every head was kept."""
        attribution = self._attribution(method or next(iter(layered(self)), self.methods[0]))
        if not any(other.matrices is not None for other in self.attributions.values()):
            raise InputError(
                "only the rows of the explained position were kept; explain(..., all_queries=True) keeps those of all"
            )
        if attribution.matrices is None:
            raise InputError(f"{attribution.method} explains the target alone and has no rows of other positions")
        matrices = attribution.matrices
        return matrices if matrices.ndim == 3 else one_head(np.moveaxis(matrices, 1, 0), head)

    def by_word(
        self, method: str | None = None, layer: int | None = None, *, content_only: bool = False
    ) -> list[WordScore]:
        """The words of the text in their order, special tokens left out; with `content_only` punctuation, too."""
        words = self.content_words if content_only else self.words
        return summed(words, self.scores(method, layer), signed=self._signed(method, layer))

    @property
    def units(self) -> list[tuple[int, ...]]:
        """What is removed together when a ranking is tested: the spans, or each position that is no special token."""
        return self.positions.units(self.spans)

    def by_span(self, method: str | None = None, layer: int | None = None) -> list[WordScore]:
        """The parts that were named by `spans=`, in their order, each with the sum over its positions."""
        if not self.spans:
            raise InputError("no spans were named: explain(…, spans={'doc 1': (0, 812), …}), 'sentences' or 'lines'")
        return summed(self.spans, self.scores(method, layer), signed=self._signed(method, layer))

    def top(
        self, count: int = 5, method: str | None = None, layer: int | None = None, *, content_only: bool = False
    ) -> list[WordScore]:
        """The words that matter most, best first; words that tie stay in the order of the text.

        Where scores have a sign, those that speak most *for* the answer come first; `speaks` tells which do.
        """
        words = self.by_word(method, layer, content_only=content_only)
        return best(words, how_many(count), self.attributions[chosen_method(self, method, layer)].precision)

    def _signed(self, method: str | None, layer: int | None) -> bool:
        return self._attribution(chosen_method(self, method, layer)).signed

    def tied(self, method: str | None = None, layer: int | None = None) -> float:
        """The share of positions whose score another has, too, to 1e-9 or its own digits: their order means nothing."""
        attribution = self._attribution(chosen_method(self, method, layer))
        if (known := attribution.at(layer).get("tied")) is not None:
            return float(known)
        precision = SCORE_DECIMALS if attribution.precision is None else attribution.precision
        return float(tied_share(self.scores(attribution.method, layer), precision))

    def _saved(self) -> dict[str, Any]:
        return super()._saved() | {"verdict": self.verdict, "remarks": self.remarks()}

    @classmethod
    def _fields_of(cls, data: Mapping[str, Any]) -> dict[str, Any]:
        return super()._fields_of({name: value for name, value in data.items() if name not in _DERIVED})

    def __repr__(self) -> str:
        answer = f", predicted {self.prediction}" if self.prediction else ""
        explained = self.positions[self.position].token
        return (
            f"Explanation({len(self.positions)} positions, {len(self.layers)} layers, explained {explained!r}, "
            f"methods {', '.join(self.methods)}{answer})"
        )


def chosen_method(
    explanation: Explanation, method: str | None = None, layer: int | None = None, head: int | None = None
) -> str:
    """The method that is meant: the one named, or the first; where a layer or head is named, the first with layers."""
    if method is not None:
        return method
    if layer is not None or head is not None:
        return next(iter(layered(explanation)), explanation.methods[0])
    return explanation.methods[0]


def layered_method(explanation: Explanation, method: str | None = None) -> str:
    """The method that is meant where layers are shown: the one named, or the first that has layers."""
    names = layered(explanation)
    chosen = method or next(iter(names), explanation.methods[0])
    explanation[chosen]
    if chosen not in names:
        raise ChoiceError(f"{chosen} has no layers; request a method that has, such as rollout")
    return chosen


def record_of(explanation: Explanation) -> dict[str, Any]:
    """The provenance, where each method has its options with what it found, such as the baseline that it chose."""
    options: Mapping[str, Any] = explanation.provenance.get("methods", {})
    methods = {
        name: {**options.get(name, {}), **attribution.facts}
        for name, attribution in explanation.attributions.items()
        if options.get(name) or attribution.facts
    }
    return {**explanation.provenance, **({"methods": methods} if methods else {})}


def layered(explanation: Explanation) -> tuple[str, ...]:
    """The methods with a row for each layer, read off the graph of attention."""
    return tuple(name for name, attribution in explanation.attributions.items() if attribution.layers is not None)


def unlayered(explanation: Explanation) -> tuple[str, ...]:
    """The methods with one row for the whole model, computed by running it again or backward."""
    return tuple(name for name, attribution in explanation.attributions.items() if attribution.layers is None)


def compared_over(explanation: Explanation, *names: str) -> Units:
    """The units over which ranks of these methods and references are compared: tokens, special ones left out.

    A reference that was measured for each word or span and shared out says nothing of the tokens inside.
    """
    options = record_of(explanation).get("methods", {})
    shared = {options[name].get("unit") for name in names if name in options}
    if "span" in shared and explanation.spans:
        return Units("spans", [span.positions for span in explanation.spans])
    if "word" in shared and explanation.words:
        return Units("words", [word.positions for word in explanation.words])
    name = "tokens" if explanation.image_size is None and explanation.seconds is None else "positions"
    if explanation.image_size is not None and explanation.text is None:
        name = "patches"
    return Units(name, [(place,) for place in explanation.content])


def _subject(answer: Prediction) -> str:
    """What a verdict is about: the prediction, and the target where it is another; a token in quotes."""
    named = in_quotes if answer.kind == "token" else legible

    def told(label: str, probability: float | None) -> str:
        return named(label) if probability is None else f"{named(label)} ({probability:.3f})"

    rival = "" if answer.against is None else f" against {named(answer.against)}"
    target = told(answer.label, answer.probability) + rival
    if answer.predicted == answer.label:
        return target
    return f"prediction {told(answer.predicted, answer.certainty)}, target {target}"


class Explanations(list[Explanation]):
    """A list like any other; as the last line of a notebook's cell it is a page with a picker."""

    def to_html(self, path: str | PathLike[str] | None = None, **options: Any) -> str | None:
        """One page for all, as `attnx.to_html(list)`."""
        page: str | None = self[0]._view.html(self, path, **options) if self else ""
        return page

    def _repr_html_(self) -> str | None:
        """What a notebook shows; of an empty list what it writes."""
        return self[0]._view.notebook(self) if self else None


@dataclass(frozen=True, eq=False)
class OfExplanations(Result):
    """What such kinds have in common."""

    explanations: tuple[Explanation, ...]

    def _saved(self) -> dict[str, Any]:
        own = {str(number): explanation._saved() for number, explanation in enumerate(self.explanations)}
        return super()._saved() | {"explanations": own}

    @classmethod
    def _fields_of(cls, data: Mapping[str, Any]) -> dict[str, Any]:
        result = super()._fields_of(data)
        if isinstance(own := result.get("explanations"), Mapping):
            result["explanations"] = [
                Explanation._fields_of(one) if isinstance(one, Mapping) else one for one in own.values()
            ]
        return result


Matched: TypeAlias = tuple[tuple[int, ...], ...]
"""For each explanation the words of this row, by index; none where it has nothing in this place."""
Link: TypeAlias = tuple[int, int]
"""A word of the first explanation and a word of another."""


@dataclass(frozen=True)
class Change:
    """Characters of a text, from `start` to before `end`, and what stands there instead."""

    start: int
    end: int
    text: str
    segment: int = 0
    """0 for the text, 1 for the second text of a pair."""


@dataclass(frozen=True)
class Extent:
    """Where a word stands, without white space around it."""

    segment: int
    start: int
    end: int

    def meets(self, other: Extent) -> bool:
        return self.segment == other.segment and self.start < other.end and other.start < self.end


def aligned(explanations: Sequence[Explanation], changes: Sequence[Change] | None = None) -> tuple[Matched, ...]:
    """The rows, in the order of the texts. `changes` made the text of all others of that of the first."""
    first, *others = explanations
    groups = {(0, word.index): {(0, word.index)} for word in first.words}
    for number, other in enumerate(others, start=1):
        groups |= {(number, word.index): {(number, word.index)} for word in other.words}
        for index, two in _links(first, other, changes):
            _join(groups, (0, index), (number, two))
    rows: list[set[tuple[int, int]]] = []
    for number, explanation in enumerate(explanations):
        place = 0
        for word in explanation.words:
            group = groups[number, word.index]
            if group not in rows:
                rows.insert(place, group)
            place = rows.index(group) + 1
    return tuple(
        tuple(tuple(sorted(word for at, word in row if at == number)) for number in range(len(explanations)))
        for row in rows
    )


def extent_of(explanation: Explanation, word: Word) -> Extent | None:
    """Where a word stands in its text; None where that is not known."""
    pieces = [explanation.positions[place] for place in word.positions]
    if word.segment >= len(explanation.texts) or any(piece.start is None or piece.end is None for piece in pieces):
        return None
    start = min(piece.start for piece in pieces if piece.start is not None)
    end = max(piece.end for piece in pieces if piece.end is not None)
    piece = explanation.texts[word.segment][start:end]
    if not piece.strip():  # a line break is a word by itself
        return Extent(word.segment, start, end)
    return Extent(word.segment, start + len(piece) - len(piece.lstrip()), start + len(piece.rstrip()))


def _links(first: Explanation, other: Explanation, changes: Sequence[Change] | None) -> Iterator[Link]:
    ones = [extent_of(first, word) for word in first.words]
    twos = [extent_of(other, word) for word in other.words]
    known = changes is not None or first.text == other.text
    if not known or None in ones or None in twos:
        yield from _by_sequence(first, other)
        return
    for index, span in enumerate(ones):
        for place in _places(span, changes or ()) if span is not None else ():
            yield from ((index, two) for two, extent in enumerate(twos) if extent is not None and extent.meets(place))


def _places(span: Extent, changes: Sequence[Change]) -> Iterator[Extent]:
    """Where the characters of a span are after the changes."""
    moved, rest = 0, span.start
    for change in sorted(changes, key=lambda one: one.start):
        if change.segment != span.segment or change.start >= span.end:
            continue
        if change.end > span.start:
            if rest < change.start:
                yield Extent(span.segment, rest + moved, change.start + moved)
            yield Extent(span.segment, change.start + moved, change.start + moved + len(change.text))
            rest = change.end
        moved += len(change.text) - (change.end - change.start)
    if rest < span.end:
        yield Extent(span.segment, rest + moved, span.end + moved)


def _by_sequence(first: Explanation, other: Explanation) -> Iterator[Link]:
    ones, twos = ([(word.segment, word.text) for word in explanation.words] for explanation in (first, other))
    for kind, start, end, begin, stop in SequenceMatcher(None, ones, twos, autojunk=False).get_opcodes():
        if kind == "equal" or (kind == "replace" and end - start == stop - begin):
            yield from zip(range(start, end), range(begin, stop), strict=True)
        elif kind == "replace":
            yield from ((index, two) for index in range(start, end) for two in range(begin, stop))


def _join(groups: dict[tuple[int, int], set[tuple[int, int]]], one: tuple[int, int], two: tuple[int, int]) -> None:
    whole = groups[one] | groups[two]
    for member in whole:
        groups[member] = whole
