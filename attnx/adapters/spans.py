"""Parts of a text that the caller names: retrieved documents, sentences, lines. Units beside tokens and words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from attnx.adapters.adapter import PreparedInput
from attnx.adapters.positions import Span, inked
from attnx.errors import InputError
from attnx.registry import quoted, unknown

Place: TypeAlias = tuple[int, int]
"""First character, and one past the last."""
SpanSpec: TypeAlias = Mapping[str, Place | str] | Sequence[str] | str
"""Name → offsets, or the text itself; texts alone; or "sentences" or "lines"."""

_SENTENCE_END = re.compile(r"(?<=[.!?…])[\"'”’)\]]*\s+|(?<=[。！？])|\n+")
_SHOWN = 24
"""Characters of a text without a name that stand for it."""


def with_spans(prepared: PreparedInput, asked: SpanSpec, prompt: tuple[int | None, int] | None = None) -> PreparedInput:
    """The same input, of which these parts are units.

    A token belongs to the part in which its first letter stands. Parts do not overlap, and need not be all of the text.
    Where only its beginning is a `prompt`, they are parts of that: of so many characters, and so many positions.
    """
    end, length = prompt if prompt is not None else (None, len(prepared.positions))
    if not isinstance(prepared.text, str):
        raise InputError("spans are parts of one text, and this input is none: give the text itself")
    if not prepared.positions.told:
        raise InputError("this tokenizer tells no offsets, so parts of the text cannot be found; use a fast tokenizer")
    places = _places(prepared.text[:end], asked)
    spans = tuple(Span(name, _positions(prepared, place, length)) for name, place in places.items())
    for span in spans:
        if not span.positions:
            raise InputError(f"span {quoted(span.name)} has no token in it: check its offsets {places[span.name]}")
    _check_apart(spans)
    return replace(prepared, spans=spans)


def with_spans_of_each(
    prepared: Sequence[PreparedInput], asked: SpanSpec | Sequence[SpanSpec], *, single: bool
) -> list[PreparedInput]:
    """The same for one input, or for a list of them: what each has, or "sentences" or "lines" for all."""
    if single or isinstance(asked, str):
        return [with_spans(one, asked) for one in prepared]  # type: ignore[arg-type]
    if isinstance(asked, Mapping) or len(asked) != len(prepared):
        raise InputError(
            f"spans of {len(prepared)} inputs are a list, one for each, or {' or '.join(READY_MADE)} for all"
        )
    return [with_spans(one, own) for one, own in zip(prepared, asked, strict=True)]


def _places(text: str, names: SpanSpec) -> dict[str, Place]:
    if isinstance(names, str):
        if names not in READY_MADE:
            raise InputError(unknown("spans", names, READY_MADE))
        return _numbered(text, READY_MADE[names](text))
    if isinstance(names, Mapping):
        found, end = {}, 0
        for name, one in names.items():
            found[str(name)] = place = _found(text, one, end) if isinstance(one, str) else _checked(text, name, one)
            end = place[1]
        return _some(found)
    if isinstance(names, Sequence) and all(isinstance(name, str) for name in names):
        several, end = [], 0
        for one in names:
            several.append(_found(text, one, end))
            end = several[-1][1]
        return _numbered(text, several)
    raise InputError(
        f"spans are a dictionary of names, a list of texts, or {' or '.join(READY_MADE)}, found {quoted(names)}"
    )


def _found(text: str, part: str, start: int) -> Place:
    """Where a part stands, behind the one before it; where it does not, anywhere."""
    place = text.find(part, start) if part else -1
    place = text.find(part) if place < 0 and part else place
    if place < 0:
        raise InputError(f"span {quoted(part[:_SHOWN])} does not stand in the text; give a part of it, or offsets")
    return place, place + len(part)


def _checked(text: str, name: object, place: Any) -> Place:
    try:
        start, end = (int(one) for one in place)
    except (TypeError, ValueError):
        raise InputError(
            f"span {quoted(name)} must be (first character, one past the last), found {quoted(place)}"
        ) from None
    if not 0 <= start < end <= len(text):
        raise InputError(f"span {quoted(name)} is {start} to {end}, and the text has {len(text)} characters")
    return start, end


def _numbered(text: str, several: Sequence[Place]) -> dict[str, Place]:
    def name(number: int, place: Place) -> str:
        said = " ".join(text[slice(*place)].split())
        return f"{number}. {said if len(said) <= _SHOWN else said[: _SHOWN - 1] + '…'}"

    return _some({name(number, place): place for number, place in enumerate(several, start=1)})


def _some(found: dict[str, Place]) -> dict[str, Place]:
    if not found:
        raise InputError("there is no span: name at least one part of the text")
    return found


def _positions(prepared: PreparedInput, place: Place, length: int) -> tuple[int, ...]:
    text = prepared.text
    assert isinstance(text, str)
    return tuple(
        position.index
        for position in prepared.positions[:length].named
        if place[0] <= inked(position, text)[0] < place[1]
    )


def _check_apart(spans: Sequence[Span]) -> None:
    owner: dict[int, str] = {}
    for span in spans:
        for place in span.positions:
            if place in owner:
                raise InputError(f"spans {quoted(owner[place])} and {quoted(span.name)} overlap; each token has one")
            owner[place] = span.name


def _sentences(text: str) -> list[Place]:
    """
    >>> [text[a:b] for text in ['One. "Two!" Three'] for a, b in _sentences(text)]
    ['One.', '"Two!"', 'Three']
    """
    return list(_between(text, [(match.start(), match.end()) for match in _SENTENCE_END.finditer(text)]))


def _lines(text: str) -> list[Place]:
    return list(_between(text, [(place, place + 1) for place, name in enumerate(text) if name == "\n"]))


def _between(text: str, borders: Sequence[Place]) -> Iterator[Place]:
    """What stands between borders, without white space around it; closing quotes count to what they close."""
    start = 0
    for begin, end in (*borders, (len(text), len(text))):
        piece = text[start : begin + len(text[begin:end].rstrip())]
        if piece.strip():
            first = start + len(piece) - len(piece.lstrip())
            yield first, first + len(piece.strip())
        start = end


READY_MADE: dict[str, Callable[[str], list[Place]]] = {"sentences": _sentences, "lines": _lines}
