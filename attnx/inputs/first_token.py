"""A neutral token in front of a decoder's text.

A decoder's first token collects attention that has nowhere else to go. Where that token is a word of the text, the word
seems to matter. With a neutral token in front it is that one: another input, which is said so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from attnx.errors import ChoiceError, InputError
from attnx.inputs.adapter import Prepared
from attnx.inputs.families import is_decoder
from attnx.inputs.model_facts import max_positions, vocabulary_size
from attnx.inputs.positions import Position, Positions
from attnx.inputs.text import UnchangedTokenizer
from attnx.registry import quoted

BEGIN = "begin"
"""How a caller asks for the token with which the tokenizer's texts begin."""

_FILLED = {"attention_mask": 1, "token_type_ids": 0}
"""What the added position has in the inputs beside its id."""


def with_first_token(model: nn.Module, tokenizer: Any, prepared: Prepared, asked: str | int) -> Prepared:
    """The same input behind one more position, a special one. What begins with a special token is left as it is."""
    if not is_decoder(model.config) or "input_ids" not in prepared.inputs:
        raise ChoiceError(
            f"first_token={quoted(asked)} asked, but {type(model).__name__} is no decoder, whose first token collects "
            "attention; leave it out"
        )
    number = _number(model, tokenizer, asked)
    token = str(tokenizer.convert_ids_to_tokens(number))
    begins = prepared.positions[0]
    if begins.special or int(prepared.inputs["input_ids"][0]) == number:
        note = f"the text begins with {begins.token} as it is: first_token was left out"
        return replace(prepared, notes=(*prepared.notes, note))
    limit = max_positions(model)
    if limit is not None and len(prepared.positions) >= limit:
        raise InputError(f"the text fills all {limit} positions of the model: first_token has no room; shorten it")
    odd = [name for name in prepared.inputs if name not in ("input_ids", *_FILLED)]
    if odd:
        raise InputError(f"a tokenised input with {odd[0]!r} cannot get a first_token; put the token in yourself")
    fill = {**_FILLED, "input_ids": number}
    return replace(
        prepared,
        inputs={
            name: torch.cat([tensor.new_full((1,), fill[name]), tensor]) for name, tensor in prepared.inputs.items()
        },
        positions=Positions(
            (Position(0, token, special=True), *(replace(one, index=one.index + 1) for one in prepared.positions))
        ),
        words=tuple(replace(word, positions=tuple(one + 1 for one in word.positions)) for word in prepared.words),
        notes=(*prepared.notes, f"{token} was put in front of the text: the model read another input than the text"),
        facts={**prepared.facts, "first_token": token, **_moved(prepared.facts)},
    )


def _moved(facts: Mapping[str, Any]) -> dict[str, Any]:
    """What tells of positions, which stand one further on."""
    return {"parts": [[role, start + 1, end + 1] for role, start, end in facts["parts"]]} if "parts" in facts else {}


def _number(model: nn.Module, tokenizer: Any, asked: str | int) -> int:
    """The id of the token: the tokenizer's begin token, a token by its name or its text, or the id itself."""
    if asked == BEGIN:
        found = next((one for one in _begins(model, tokenizer) if isinstance(one, int)), None)
        if found is None:
            raise ChoiceError(
                f"first_token={BEGIN!r} asked, but {type(tokenizer).__name__} has no begin token; name a token"
            )
        return found
    if not isinstance(asked, str):
        if isinstance(asked, bool) or not isinstance(asked, int):
            raise ChoiceError(f"first_token is a token, its id, or {BEGIN!r}, found {quoted(asked)}")
        number, size = asked, vocabulary_size(model)
        if number < 0 or (size is not None and number >= size):
            raise ChoiceError(f"first_token {number} is no token id of this vocabulary of {size}")
        return number
    known = tokenizer.get_vocab()
    if asked in known:
        return int(known[asked])
    pieces = _pieces(tokenizer, asked)
    if len(pieces) != 1 or pieces[0] == getattr(tokenizer, "unk_token_id", None):
        raise ChoiceError(
            f"first_token {quoted(asked)} is no token of the vocabulary, but {len(pieces)} of them; give one token, "
            f"its id, or {BEGIN!r} for the tokenizer's begin token"
        )
    return int(pieces[0])


def _pieces(tokenizer: Any, text: str) -> list[int]:
    """The ids of a text; none of what cannot be written."""
    if any("\ud800" <= character <= "\udfff" for character in text):
        return []
    with UnchangedTokenizer(tokenizer):
        return [int(one) for one in tokenizer(text, add_special_tokens=False)["input_ids"]]


def _begins(model: nn.Module, tokenizer: Any) -> tuple[Any, Any]:
    return getattr(tokenizer, "bos_token_id", None), getattr(model.config, "bos_token_id", None)
