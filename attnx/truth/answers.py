"""What the model itself answers: only an input that it gets right can tell what its answer hangs on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn

from attnx.answer.named import split
from attnx.answer.output import behind_source
from attnx.answer.registry import logits_of
from attnx.capturing.watch import unwrapped
from attnx.errors import ChoiceError
from attnx.explaining.seam import Request
from attnx.inputs.families import adapter_for
from attnx.running.answers import each_answer
from attnx.truth.suite import Known

_AT_ONCE = 64
"""Inputs that are asked together until enough of them are right."""
_PATIENCE = 20
"""Of inputs without end so many times as many as are wanted are tried."""


def answered_right(model: nn.Module, processor: Any, known: Iterator[Known], rows: int) -> tuple[list[Known], int]:
    """The first `rows` inputs that the model gets right, and how many it got wrong on the way."""
    right: list[Known] = []
    wrong = 0
    known = islice(known, _PATIENCE * rows)
    while len(right) < rows and (several := list(islice(known, min(_AT_ONCE, 2 * rows)))):
        for one, margin in zip(several, margins(model, processor, [each.request for each in several]), strict=True):
            if len(right) == rows:
                break
            if margin > 0:
                right.append(one)
            else:
                wrong += 1
    return right, wrong


def margins(model: nn.Module, processor: Any, requests: Sequence[Request]) -> list[float]:
    """By how much each target wins: over what it stands against, or over the best of all others."""
    model = unwrapped(model)
    adapter = adapter_for(model)

    def read(row: int, output: Any, place: int) -> float:
        logits = logits_of(model, output)
        if logits is None:
            raise ChoiceError(f"{type(model).__name__} predicts nothing, so nothing can be right; load a head")
        asked = requests[row]
        where = adapter.explained(model, processor, asked.prepared) if asked.position is None else asked.position
        seat = where - behind_source(output)
        return _margin(logits[place, seat] if logits.ndim == 3 else logits[place], asked.target)

    return each_answer(model, processor, [one.prepared for one in requests], read)


def check_labels(model: nn.Module, expected: Sequence[str], suite: str) -> list[str]:
    """The classes of the model, in the order of its logits; an error where it tells others apart."""
    names = getattr(model.config, "id2label", None) or {}
    found = [str(names[index]) for index in sorted(names)]
    if sorted(found) != sorted(expected):
        raise ChoiceError(
            f"suite {suite!r} asks a model that tells {', '.join(expected)} apart, found {', '.join(found) or 'none'}; "
            "give one that was trained on its task"
        )
    return found


def token_of_each(tokenizer: Any, words: Sequence[str], suite: str) -> dict[str, int]:
    """Each word with its token; an error where the tokenizer has not one for it."""
    found = {word: tokenizer.convert_tokens_to_ids(word) for word in words}
    strange = [word for word, token in found.items() if token in (None, getattr(tokenizer, "unk_token_id", None))]
    if strange:
        raise ChoiceError(
            f"suite {suite!r} asks a model that knows words such as {strange[0]}, and this tokenizer does not; give "
            f"one that was trained on its task (attnx train {suite})"
        )
    return found


def _margin(logits: Tensor, target: Any) -> float:
    wanted, rival = split(target)
    if rival is not None:
        return float(logits[wanted] - logits[rival])
    others = logits.clone()
    others[wanted] = -torch.inf
    return float(logits[wanted] - others.max())
