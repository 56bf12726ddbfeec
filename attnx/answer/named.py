"""A class by its label, a token by its text: what a user calls a part of the answer, as its number."""

from __future__ import annotations

from typing import Any

from attnx.errors import ChoiceError, whole_number
from attnx.registry import unknown


def split(asked: Any) -> tuple[Any, Any]:
    """What is explained, and what it stands against: None unless the user gave a pair."""
    if not isinstance(asked, (tuple, list)):
        return asked, None
    if len(asked) != 2:
        raise ChoiceError(f"target {asked!r} has {len(asked)} parts; give one, or a pair: the second is set against")
    return asked[0], asked[1]


def class_index(target: Any, labels: tuple[str, ...]) -> int:
    """The number of a class that is given by its label, in any case, or by its number.

    A text is a label first: star ratings are called "1" to "5" and numbered 0 to 4.
    """
    lowered = [label.lower() for label in labels]
    if target in labels:
        return labels.index(target)
    if isinstance(target, str) and target.lower() in lowered:
        return lowered.index(target.lower())
    number = target
    if isinstance(target, str) and target.isdecimal() and len(target) <= len(str(len(labels))):
        number = int(target)
    if not isinstance(number, (str, bool)) and number in range(len(labels)):
        return int(number)
    raise ChoiceError(unknown("target", target, labels))


def token_index(target: Any, tokenizer: Any, size: int) -> int:
    """The id of a token that is given as text or by its id. Of a text of several tokens it is the first."""
    if not isinstance(target, str):
        index = whole_number("target", target)
        if 0 <= index < size:
            return index
        raise ChoiceError(f"target {index} is no token id of this vocabulary of {size}")
    ids = pieces_of(target, tokenizer)
    if not ids:
        raise ChoiceError(f"target {target!r} is no token at all; give a word, or a token id")
    unread = getattr(tokenizer, "unk_token_id", None)
    # In GPT-2 one token is both the unknown word and the end of the text, and no text is unknown.
    if ids[0] == unread and unread != getattr(tokenizer, "eos_token_id", None) and target != tokenizer.unk_token:
        raise ChoiceError(
            f"target {target!r} is not in the vocabulary, and would be read as {tokenizer.unk_token}; give a word that "
            "is, or a token id"
        )
    return ids[0]


def pieces_of(target: str, tokenizer: Any) -> list[int]:
    return [int(one) for one in tokenizer(target, add_special_tokens=False)["input_ids"]]
