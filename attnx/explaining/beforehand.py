"""What the model is asked before anything is explained: which choice it takes, which entities it finds.

What is explained then is an input, a position and a target like any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from attnx.answer.kinds.choice import AmongChoices
from attnx.answer.output import class_names
from attnx.answer.registry import read
from attnx.errors import ChoiceError, InputError
from attnx.explaining.names import ENTITIES
from attnx.explaining.seam import Request
from attnx.inputs.adapter import Prepared
from attnx.inputs.model_facts import has_head
from attnx.running.answers import each_answer

_NO_ENTITY = "O"
"""The tag of what belongs to none."""


def with_choices(model: nn.Module, processor: Any, requests: Sequence[Request]) -> list[Request]:
    """Of each question the choice that the model takes, or the one that was asked for."""
    every = [one for request in requests for one in request.prepared.choices]
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
        one.text[1] if isinstance(one.text, tuple) else f"choice {number}" for number, one in enumerate(choices)
    )
    among = AmongChoices.of(labels, logits, request.target)
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
    found = []
    for request, logits in zip(requests, answers_of(model, processor, prepared), strict=True):
        names = class_names(model, logits.shape[-1])
        tags = [names[index] for index in logits.argmax(-1).tolist()]
        found += [replace(request, position=place) for place in _starts(request.prepared, tags)]
    if not found:
        raise InputError(
            f"{type(model).__name__} finds no entity here; position=… explains the tag of one token, by its number"
        )
    return found


def _starts(prepared: Prepared, tags: Sequence[str]) -> Iterator[int]:
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


def answers_of(model: nn.Module, processor: Any, prepared: Sequence[Prepared]) -> list[Tensor]:
    """The numbers of the model's head for each input, padding left out."""

    def numbers(row: int, output: Any, place: int) -> Tensor:
        answer = read(model, output)
        if answer is None:
            raise ChoiceError(f"{type(model).__name__} predicts nothing; load it with a head")
        kind, logits = answer
        own = logits[place, : len(prepared[row].positions)] if kind.at_each else logits[place]
        return own.detach().float().cpu()

    return each_answer(model, processor, prepared, numbers)
