"""What a model of speech writes frame by frame (CTC): letters, each with the stretch of time that it was written from.

At every position such a model writes a letter or nothing. The same letter in a row is one; nothing between two makes
them two. A letter is explained where the model is surest of it, and its span goes on to where the next begins. Letters
are grouped to words where the tokenizer says what stands between words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from typing import Any

from torch import Tensor, nn

from attnx.errors import InputError
from attnx.explaining.beforehand import answers_of
from attnx.explaining.seam import Request
from attnx.inputs.adapter import Prepared
from attnx.inputs.model_facts import has_head
from attnx.inputs.positions import Positions, Span, Word

PAUSE = "…"
"""What stretches are called in which no word is written."""


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
    silent: int
    """One past the last that writes it: from there to its end nothing is written."""


def writes_by_frame(model: nn.Module) -> bool:
    return has_head(model, "ForCTC")


def of_every_letter(model: nn.Module, processor: Any, requests: Sequence[Request]) -> list[Request]:
    """A request for each letter that the model writes, in the order of the sounds; its letters are the spans."""
    found = []
    blank = int(getattr(model.config, "pad_token_id", 0) or 0)
    answers = answers_of(model, processor, [request.prepared for request in requests])
    for request, logits in zip(requests, answers, strict=True):
        letters = letters_of(logits, blank)
        spans = tuple(Span(_name(processor, [one]), tuple(range(one.start, one.end))) for one in letters)
        prepared = replace(_with_words(processor, request.prepared, letters), spans=request.prepared.spans or spans)
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
        letters.append(Letter(token, start, following, surest, own))
    return letters


def words_of(letters: Sequence[Letter], between: int) -> list[tuple[Letter, ...]]:
    """The letters of each word; `between` is the token that stands between two."""
    return [tuple(own) for apart, own in groupby(letters, lambda one: one.token == between) if not apart]


def _with_words(processor: Any, prepared: Prepared, letters: Sequence[Letter]) -> Prepared:
    """The same sound, whose words are those that were written, and the pauses around them."""
    between = getattr(_tokenizer(processor), "word_delimiter_token_id", None)
    if not isinstance(between, int) or not letters:
        return prepared
    texts = {(own[0].start, own[-1].silent): _name(processor, own) for own in words_of(letters, between)}
    edges = sorted({0, len(prepared.positions), *(edge for place in texts for edge in place)})
    words = tuple(
        Word(number, texts.get(place, PAUSE), tuple(range(*place))) for number, place in enumerate(pairwise(edges))
    )
    own = {place: word.index for word in words for place in word.positions}
    positions = Positions(replace(one, word=own[one.index]) for one in prepared.positions)
    return replace(prepared, positions=positions, words=words)


def _name(processor: Any, letters: Sequence[Letter]) -> str:
    """As the tokenizer calls them; by their numbers where there is none."""
    convert = getattr(_tokenizer(processor), "convert_ids_to_tokens", str)
    return "".join(str(convert(one.token)) for one in letters)


def _tokenizer(processor: Any) -> Any:
    return getattr(processor, "tokenizer", processor)
