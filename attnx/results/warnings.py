"""A stripe: rows of all written tokens that are nearly the same tell of the model, and not of any one token."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np

from attnx.adapters import Positions, Span, Word, punctuation
from attnx.methods import scores_for_ranking
from attnx.results.attribution import Attribution
from attnx.results.base import Array
from attnx.statistics import agree, spearman
from attnx.targets import Prediction, visible

if TYPE_CHECKING:
    from attnx.statistics import Measure


@dataclass(frozen=True)
class WordScore:
    """A word of the text with its relevance: the sum over its pieces."""

    text: str
    score: float
    positions: tuple[int, ...]
    speaks: Literal["for", "against"] | None = None
    """For or against the answer, where the scores have a sign; None where they say only how much."""


def summed(units: Iterable[Word | Span], scores: Array, *, signed: bool) -> list[WordScore]:
    """Each in its order, with the sum of a row over its positions.

    >>> summed([Word(0, "keys", (1, 2))], np.array([0.5, 0.25, -1.0]), signed=True)
    [WordScore(text='keys', score=-0.75, positions=(1, 2), speaks='against')]
    """
    word_scores = []
    for unit in units:
        score = float(scores[list(unit.positions)].sum())
        name = unit.text if isinstance(unit, Word) else unit.name
        word_scores.append(WordScore(name, score, unit.positions, _speaks(score) if signed else None))
    return word_scores


class Units(NamedTuple):
    """What ranks are compared over."""

    name: str
    """tokens, words or spans."""
    positions: Sequence[Sequence[int]]
    """Those of each unit."""

    def sums(self, scores: Array) -> Array:
        """Scores[…, position] → […, unit]."""
        if all(len(several) == 1 for several in self.positions):
            return np.asarray(scores[..., [several[0] for several in self.positions]])
        return np.stack([scores[..., list(several)].sum(-1) for several in self.positions], axis=-1)


def rank_correlation(
    scores: Array,
    other: Array,
    units: Units,
    digits: int | None = None,
    other_digits: int | None = None,
    *,
    both_signed: bool,
    measure: Measure = spearman,
) -> Array:
    """The one definition of agreement, of each row of `scores[…, position]` with `other[position]`.

    Positions are summed over `units`, special tokens left out; ties are ties to the digits of each method. Where both
    have a sign they are ordered by it, for what opposes the target made no answer; else both are ordered by size.
    """
    array, beside = scores_for_ranking(units.sums(scores), digits), scores_for_ranking(units.sums(other), other_digits)
    return agree(measure, array, beside, both_signed=both_signed)


def best(words: Sequence[WordScore], count: int, digits: int | None) -> list[WordScore]:
    """Those with the highest scores; words that tie, to the digits of their method, stay in the order of the text."""
    order = np.argsort(-scores_for_ranking([word.score for word in words], digits), kind="stable")
    return [words[place] for place in order[:count]]


def _speaks(score: float) -> Literal["for", "against"] | None:
    return None if score == 0 else "for" if score > 0 else "against"


def legible(text: str) -> str:
    """Text of the input as a sentence may hold it: whoever prints the sentence, it steers no terminal."""
    return visible(text)


def in_quotes(text: str) -> str:
    return f"'{legible(text)}'"


class Agreement(NamedTuple):
    """How a row stands to a reference that was measured on the same input."""

    name: str
    ranks: float
    """Spearman's correlation over `size` units; NaN where it is undefined."""
    signed: bool
    """Whether both have a sign, by which they are ordered; else both are ordered by size."""
    unit: str
    """Tokens that are not special, or patches; words or spans where one of the two was shared out over them."""
    size: int


@dataclass(frozen=True, eq=False)
class Row:
    """The scores with what they are of. Units are the words of a text, or the patches of an image."""

    attribution: Attribution
    """The method whose row it is."""
    layer: int | None
    """None for a method without layers."""
    scores: Array
    positions: Positions
    words: Sequence[Word]
    explained: str
    """Whose view of the input it is, as it stands in the text; or the mean of all positions."""
    prediction: Prediction | None = None
    others: Mapping[str, Attribution] = field(default_factory=dict)
    """The other methods without layers, measured on this very input."""
    causal: bool = False
    diagnostics: Mapping[str, Any] = field(default_factory=dict)
    """What the method says of itself at this layer, such as what biases have of a score."""
    tied: float = 0.0
    input: Mapping[str, Any] = field(default_factory=dict)
    """How the input was read: cut, unknown words, a token in front, how the model pools (`provenance["input"]`)."""
    offer: tuple[str, ...] = ()
    """The methods that a caller would name to have one more measurement."""
    compared: Mapping[str, Units] = field(default_factory=dict)
    """Method → the units over which ranks are compared with it."""

    @property
    def name(self) -> str:
        return self.attribution.method

    @property
    def measured(self) -> bool:
        """Whether the model was run again, or backward, for it."""
        return self.layer is None

    @property
    def what(self) -> str:
        """Its name and its layer."""
        return self.name if self.measured else f"{self.name} at layer {self.layer}"

    @cached_property
    def content(self) -> list[int]:
        """The positions that are no special tokens."""
        return self.positions.content

    @cached_property
    def units(self) -> list[tuple[str, list[int]]]:
        """The words, or without any each position that is no special token; with the positions that make them."""
        if self.words:
            return [(word.text, list(word.positions)) for word in self.words]
        return [(self.positions[index].token, [index]) for index in self.content]

    def unit(self, number: int | None) -> str:
        """A unit as a sentence names it; "" for None."""
        return "" if number is None else in_quotes(self.units[number][0])

    @cached_property
    def strongest_to_mean(self) -> float:
        """How much the strongest position has of the mean one; NaN where nothing has anything, or few are there.

        Nor is a row even that has something for the answer and something against it.
        """
        scores = self.scores[self.content]
        sizes = np.abs(scores)
        if (scores > 0).any() and (scores < 0).any():
            return float("nan")
        return float(sizes.max() / sizes.mean()) if len(sizes) > 2 and sizes.any() else float("nan")

    @property
    def biases(self) -> float | None:
        """What biases have of the score, where that is told; they belong to no position."""
        return self.diagnostics.get("biases")

    @property
    def from_positions(self) -> float:
        """What positions have of it, a sink's place included."""
        return float(self.diagnostics.get("value", 0.0)) - (self.biases or 0.0)

    @cached_property
    def first_share(self) -> float:
        """What the first position holds of all."""
        return self._share([0])

    @cached_property
    def special_share(self) -> float:
        return self._share(self.positions.special)

    @cached_property
    def punctuation_share(self) -> float:
        return self._share(punctuation(self.words))

    @cached_property
    def agreements(self) -> tuple[Agreement, ...]:
        """The rank correlation with each other measurement, as `Comparison` has it (see `rank_correlation`)."""
        return tuple(self._agreement(other) for other in self.others.values())

    def _agreement(self, other: Attribution) -> Agreement:
        units = self.compared.get(other.method) or Units("tokens", [(place,) for place in self.content])
        signed = self.attribution.signed and other.signed
        ranks = rank_correlation(self.scores, other.scores, units, self.attribution.precision, both_signed=signed)
        return Agreement(other.method, float(ranks), signed, units.name, len(units.positions))

    def _share(self, places: list[int]) -> float:
        sizes = np.abs(self.scores)
        return float(sizes[places].sum() / sizes.sum()) if sizes.any() else 0.0


Severity: TypeAlias = Literal["open", "care"]
"""Leaves open how far to trust the row, or tells to take care."""

HALF, EVEN = 0.5, 1.3
"""Thresholds of taste; the sentences have the numbers. Below 1.3 times the mean a strongest position is no finding."""
MOST, LEAST = 3, 50
"""So many remarks make a verdict, of at least that weight; the others are further down in a view."""
SHARES = 36
"""Remarks lighter than this say a share, which a view may show as a number instead."""


@dataclass(frozen=True)
class Advice:
    """What a caller may change: a page has neither form, Python the keyword, the command line its option."""

    keyword: str
    option: str
    effect: str
    """Completes either to a sentence."""


@dataclass(frozen=True)
class Said:
    """A remark that holds."""

    name: str
    sentence: str
    weight: int
    level: Severity
    of_input: bool = False
    """Whether it is about the input, and so the same for every row."""
    advice: Advice | None = None


class Remark(NamedTuple):
    """A row of `REMARKS`."""

    name: str
    weight: int
    holds: Callable[[Row], bool]
    says: Callable[[Row], str]
    level: Callable[[Row], Severity] = lambda row: "care"
    of_input: bool = False
    advises: Callable[[Row], Advice | None] = lambda row: None


def remarks(row: Row) -> tuple[Said, ...]:
    """All that hold, the weightiest first."""
    holding = (one for one in REMARKS if one.holds(row))
    return tuple(
        Said(one.name, one.says(row), one.weight, one.level(row), one.of_input, one.advises(row)) for one in holding
    )


def line(said: Iterable[Said], *, keywords: bool = False) -> str:
    """The weightiest remarks as one sentence, with the keywords of Python that change something where asked for."""
    return "; ".join(
        f"{one.sentence} ({one.advice.keyword} {one.advice.effect})" if keywords and one.advice else one.sentence
        for one in weightiest(said)
    )


def options(said: Iterable[Said]) -> list[str]:
    """What the weightiest remarks advise, for the command line."""
    return [f"{one.advice.option} {one.advice.effect}" for one in weightiest(said) if one.advice]


def weightiest(said: Iterable[Said]) -> tuple[Said, ...]:
    return tuple(one for one in said if one.weight >= LEAST)[:MOST]


def over_steps(steps: Sequence[Sequence[Said]]) -> tuple[Said, ...]:
    """Remarks of several rows as one list: each in the words of the first that has it, with how many have it."""
    by_name: dict[str, list[Said]] = {}
    for step in steps:
        for remark in step:
            by_name.setdefault(remark.name, []).append(remark)
    return tuple(
        replace(
            several[0],
            sentence=several[0].sentence
            + (f" ({len(several)} of {len(steps)} tokens)" if len(several) < len(steps) else ""),
        )
        for several in sorted(by_name.values(), key=lambda several: -several[0].weight)
    )


def _compared(row: Row) -> str:
    """The rank correlation with each other measurement on this input, with how it was computed; no judgement."""
    numbers: dict[str, list[str]] = {}
    for agreement in row.agreements:
        value = "undefined" if np.isnan(agreement.ranks) else _signed(agreement.ranks)
        numbers.setdefault(f"over {agreement.size} {agreement.unit}", []).append(
            f"{agreement.name} {value} ({'signed' if agreement.signed else 'by size'})"
        )
    return "Spearman's rank correlation " + ", ".join(f"{over}: {', '.join(each)}" for over, each in numbers.items())


def _unchecked(row: Row) -> str:
    if row.prediction is None:
        return "unchecked: the model has no head that answers, so nothing can be measured on it"
    if row.measured:
        return f"measured by {row.name} alone"
    return "unchecked: nothing was measured on the model"


def _measurement(row: Row) -> Advice | None:
    if row.prediction is None:
        return None
    names = ", ".join(f'"{name}"' for name in row.offer)
    return Advice(
        f"methods=[{names}]",
        " ".join(f"--method {name}" for name in row.offer),
        "adds a measurement on the model",
    )


def _first_word(row: Row) -> str:
    return f"{row.unit(0)} stands first and holds {row.first_share:.0%}, as any first token of a decoder may"


def _sink_patches(row: Row) -> str:
    """Which patches they are, and how much the first of them takes."""
    sinks = row.input["sinks"]
    names = [in_quotes(str(sink["patch"])) for sink in sinks]
    named = _listed(names[:3]) if len(names) <= 3 else f"{', '.join(names[:3])} and {len(names) - 3} more"
    most = sinks[0]
    what = "a sink" if len(names) == 1 else "sinks"
    taken = f"{most['share']:.0%} of their attention at layer {most['layer']}, {most['times']:.0f} times its share"
    return f"{named} may be {what}, lit for any answer: other patches give {names[0]} {taken}"


def _listed(names: Sequence[str]) -> str:
    """
    >>> _listed(["gradient", "blankout", "occlusion"])
    'gradient, blankout and occlusion'
    """
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _signed(value: float) -> str:
    return f"{value:.2f}".replace("-", "−")


def _open(row: Row) -> Severity:
    return "open"


REMARKS: tuple[Remark, ...] = (
    Remark("compared", 100, lambda row: bool(row.agreements), _compared, _open),
    Remark("unchecked", 100, lambda row: not row.agreements, _unchecked, _open, advises=_measurement),
    Remark(
        "no mask",
        95,
        lambda row: row.input.get("mask") is False,
        lambda row: f"the text has no mask to fill in, so what stands at {legible(row.explained)} is no answer",
        of_input=True,
    ),
    Remark(
        "pooled",
        94,
        lambda row: row.input.get("pooling") == "mean" and not row.input.get("averaged"),
        lambda row: (
            f"the model answers from the mean of all positions, this is the view of {legible(row.explained)} alone"
        ),
        of_input=True,
        advises=lambda row: Advice('position="mean"', "--position mean", "explains the mean"),
    ),
    Remark(
        "first word",
        90,
        lambda row: row.causal and not row.positions[0].special and len(row.content) > 2 and row.first_share > HALF,
        _first_word,
        advises=lambda row: Advice('prepend_token="begin"', "--prepend-token begin", "puts a neutral token in front"),
    ),
    Remark(
        "biases",
        88,
        lambda row: row.biases is not None and abs(row.biases) > abs(row.from_positions),
        lambda row: (
            f"biases, which belong to no word, have {row.biases:+.3g} of the score {row.diagnostics['value']:+.3g}, "
            f"positions {row.from_positions:+.3g}"
        ),
    ),
    Remark(
        "cut",
        85,
        lambda row: "cut" in row.input,
        lambda row: "the model read {} of {} tokens".format(*row.input["cut"]),
        of_input=True,
    ),
    Remark(
        "uniform",
        80,
        lambda row: row.strongest_to_mean < EVEN,
        lambda row: f"nearly uniform: the strongest position has {row.strongest_to_mean:.2f} times the mean",
    ),
    Remark(
        "tied",
        75,
        lambda row: row.tied >= HALF,
        lambda row: f"{row.tied:.0%} of the positions tie: their order means nothing",
    ),
    Remark(
        "saturated",
        74,
        lambda row: row.diagnostics.get("saturation", 0) >= HALF,
        lambda row: (
            f"{row.diagnostics['saturation']:.0%} of the inputs are saturated: they get all that can reach them"
        ),
    ),
    Remark(
        "unknown",
        70,
        lambda row: bool(row.input.get("unknown")),
        lambda row: "not in the vocabulary: " + ", ".join(map(in_quotes, row.input["unknown"])),
        of_input=True,
    ),
    Remark(
        "sink patches",
        66,
        lambda row: bool(row.input.get("sinks")) and not row.measured,
        _sink_patches,
        of_input=True,
    ),
    Remark(
        "first token",
        65,
        lambda row: "prepend_token" in row.input,
        lambda row: f"{legible(row.input['prepend_token'])} was put in front: another input than the text alone",
        _open,
        of_input=True,
    ),
    Remark(
        "special tokens",
        60,
        lambda row: row.special_share >= HALF,
        lambda row: f"special tokens hold {row.special_share:.0%}",
    ),
    Remark(
        "without the answer",
        45,
        lambda row: not row.attribution.target_specific and not row.measured and row.prediction is not None,
        lambda row: f"{row.name} does not know the answer: it tells what was mixed, not what decided",
        _open,
    ),
    Remark(
        "one layer",
        40,
        lambda row: row.attribution.single_layer and row.layer is not None and row.layer > 1,
        lambda row: "of one layer alone: above layer 1 a position holds a mixture of words",
        _open,
    ),
    Remark(
        "punctuation",
        35,
        lambda row: row.punctuation_share > 0,
        lambda row: f"punctuation holds {row.punctuation_share:.0%}",
        _open,
    ),
    Remark(
        "some special tokens",
        34,
        lambda row: 0 < row.special_share < HALF,
        lambda row: f"special tokens hold {row.special_share:.0%}",
        _open,
    ),
    Remark(
        "some ties",
        30,
        lambda row: 0 < row.tied < HALF,
        lambda row: f"{row.tied:.0%} of the positions tie: their order means nothing",
        _open,
    ),
)
"""From the weightiest down."""


ALIKE = 0.95
"""A threshold of taste; the sentence has the number."""

_FEWEST = 3
"""Rows and columns of which likeness can be told."""


def likeness(rows: Array) -> float:
    """The mean cosine of each row with the sum of all others; NaN where there are few, or none has anything.

    >>> likeness(np.array([[1.0, 0, 2], [2, 0, 4], [3, 0, 6]])).round(6)
    np.float64(1.0)
    """
    sizes = np.linalg.norm(rows, axis=1)
    if min(rows.shape) < _FEWEST or not (sizes > 0).all():
        return float("nan")
    even = rows / sizes[:, None]
    others = even.sum(0) - even
    lengths = np.linalg.norm(others, axis=1)
    return float("nan") if not (lengths > 0).all() else float(((even * others).sum(1) / lengths).mean())


def stripe(name: str, rows: Array, *, target_specific: bool) -> tuple[Said, ...]:
    """What is to be said of a method whose rows, generated × prompt, are a stripe; nothing of another."""
    value = likeness(rows)
    if not value >= ALIKE:
        return ()
    advice = (
        Advice("contrast=True", "--contrast", "sets each token against its runner-up")
        if target_specific
        else Advice('methods=["lrp"]', "--method lrp", "asks what decided")
    )
    return (
        Said(
            "stripe",
            f"a stripe: the rows of all {len(rows)} tokens are nearly the same over the prompt (mean cosine "
            f"{value:.2f}), so they tell what every token mixes in, and not what one drew from",
            93,
            "care",
            advice=advice,
        ),
    )
