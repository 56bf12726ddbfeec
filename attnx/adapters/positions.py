"""What the positions of an input are: tokens with their offsets in the original text, and the words they make up.

Everything in attnx is keyed by position, so a token that occurs twice is two positions. Words are slices of the text as
it was given; nothing is glued together from tokens.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import SupportsIndex, overload

_JOINERS = frozenset("'’-‐_")
_DECIMAL = frozenset(".,")

BROKEN = "\ufffd"
"""What a tokenizer writes for bytes that are no whole character (yet)."""


@dataclass(frozen=True)
class Position:
    """One index of the input: a token, a special token, a patch of an image, or a segment of audio."""

    index: int
    token: str
    special: bool = False
    start: int | None = None
    """First character in its text, and one past its last; None where the tokenizer has no offsets."""
    end: int | None = None
    segment: int = 0
    """0 for the text, 1 for the second text of a pair."""
    word: int | None = None
    """Index into the list of words; None for special tokens."""
    box: tuple[float, float, float, float] | None = None
    """Of a patch: left, top, right and bottom in the original image, in pixels; None where it reads none of it."""
    time: tuple[float, float] | None = None
    """Of audio: when it begins and ends, in seconds."""
    band: tuple[int, int] | None = None
    """Of a patch of a spectrum: its first channel, and one past its last; None where it covers all."""

    def piece(self, texts: Sequence[str]) -> str:
        """Its slice of the text, white space and all; empty where there is none."""
        if self.special or self.start is None or self.segment >= len(texts):
            return ""
        return texts[self.segment][self.start : self.end]


class Positions(tuple[Position, ...]):
    """What each index of an input is: a tuple that knows what of it is content, and what is special.

    >>> positions = Positions([Position(0, "[CLS]", special=True), Position(1, "keys", start=0, end=4)])
    >>> positions.content, positions.special, positions.has_offsets
    ([1], [0], True)
    >>> positions[1:].content
    [1]
    """

    __slots__ = ()

    @property
    def content(self) -> list[int]:
        """The indices that are no special tokens."""
        return [position.index for position in self.named]

    @property
    def special(self) -> list[int]:
        """The indices of special tokens."""
        return [position.index for position in self if position.special]

    @property
    def named(self) -> list[Position]:
        """The content as positions: pieces of text, patches, segments of audio."""
        return [position for position in self if not position.special]

    @property
    def has_offsets(self) -> bool:
        """Whether it is known of all content where in the text it stands."""
        return all(position.start is not None and position.end is not None for position in self.named)

    def overlapping(self, start: int, end: int) -> list[int]:
        """The indices whose characters begin or end inside these, in the text of their segment."""
        return [
            position.index
            for position in self
            if position.start is not None and position.end is not None and position.start < end and position.end > start
        ]

    @property
    def time_segments(self) -> list[tuple[int, ...]]:
        """Of audio, the positions of each segment of time, with all its bands, in their order; none of a text."""
        segments: dict[tuple[float, float], list[int]] = {}
        for position in self:
            if position.time is not None:
                segments.setdefault(position.time, []).append(position.index)
        return [tuple(segments[time]) for time in sorted(segments)]

    def when(self, indices: Sequence[int]) -> tuple[float, float] | None:
        """When the first of these positions begins and the last ends, in seconds; None where one is no audio."""
        times = [time for index in indices if (time := self[index].time) is not None]
        return (min(times)[0], max(times)[1]) if times and len(times) == len(indices) else None

    def units(self, spans: Sequence[Span]) -> list[tuple[int, ...]]:
        """What is removed together: the parts that the caller named, or each content position by itself, of audio those
        of one segment of time."""
        if spans:
            return [span.positions for span in spans]
        return [*self.time_segments, *((position.index,) for position in self.named if position.time is None)]

    @overload
    def __getitem__(self, index: SupportsIndex) -> Position: ...
    @overload
    def __getitem__(self, index: slice) -> Positions: ...
    def __getitem__(self, index: SupportsIndex | slice) -> Position | Positions:
        position = super().__getitem__(index)
        return position if isinstance(position, Position) else Positions(position)


@dataclass(frozen=True)
class Word:
    """A word of the original text and the positions of its pieces."""

    index: int
    text: str
    positions: tuple[int, ...]
    segment: int = 0

    @property
    def is_punctuation(self) -> bool:
        """Whether it is marks of punctuation alone; symbols and emoji say something.

        >>> [Word(0, text, (0,)).is_punctuation for text in ("...", "don't", "€", "🙂")]
        [True, False, False, False]
        """
        return all(name.isspace() or unicodedata.category(name).startswith("P") for name in self.text)


@dataclass(frozen=True)
class Span:
    """A part of the text that the caller named, and the positions that it has."""

    name: str
    positions: tuple[int, ...]


def content_words(words: Sequence[Word]) -> tuple[Word, ...]:
    """The words without punctuation."""
    return tuple(word for word in words if not word.is_punctuation)


def punctuation(words: Sequence[Word]) -> list[int]:
    """The positions of punctuation."""
    return [index for word in words if word.is_punctuation for index in word.positions]


def group_words(positions: Sequence[Position], texts: Sequence[str] | None) -> tuple[Positions, tuple[Word, ...]]:
    """Give every position its word: segments of audio, then words of the texts, then patches.

    Without texts, or without offsets, each position is a word by itself.
    """
    positions = Positions(positions)
    pieces = Positions(position for position in positions.named if position.box is None and position.time is None)
    groups: list[list[Position]]
    if texts is None or not pieces or not pieces.has_offsets:
        groups, texts = [[position] for position in positions.named], None
    else:
        spans = [word_spans(text) for text in texts]
        words_of_text: dict[tuple[int, int], list[Position]] = {}
        for piece in pieces:
            start = _word_start(piece, texts[piece.segment], spans[piece.segment])
            words_of_text.setdefault((piece.segment, start), []).append(piece)
        groups = [[position] for position in positions.named if position.time is not None]
        groups += [group for _, group in sorted(words_of_text.items())]
        groups += [[position] for position in positions.named if position.box is not None]
    words = tuple(
        Word(index, _word_text(group, texts), tuple(piece.index for piece in group), group[0].segment)
        for index, group in enumerate(groups)
    )
    word_of = {index: word.index for word in words for index in word.positions}
    return Positions(replace(position, word=word_of.get(position.index)) for position in positions), words


def _word_text(group: Sequence[Position], texts: Sequence[str] | None) -> str:
    if texts is None or group[0].box is not None or group[0].time is not None:
        return group[0].token
    text = texts[group[0].segment]
    spans = [stripped_span(piece, text) for piece in group]
    word = text[min(start for start, _ in spans) : max(end for _, end in spans)]
    return word.strip(" ") or word


def word_spans(text: str) -> list[tuple[int, int]]:
    """Where the words of a text begin and end, in any script.

    A word is a run of letters, digits and marks; a joiner between two of them belongs to it (don't, well-known, 3.5).
    Punctuation marks and symbols stand alone, and so do the characters of scripts that are written without spaces
    between short words (Chinese, Japanese).

    >>> [text[a:b] for text in ["It's 3.5, ok!"] for a, b in word_spans(text)]
    ["It's", '3.5', ',', 'ok', '!']
    """
    spans: list[tuple[int, int]] = []
    open_word = False
    for index, character in enumerate(text):
        kind = _kind(character)
        if spans and spans[-1][1] == index and _attaches(text, index):
            spans[-1] = (spans[-1][0], index + 1)
        elif kind == "space":
            open_word = False
        elif open_word and (kind == "letter" or _joins(text, index)):
            spans[-1] = (spans[-1][0], index + 1)
        else:
            spans.append((index, index + 1))
            open_word = kind == "letter"
    return spans


def _kind(character: str) -> str:
    if character.isspace():
        return "space"
    if unicodedata.category(character)[0] in "PS":
        return "mark"
    # Han, kana and the full- and half-width forms around them.
    if "぀" <= character <= "ヿ" or "㐀" <= character <= "鿿" or character >= "\U00020000":
        return "alone"
    return "letter"


def _attaches(text: str, index: int) -> bool:
    """Whether a character changes the one before it and is none by itself: accents, joiners, variants, skin tones."""
    character = text[index]
    return (
        unicodedata.category(character) in ("Mn", "Mc", "Me", "Cf")
        or "\U0001f3fb" <= character <= "\U0001f3ff"
        or text[index - 1] == "\u200d"
    )


def _joins(text: str, index: int) -> bool:
    after = text[index + 1 : index + 2]
    if text[index] in _DECIMAL:
        return text[index - 1].isdigit() and after.isdigit()
    return text[index] in _JOINERS and bool(after) and _kind(after) == "letter"


def stripped_span(position: Position, text: str) -> tuple[int, int]:
    """The span without white space around it: some tokenizers count the space before a word to its first piece."""
    start, end = position.start or 0, position.end or 0
    piece = text[start:end]
    if not piece.strip():
        return start, end
    return start + len(piece) - len(piece.lstrip()), end - len(piece) + len(piece.rstrip())


def _word_start(position: Position, text: str, spans: Sequence[tuple[int, int]]) -> int:
    """Where the position's word begins. A piece of nothing but spaces belongs to the word that follows, if one does;
    other white space, such as a line break, is a word by itself.
    """
    start, end = stripped_span(position, text)
    if text[start:end].strip(" ") == "":
        start = end
    return next((first for first, last in spans if first <= start < last), position.start or 0)
