"""Who could be meant: words of the sentence, and their positions in the input."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from attnx.errors import InputError
from attnx.positions import word_spans
from attnx.probes.pronouns.mask import Masked

_INDEXED = re.compile(r"(.+)\[(\d+)\]", re.DOTALL)


@dataclass(frozen=True)
class Candidate:
    """A candidate as the user wrote it, and where it stands in the input."""

    name: str
    positions: tuple[int, ...]


def find(names: Sequence[str], sentence: Masked) -> tuple[Candidate, ...]:
    """Each candidate's positions. One that occurs more than once needs an index, from 0: `author[1]` is the second."""
    found: list[Candidate] = []
    for name in names:
        start, end = _span(name, sentence)
        positions = _covering(sentence, start, end)
        for other in found:
            if set(other.positions) & set(positions):
                raise InputError(
                    f"candidates {other.name!r} and {name!r} share a token; give words that do not overlap"
                )
        found.append(Candidate(name, positions))
    return tuple(found)


def indexed(word: str, text: str, start: int) -> str:
    """The name of the candidate `word` that begins at `start`: with an index where the word occurs elsewhere, too.

    >>> indexed("cat", "the cat saw a cat", 14)
    'cat[1]'
    """
    places = [place for place, _ in occurrences(word, text)]
    return word if len(places) == 1 else f"{word}[{places.index(start)}]"


def occurrences(word: str, text: str) -> list[tuple[int, int]]:
    """Where `word` stands in `text` as a word, not inside another."""
    return [one.span() for one in re.finditer(rf"(?<!\w){re.escape(word)}(?!\w)", text)]


def _span(name: str, sentence: Masked) -> tuple[int, int]:
    named = _INDEXED.fullmatch(name)
    word, index = (named[1], int(named[2])) if named else (name, None)
    begin, end = sentence.span
    places = [(a, b) for a, b in occurrences(word.strip(), sentence.text) if b <= begin or a >= end]
    if not places:
        words = [text[a:b] for text in (sentence.text[:begin], sentence.text[end:]) for a, b in word_spans(text)]
        raise InputError(f"candidate {word!r} is not in the sentence; write it as it stands there: {', '.join(words)}")
    if index is None and len(places) > 1:
        raise InputError(
            f"candidate {name!r} occurs {len(places)} times in the sentence; say which by index: '{name}[0]', "
            f"'{name}[1]'"
        )
    if index is not None and index >= len(places):
        raise InputError(f"candidate {name!r} asked, but {word!r} occurs {len(places)} times (the first is {word}[0])")
    return places[index or 0]


def _covering(sentence: Masked, start: int, end: int) -> tuple[int, ...]:
    """The positions of the tokens between two characters, by the tokenizer's offsets."""
    positions = [one for one in sentence.prepared.positions if not one.special]
    if any(one.start is None for one in positions):
        raise InputError(
            "this tokenizer does not tell where its tokens stand in the text, so candidates cannot be found; "
            "use a fast tokenizer"
        )
    found = tuple(one.index for one in positions if (one.start or 0) < end and (one.end or 0) > start)
    if not found:
        raise InputError(f"the tokenizer has no token for {sentence.text[start:end]!r}; choose another candidate")
    return found
