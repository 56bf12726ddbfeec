"""A text in which a picture stands as one token, and the same text as the processor writes it out for the model.

Processors put many tokens where the picture stands: one for each patch or merged patch, borders, rows of tiles. What
they write is read off the call of their own tokenizer. What the user wrote is found in it again, piece by piece, so
that words are slices of the text as it was given.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from attnx.errors import InputError, in_a_line
from attnx.inputs.text import UnchangedTokenizer


@dataclass(frozen=True, eq=False)
class Expanded:
    """What a processor made of pictures and a text."""

    inputs: dict[str, Any]
    """As the model takes them, a batch of one."""
    text: str
    """With all that the processor wrote into it."""
    encoding: Any
    """The tokenizer's record; None where it keeps none."""


def expanded(processor: Any, pictures: Sequence[Any], text: str) -> Expanded:
    """Run the processor on pictures and a text; neither it nor its tokenizer is changed."""
    told = _Telling(processor.tokenizer)
    asked = copy.copy(processor)
    asked.tokenizer = told
    try:
        with UnchangedTokenizer(processor.tokenizer):
            given = asked(images=list(pictures), text=[text], return_tensors="pt")
    except Exception as error:
        raise InputError(
            f"{type(processor).__name__} cannot process the picture with the text ({in_a_line(error)}); does the text "
            f"name as many pictures ({image_token(processor)}) as there are?"
        ) from error
    if told.text is None:
        raise InputError(f"{type(processor).__name__} did not ask its tokenizer; give what it made, as a mapping")
    return Expanded(dict(given), told.text, told.encoding)


def image_token(processor: Any) -> str | None:
    """What stands for a picture in a text; None where the processor does not say."""
    token = getattr(processor, "image_token", None)
    return str(getattr(token, "content", token)) if token is not None else None


def pieces(text: str, token: str | None, written: str) -> list[tuple[int, int, int]] | None:
    """The pieces of a text between its pictures: where each begins in `written`, how long it is, where it begins in
    the text itself. None where they cannot be found."""
    parts = [text] if token is None else text.split(token)
    gap = 0 if token is None else len(token)
    found: list[tuple[int, int, int]] = []
    begin, at = 0, 0
    for number, part in enumerate(parts):
        last = number == len(parts) - 1 and number > 0
        place = written.rfind(part) if last else written.find(part, at)
        if place < at:
            return None
        found.append((place, len(part), begin))
        at, begin = place + len(part), begin + len(part) + gap
    return found


class _Telling:
    """A tokenizer that remembers what it was asked, and is else the one that it stands for."""

    def __init__(self, tokenizer: Any) -> None:
        self._inner = tokenizer
        self.text: str | None = None
        self.encoding: Any = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def __call__(self, text: Any = None, *args: Any, **kwargs: Any) -> Any:
        found = self._inner(text, *args, **{"verbose": False, **kwargs})
        several = [text] if isinstance(text, str) else text
        if several and isinstance(several[0], str):
            self.text = several[0]
            encodings = getattr(found, "encodings", None)
            self.encoding = encodings[0] if encodings else None
        return found
