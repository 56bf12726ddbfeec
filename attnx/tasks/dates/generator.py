"""Dates in words, and the same dates as year, month and day: which word decides each of the three is known.

    on friday the third of march 1998          →  1998 03 03
    not may 9 2011 but the third of mar 1998   →  1998 03 03

Every field that is written has one source: the word that names the year, the month or the day. Another word there makes
another field, and no other word can. What else stands in a text says nothing of the date: a weekday is drawn at random,
"page 12" and "at nine" are numbers that are no day, and a date that is denied is one of the same kind. Words such as
"not" say where to look; they do not say what is found. The order of the parts changes, so place gives nothing away.
"""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

import numpy as np

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
    """So many texts, the same for the same seed.

    >>> one = generate(4, seed=4)[-1]
    >>> one.text, one.written, [one.text.split()[source] for source in one.sources]
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
        parts = _filled(_one_of(DENIALS, random), {"this": parts, "other": denied})
    before, behind = ([] if random.random() < 0.5 else _aside(random, date) for _ in range(2))
    words = [*before, *parts, *behind]
    places = {field: place for place, (_, field) in enumerate(words) if field is not None}
    return Dated(" ".join(word for word, _ in words), " ".join(date), tuple(places[field] for field in _WRITTEN))


def _date(random: np.random.Generator, unlike: Date | None = None) -> tuple[Date, list[Part]]:
    """A date as it is rewritten, and in words; one that shares no field with another."""
    year, month = int(random.integers(len(YEARS))), int(random.integers(12))
    day = int(random.integers(monthrange(int(YEARS[year]), month + 1)[1]))
    date = (YEARS[year], FIELDS[month], FIELDS[day])
    if unlike is not None and any(one == two for one, two in zip(date, unlike, strict=True)):
        return _date(random, unlike)
    words = {
        "year": YEARS[year],
        "month": _one_of((MONTHS, SHORT), random)[month],
        "day": _one_of((ORDINALS, NUMBERS), random)[day],
    }
    return date, _filled(_one_of(PHRASES, random), {field: [(word, field)] for field, word in words.items()})


def _aside(random: np.random.Generator, date: Date) -> list[Part]:
    """Its number is not that of the day: no field can be had from two places."""
    numbers = [number for number in NUMBERS if int(number) != int(date[2])]
    drawn = {"weekday": WEEKDAYS, "hour": HOURS, "number": numbers}
    return _filled(
        _one_of(ASIDES, random), {name: [(_one_of(several, random), None)] for name, several in drawn.items()}
    )


def _filled(frame: str, parts: Mapping[str, Sequence[Part]]) -> list[Part]:
    """The words of a frame, with the parts where their names stand in braces."""
    found: list[Part] = []
    for word in frame.split():
        found += parts[word[1:-1]] if word.startswith("{") else [(word, None)]
    return found


def _one_of(several: Sequence[T], random: np.random.Generator) -> T:
    return several[int(random.integers(len(several)))]
