"""What a model of speech writes frame by frame (CTC): letters, each with the stretch of time that it was written from.

At every position such a model writes a letter or nothing. The same letter in a row is one; nothing between two makes
them two. A letter is explained where the model is surest of it, and its span goes on to where the next begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from torch import Tensor, nn

from attnx.errors import InputError
from attnx.explaining.beforehand import answers_of
from attnx.explaining.seam import Request
from attnx.inputs.model_facts import has_head
from attnx.inputs.positions import Span


@dataclass(frozen=True)
class Letter:
    """One written token."""

    token: int
    start: int
    """The first position that writes it."""
    end: int
    """One past the last that is its own: where the next letter begins."""
    surest: int
    """The position whose logit of it is highest."""


def writes_by_frame(model: nn.Module) -> bool:
    return has_head(model, "ForCTC")


def of_every_letter(model: nn.Module, processor: Any, requests: Sequence[Request]) -> list[Request]:
    """A request for each letter that the model writes, in the order of the sounds; its letters are the spans."""
    found = []
    blank = int(getattr(model.config, "pad_token_id", 0) or 0)
    answers = answers_of(model, processor, [request.prepared for request in requests])
    for request, logits in zip(requests, answers, strict=True):
        letters = letters_of(logits, blank)
        names = _names(processor, letters)
        spans = tuple(Span(name, tuple(range(one.start, one.end))) for name, one in zip(names, letters, strict=True))
        prepared = replace(request.prepared, spans=request.prepared.spans or spans)
        found += [replace(request, prepared=prepared, position=one.surest, target=one.token) for one in letters]
    if not found:
        raise InputError(f"{type(model).__name__} writes nothing for this sound; position=… explains one stretch of it")
    return found


def letters_of(logits: Tensor, blank: int) -> list[Letter]:
    """The letters of position × token; `blank` is the token that writes nothing."""
    best = logits.argmax(-1).tolist()
    starts = [place for place, token in enumerate(best) if token != blank and (not place or best[place - 1] != token)]
    letters = []
    for start, following in pairwise([*starts, len(best)]):
        token = best[start]
        own = next((place for place in range(start, following) if best[place] != token), following)
        surest = start + int(logits[start:own, token].argmax())
        letters.append(Letter(token, start, following, surest))
    return letters


def _names(processor: Any, letters: Sequence[Letter]) -> list[str]:
    """As the tokenizer calls them; by their number where there is none."""
    tokenizer = getattr(processor, "tokenizer", processor)
    convert = getattr(tokenizer, "convert_ids_to_tokens", str)
    return [str(convert(one.token)) for one in letters]
