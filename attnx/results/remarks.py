"""What a reader must know of a row before believing it: a table of remarks, of which the weightiest make its verdict.

A remark is a row: when it holds, what it says, and how much it weighs. Views show what holds and judge nothing
themselves. No remark says that a row is right: what was measured on this very input is a number, and where nothing was,
the advice is to measure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from attnx.results.row import Row, in_quotes, legible

Level: TypeAlias = Literal["open", "care"]
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
    level: Level
    of_input: bool = False
    """Whether it is about the input, and so the same for every row."""
    advice: Advice | None = None


class Remark(NamedTuple):
    """A row of `REMARKS`."""

    name: str
    weight: int
    holds: Callable[[Row], bool]
    says: Callable[[Row], str]
    level: Callable[[Row], Level] = lambda row: "care"
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
    found: dict[str, list[Said]] = {}
    for step in steps:
        for one in step:
            found.setdefault(one.name, []).append(one)
    return tuple(
        replace(
            several[0],
            sentence=several[0].sentence
            + (f" ({len(several)} of {len(steps)} tokens)" if len(several) < len(steps) else ""),
        )
        for several in sorted(found.values(), key=lambda several: -several[0].weight)
    )


def _compared(row: Row) -> str:
    """The rank correlation with each other measurement on this input, with how it was computed; no judgement."""
    numbers: dict[str, list[str]] = {}
    for one in row.agreements:
        value = "undefined" if np.isnan(one.ranks) else _signed(one.ranks)
        numbers.setdefault(f"over {one.size} {one.unit}", []).append(
            f"{one.name} {value} ({'signed' if one.signed else 'by size'})"
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
        f"references=({names})" if len(row.offer) > 1 else f"references={names}",
        " ".join(f"--reference {name}" for name in row.offer),
        "adds a measurement on the model",
    )


def _first_word(row: Row) -> str:
    return f"{row.unit(0)} stands first and holds {row.first_share:.0%}, as any first token of a decoder may"


def _sink_patches(row: Row) -> str:
    """Which patches they are, and how much the first of them takes."""
    sinks = row.input["sinks"]
    names = [in_quotes(str(one["patch"])) for one in sinks]
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


def _open(row: Row) -> Level:
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
        advises=lambda row: Advice('first_token="begin"', "--first-token begin", "puts a neutral token in front"),
    ),
    Remark(
        "biases",
        88,
        lambda row: row.biases is not None and abs(row.biases) > abs(row.from_positions),
        lambda row: (
            f"biases, which belong to no word, have {row.biases:+.3g} of the score {row.facts['value']:+.3g}, "
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
        lambda row: "first_token" in row.input,
        lambda row: f"{legible(row.input['first_token'])} was put in front: another input than the text alone",
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
        lambda row: not row.about_answer and not row.measured and row.prediction is not None,
        lambda row: f"{row.name} does not know the answer: it tells what was mixed, not what decided",
        _open,
    ),
    Remark(
        "one layer",
        40,
        lambda row: row.local and row.layer is not None and row.layer > 1,
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
