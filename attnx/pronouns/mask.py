"""Where the mask stands, and which token each pronoun would be in its place.

Tokens are looked up in the sentence and not by themselves: RoBERTa has one token for "his" behind a space and another
for "his" at the beginning of a text, and its mask stands for the one that fits.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from attnx.adapters import PreparedInput, adapter_for, word_spans
from attnx.errors import InputError
from attnx.pronouns.result import Candidate

_MARKS = ("[MASK]", "<mask>")
_WORD = re.compile(r"\bmask\b", re.IGNORECASE)


@dataclass(frozen=True, eq=False)
class Masked:
    """A sentence as the model reads it."""

    text: str
    """With the tokenizer's own mask token."""
    shown: str
    """What is explained: the same or, where a pronoun is written in the mask's place, the sentence with it."""
    span: tuple[int, int]
    """Where that token begins and ends in the text."""
    prepared: PreparedInput
    position: int
    """The position of the mask, and of the token that stands in its place."""
    token_ids: tuple[int, ...]
    """One for each pronoun."""


def masked(model: nn.Module, tokenizer: Any, text: str, pronouns: Sequence[str], written: str | None = None) -> Masked:
    """Put the tokenizer's mask token into the sentence, and look up the pronouns in its place.

    The mask is written `[MASK]`, `<mask>`, as the tokenizer's own token or, where there is none of these, as the word
    `mask`.
    """
    token = _mask_token(tokenizer)
    start, end = _span(text, token)
    before, after = text[:start], text[end:]
    adapter = adapter_for(model)
    filled = [_ids(adapter.prepare(model, tokenizer, before + pronoun + after)) for pronoun in pronouns]
    # A mask token that leaves the space before it alone would stand behind a lone space, where no pronoun ever stood.
    for lead in dict.fromkeys((before, before.rstrip(" "))):
        prepared = adapter.prepare(model, tokenizer, lead + token + after)
        position = _position(prepared, tokenizer)
        pieces = [_in_place(_ids(prepared), position, ids) for ids in filled]
        token_ids = [piece for piece in pieces if piece is not None]
        if len(token_ids) == len(pieces):
            span = (len(lead), len(lead) + len(token))
            whole = lead + token + after
            shown = whole if written is None else before + written + after
            return Masked(whole, shown, span, prepared, position, _single(tokenizer, pronouns, token_ids))
    raise InputError(
        f"the tokenizer reads the words around {pronouns[pieces.index(None)]!r} otherwise than those around its mask; "
        "set the mask off with spaces, or choose another pronoun"
    )


def _mask_token(tokenizer: Any) -> str:
    token = getattr(tokenizer, "mask_token", None)
    if token is None:
        raise InputError(
            f"{type(tokenizer).__name__} has no mask token; a pronoun probe needs a masked language model "
            "(BERT, DistilBERT, RoBERTa, …) and its tokenizer"
        )
    return str(token)


def _span(text: str, token: str) -> tuple[int, int]:
    if not isinstance(text, str):
        raise InputError(f"a probe needs one sentence, found {type(text).__name__}; for many there is probe_each")
    marks = "|".join(re.escape(mark) for mark in dict.fromkeys((token, *_MARKS)))
    matches = list(re.finditer(marks, text)) or list(_WORD.finditer(text))
    if not matches:
        raise InputError(f"the sentence has no mask; write {token} where the pronoun stands")
    if len(matches) > 1:
        raise InputError(
            f"the sentence has {len(matches)} masks; "
            f"leave one {token} where the pronoun stands, and write the others out"
        )
    return matches[0].span()


def _ids(prepared: PreparedInput) -> list[int]:
    ids: list[int] = prepared.inputs["input_ids"].tolist()
    return ids


def _position(prepared: PreparedInput, tokenizer: Any) -> int:
    masks = [index for index, token_id in enumerate(_ids(prepared)) if token_id == tokenizer.mask_token_id]
    if len(masks) != 1:
        raise InputError(
            f"the tokenizer makes {len(masks)} masks of one {tokenizer.mask_token}; give the model's own tokenizer"
        )
    return masks[0]


def _in_place(ids: list[int], position: int, filled: list[int]) -> list[int] | None:
    """The tokens of `filled` that stand where `ids` has its mask; None when the surroundings differ."""
    rest = len(ids) - position - 1
    if filled[:position] != ids[:position] or filled[len(filled) - rest :] != ids[position + 1 :]:
        return None
    return filled[position : len(filled) - rest]


def _single(tokenizer: Any, pronouns: Sequence[str], token_ids: Sequence[list[int]]) -> tuple[int, ...]:
    """The one token of each pronoun."""
    owner: dict[int, str] = {}
    for pronoun, ids in zip(pronouns, token_ids, strict=True):
        if len(ids) != 1:
            tokens = " ".join(tokenizer.convert_ids_to_tokens(ids))
            raise InputError(
                f"pronoun {pronoun!r} is {len(ids)} tokens here ({tokens}), and a mask holds one; choose "
                "pronouns of one token, or a model whose vocabulary has it whole"
            )
        if ids[0] == getattr(tokenizer, "unk_token_id", None):
            raise InputError(
                f"pronoun {pronoun!r} is not in the vocabulary (it is read as {tokenizer.unk_token}); choose another, "
                "or a model that knows it"
            )
        if ids[0] in owner:
            raise InputError(f"{owner[ids[0]]!r} and {pronoun!r} are the same token here; give each pronoun once")
        owner[ids[0]] = pronoun
    return tuple(owner)


_INDEXED = re.compile(r"(.+)\[(\d+)\]", re.DOTALL)


def find(names: Sequence[str], sentence: Masked) -> tuple[Candidate, ...]:
    """Each candidate's positions. One that occurs more than once needs an index, from 0: `author[1]` is the second."""
    candidates: list[Candidate] = []
    for name in names:
        start, end = _span_of(name, sentence)
        positions = _covering(sentence, start, end)
        for other in candidates:
            if set(other.positions) & set(positions):
                raise InputError(
                    f"candidates {other.name!r} and {name!r} share a token; give words that do not overlap"
                )
        candidates.append(Candidate(name, positions))
    return tuple(candidates)


def indexed(word: str, text: str, start: int) -> str:
    """The name of the candidate `word` that begins at `start`: with an index where the word occurs elsewhere, too.

    >>> indexed("cat", "the cat saw a cat", 14)
    'cat[1]'
    """
    starts = [first for first, _ in occurrences(word, text)]
    return word if len(starts) == 1 else f"{word}[{starts.index(start)}]"


def occurrences(word: str, text: str) -> list[tuple[int, int]]:
    """Where `word` stands in `text` as a word, not inside another."""
    return [match.span() for match in re.finditer(rf"(?<!\w){re.escape(word)}(?!\w)", text)]


def _span_of(name: str, sentence: Masked) -> tuple[int, int]:
    named = _INDEXED.fullmatch(name)
    word, index = (named[1], int(named[2])) if named else (name, None)
    begin, end = sentence.span
    spans = [(a, b) for a, b in occurrences(word.strip(), sentence.text) if b <= begin or a >= end]
    if not spans:
        words = [text[a:b] for text in (sentence.text[:begin], sentence.text[end:]) for a, b in word_spans(text)]
        raise InputError(f"candidate {word!r} is not in the sentence; write it as it stands there: {', '.join(words)}")
    if index is None and len(spans) > 1:
        raise InputError(
            f"candidate {name!r} occurs {len(spans)} times in the sentence; say which by index: '{name}[0]', "
            f"'{name}[1]'"
        )
    if index is not None and index >= len(spans):
        raise InputError(f"candidate {name!r} asked, but {word!r} occurs {len(spans)} times (the first is {word}[0])")
    return spans[index or 0]


def _covering(sentence: Masked, start: int, end: int) -> tuple[int, ...]:
    """The positions of the tokens between two characters, by the tokenizer's offsets."""
    positions = sentence.prepared.positions
    if not positions.has_offsets:
        raise InputError(
            "this tokenizer does not tell where its tokens stand in the text, so candidates cannot be found; "
            "use a fast tokenizer"
        )
    result = tuple(
        position.index for position in positions.named if (position.start or 0) < end and (position.end or 0) > start
    )
    if not result:
        raise InputError(f"the tokenizer has no token for {sentence.text[start:end]!r}; choose another candidate")
    return result
