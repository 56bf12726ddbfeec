"""Requests about the output of an encoder–decoder: one token that was written, every one, or the next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from typing import Any

from torch import Tensor, nn

from attnx.adapters import Positions, PreparedInput, Span, Word, has_head
from attnx.errors import ChoiceError, InputError
from attnx.graph import check_position
from attnx.hooks import map_outputs
from attnx.pipeline.options import ENTITIES, EVERY
from attnx.pipeline.pipeline import Request
from attnx.targets import ChoiceTarget, class_names, read

_NO_ENTITY = "O"
"""The tag of what belongs to none."""


def with_choices(model: nn.Module, processor: Any, requests: Sequence[Request]) -> list[Request]:
    """Of each question the choice that the model takes, or the one that was asked for."""
    every = [choice for request in requests for choice in request.prepared.choices]
    if not every:
        return list(requests)
    numbers = iter([float(logits[0]) for logits in answers_of(model, processor, every)])
    return [
        _chosen(request, tuple(next(numbers) for _ in request.prepared.choices))
        if request.prepared.choices
        else request
        for request in requests
    ]


def _chosen(request: Request, logits: tuple[float, ...]) -> Request:
    choices = request.prepared.choices
    labels = tuple(
        choice.text[1] if isinstance(choice.text, tuple) else f"choice {number}"
        for number, choice in enumerate(choices)
    )
    among = ChoiceTarget.of(labels, logits, request.target)
    return replace(request, prepared=choices[among.index], target=among)


def of_entities(model: nn.Module, processor: Any, requests: Sequence[Request]) -> list[Request]:
    """A request for the first token of each entity that the model finds, in the order of the texts.

    A word has the tag of its first piece; words in a row are one entity while their tags go on, as in transformers'
    pipeline.
    """
    if not has_head(model, "ForTokenClassification"):
        raise ChoiceError(
            f'position="{ENTITIES}" is for token classifiers, {type(model).__name__} is none; leave it out'
        )
    prepared = [request.prepared for request in requests]
    result = []
    for request, logits in zip(requests, answers_of(model, processor, prepared), strict=True):
        names = class_names(model, logits.shape[-1])
        tags = [names[index] for index in logits.argmax(-1).tolist()]
        result += [replace(request, position=place) for place in _starts(request.prepared, tags)]
    if not result:
        raise InputError(
            f"{type(model).__name__} finds no entity here; position=… explains the tag of one token, by its number"
        )
    return result


def _starts(prepared: PreparedInput, tags: Sequence[str]) -> Iterator[int]:
    before = _NO_ENTITY
    for word in prepared.words:
        tag = tags[word.positions[0]]
        goes_on = _sort(tag) == _sort(before) and not tag.startswith("B-")
        if tag != _NO_ENTITY and not goes_on:
            yield word.positions[0]
        before = tag


def _sort(tag: str) -> str:
    """
    >>> _sort("B-PER"), _sort("I-PER"), _sort("O")
    ('PER', 'PER', 'O')
    """
    return tag[2:] if tag[:2] in ("B-", "I-") else tag


def answers_of(model: nn.Module, processor: Any, prepared: Sequence[PreparedInput]) -> list[Tensor]:
    """The numbers of the model's head for each input, padding left out."""

    def numbers(row: int, output: Any, place: int) -> Tensor:
        answer = read(model, output)
        if answer is None:
            raise ChoiceError(f"{type(model).__name__} predicts nothing; load it with a head")
        kind, logits = answer
        tensor = logits[place, : len(prepared[row].positions)] if kind.per_position else logits[place]
        return tensor.detach().float().cpu()

    return map_outputs(model, processor, prepared, numbers)


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
    result = []
    baseline = int(getattr(model.config, "pad_token_id", 0) or 0)
    answers = answers_of(model, processor, [request.prepared for request in requests])
    for request, logits in zip(requests, answers, strict=True):
        letters = letters_of(logits, baseline)
        spans = tuple(Span(_name(processor, [letter]), tuple(range(letter.start, letter.end))) for letter in letters)
        prepared = replace(_with_words(processor, request.prepared, letters), spans=request.prepared.spans or spans)
        result += [
            replace(request, prepared=prepared, position=letter.surest, target=letter.token) for letter in letters
        ]
    if not result:
        raise InputError(f"{type(model).__name__} writes nothing for this sound; position=… explains one stretch of it")
    return result


def letters_of(logits: Tensor, baseline: int) -> list[Letter]:
    """The letters of position × token; `baseline` is the token that writes nothing."""
    best = logits.argmax(-1).tolist()
    starts = [
        place for place, token in enumerate(best) if token != baseline and (not place or best[place - 1] != token)
    ]
    letters = []
    for start, following in pairwise([*starts, len(best)]):
        token = best[start]
        index = next((place for place in range(start, following) if best[place] != token), following)
        surest = start + int(logits[start:index, token].argmax())
        letters.append(Letter(token, start, following, surest, index))
    return letters


def words_of(letters: Sequence[Letter], between: int) -> list[tuple[Letter, ...]]:
    """The letters of each word; `between` is the token that stands between two."""
    return [tuple(own) for apart, own in groupby(letters, lambda letter: letter.token == between) if not apart]


def _with_words(processor: Any, prepared: PreparedInput, letters: Sequence[Letter]) -> PreparedInput:
    """The same sound, whose words are those that were written, and the pauses around them."""
    between = getattr(_tokenizer(processor), "word_delimiter_token_id", None)
    if not isinstance(between, int) or not letters:
        return prepared
    texts = {(word[0].start, word[-1].silent): _name(processor, word) for word in words_of(letters, between)}
    edges = sorted({0, len(prepared.positions), *(edge for place in texts for edge in place)})
    words = tuple(
        Word(number, texts.get(place, PAUSE), tuple(range(*place))) for number, place in enumerate(pairwise(edges))
    )
    own = {place: word.index for word in words for place in word.positions}
    positions = Positions(replace(position, word=own[position.index]) for position in prepared.positions)
    return replace(prepared, positions=positions, words=words)


def _name(processor: Any, letters: Sequence[Letter]) -> str:
    """As the tokenizer calls them; by their numbers where there is none."""
    convert = getattr(_tokenizer(processor), "convert_ids_to_tokens", str)
    return "".join(str(convert(letter.token)) for letter in letters)


def _tokenizer(processor: Any) -> Any:
    return getattr(processor, "tokenizer", processor)


def of_every_token(requests: Sequence[Request], model: nn.Module, *, single: bool) -> list[Request]:
    """A request for each token of the output, and for the one that comes next."""
    if not single or not requests[0].prepared.is_encoder_decoder:
        raise ChoiceError(
            f"position={EVERY!r} explains each token that an encoder–decoder writes for one source; for "
            f"{type(model).__name__} here give a number, or use explain_generation"
        )
    (request,) = requests
    source, output = request.prepared.sequences.values()
    return [replace(request, position=source + place) for place in range(output)]


def of_output(request: Request) -> Request:
    """Of an encoder–decoder, inside its output, the token that was written there is what is explained."""
    prepared, position = request.prepared, request.position
    if not prepared.is_encoder_decoder or position is None or request.target is not None:
        return request
    source, output = prepared.sequences.values()
    place = check_position(position, source + output)
    if place < source:
        raise ChoiceError(
            f"position {position} is in the source, and only the output is predicted: give {source} (the start) to "
            f"{source + output - 1} (the last token so far, from which the next is predicted)"
        )
    if place == source + output - 1:
        return request
    return replace(request, target=int(prepared.inputs["decoder_input_ids"][place - source + 1]))
