"""The words of several explanations in one table: each row has the words that stand for each other.

Words are matched by their characters. Where the text is the same, words that share characters are one row, however a
tokenizer cut them; where it was changed, the changes say which characters became which. Of texts that differ in a way
that nobody told, and of those without characters, the sequences of words are compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TypeAlias

from attnx.inputs.positions import Word
from attnx.results.explanation import Explanation

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
        for one, two in _links(first, other, changes):
            _join(groups, (0, one), (number, two))
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
    if word.segment >= len(explanation.texts) or any(one.start is None or one.end is None for one in pieces):
        return None
    start = min(one.start for one in pieces if one.start is not None)
    end = max(one.end for one in pieces if one.end is not None)
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
    for one, span in enumerate(ones):
        for place in _places(span, changes or ()) if span is not None else ():
            yield from ((one, two) for two, found in enumerate(twos) if found is not None and found.meets(place))


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
    ones, twos = ([(word.segment, word.text) for word in one.words] for one in (first, other))
    for kind, start, end, begin, stop in SequenceMatcher(None, ones, twos, autojunk=False).get_opcodes():
        if kind == "equal" or (kind == "replace" and end - start == stop - begin):
            yield from zip(range(start, end), range(begin, stop), strict=True)
        elif kind == "replace":
            yield from ((one, two) for one in range(start, end) for two in range(begin, stop))


def _join(groups: dict[tuple[int, int], set[tuple[int, int]]], one: tuple[int, int], two: tuple[int, int]) -> None:
    whole = groups[one] | groups[two]
    for member in whole:
        groups[member] = whole
