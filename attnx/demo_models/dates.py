"""Dates in words ("the third of march 1998"), rewritten as "1998 03 03", and the trained T5 that ships with attnx."""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import numpy as np

from attnx.demo_models.hub import BEGIN, END, PAD, UNKNOWN, DemoModel, word_tokenizer
from attnx.errors import InputError

YEARS = tuple(str(year) for year in range(1900, 2030))
MONTHS = (
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip
SHORT = tuple(month[:3] for month in MONTHS)
_UNITS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth")
ORDINALS = (
    *_UNITS,
    *("tenth", "eleventh", "twelfth", "thirteenth", "fourteenth", "fifteenth", "sixteenth", "seventeenth"),
    *("eighteenth", "nineteenth", "twentieth", *(f"twenty-{unit}" for unit in _UNITS), "thirtieth", "thirty-first"),
)
NUMBERS = tuple(str(number) for number in range(1, 32))
FIELDS = tuple(f"{number:02}" for number in range(1, 32))
"""How months and days are written."""
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
HOURS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")

PHRASES = (
    "the {day} of {month} {year}",
    "the {day} of {month} in {year}",
    "{day} {month} {year}",
    "{month} {day} {year}",
    "{month} the {day} {year}",
    "{year} {month} {day}",
    "in {year} on the {day} of {month}",
    "in {month} {year} on the {day}",
)
ASIDES = ("{weekday}", "on {weekday}", "at {hour}", "at {number}", "page {number}", "room {number}")
"""What may stand before and behind a date, and says nothing of it."""
DENIALS = ("not {other} but {this}", "{this} not {other}", "{this} instead of {other}")
"""Two dates, of which the first is not meant, or the second."""
FRAMES = (*PHRASES, *ASIDES, *DENIALS)
DRAWN = (*YEARS, *NUMBERS, *MONTHS, *SHORT, *ORDINALS, *WEEKDAYS, *HOURS)
"""All words that can stand in them."""

T = TypeVar("T")
Part: TypeAlias = tuple[str, str | None]
"""A word, and which field of the date that is meant it decides, if any."""
Date: TypeAlias = tuple[str, str, str]
"""Year, month and day, as they are rewritten."""
_WRITTEN = ("year", "month", "day")
"""The order of the fields."""


@dataclass(frozen=True)
class Dated:
    """A text with a date, and the date as it is rewritten."""

    text: str
    written: str
    """"1998 03 03"."""
    sources: tuple[int, ...]
    """For each word of `written` the number of the word of `text`, from 0, that decides it."""


def generate(count: int, *, seed: int = 0) -> list[Dated]:
    """Generate this many texts, the same for the same seed.

    >>> example = generate(4, seed=4)[-1]
    >>> example.text, example.written, [example.text.split()[source] for source in example.sources]
    ('on thursday twenty-first june 2020', '2020 06 21', ['2020', 'june', 'twenty-first'])
    """
    if count < 1:
        raise InputError(f"count must be at least 1, found {count}")
    random = np.random.default_rng(seed)
    return [draw(random) for _ in range(count)]


def draw(random: np.random.Generator) -> Dated:
    """One text."""
    date, parts = _date(random)
    if random.random() < 0.4:
        denied = [(word, None) for word, _ in _date(random, unlike=date)[1]]
        parts = _filled(_choice(DENIALS, random), {"this": parts, "other": denied})
    before, behind = ([] if random.random() < 0.5 else _aside(random, date) for _ in range(2))
    words = [*before, *parts, *behind]
    sources = {field: number for number, (_, field) in enumerate(words) if field is not None}
    return Dated(" ".join(word for word, _ in words), " ".join(date), tuple(sources[field] for field in _WRITTEN))


def _date(random: np.random.Generator, unlike: Date | None = None) -> tuple[Date, list[Part]]:
    """A date as it is rewritten, and in words; one that shares no field with another."""
    year, month = int(random.integers(len(YEARS))), int(random.integers(12))
    day = int(random.integers(monthrange(int(YEARS[year]), month + 1)[1]))
    date = (YEARS[year], FIELDS[month], FIELDS[day])
    if unlike is not None and any(field == other for field, other in zip(date, unlike, strict=True)):
        return _date(random, unlike)
    words = {
        "year": YEARS[year],
        "month": _choice((MONTHS, SHORT), random)[month],
        "day": _choice((ORDINALS, NUMBERS), random)[day],
    }
    return date, _filled(_choice(PHRASES, random), {field: [(word, field)] for field, word in words.items()})


def _aside(random: np.random.Generator, date: Date) -> list[Part]:
    """Its number is not that of the day: each field has one source."""
    numbers = [number for number in NUMBERS if int(number) != int(date[2])]
    drawn = {"weekday": WEEKDAYS, "hour": HOURS, "number": numbers}
    return _filled(
        _choice(ASIDES, random), {name: [(_choice(several, random), None)] for name, several in drawn.items()}
    )


def _filled(frame: str, parts: Mapping[str, Sequence[Part]]) -> list[Part]:
    """The words of a frame, with the parts where their names stand in braces."""
    result: list[Part] = []
    for word in frame.split():
        result += parts[word[1:-1]] if word.startswith("{") else [(word, None)]
    return result


def _choice(several: Sequence[T], random: np.random.Generator) -> T:
    return several[int(random.integers(len(several)))]


_IN_FRAMES = {word for frame in FRAMES for word in frame.split() if not word.startswith("{")}
ENTRIES = tuple(dict.fromkeys((PAD, UNKNOWN, BEGIN, END, *DRAWN, *FIELDS, *sorted(_IN_FRAMES))))
"""What the model knows, in the order of its ids."""

POSITIONS = 32
"""The longest input; two dates with all that can stand around them are shorter."""


def build_tokenizer() -> Any:
    """A token a word, in small letters; an end token stands behind, as encoder–decoders are trained."""
    return word_tokenizer(ENTRIES, POSITIONS, f"$A {END}", lowercase=True)


MODEL = DemoModel("dates", "T5ForConditionalGeneration", build_tokenizer)
save = MODEL.save


def load_demo() -> tuple[Any, Any]:
    """The model, in float32 and in evaluation mode, and its tokenizer.

    >>> model, tokenizer = load_demo()
    >>> generated = model.generate(**tokenizer("the third of march 1998", return_tensors="pt"))
    >>> tokenizer.decode(generated[0], skip_special_tokens=True)
    '1998 03 03'
    """
    return MODEL.load()
