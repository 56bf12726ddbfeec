"""What the model itself answers: only an input that it gets right can tell what its answer hangs on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn

from attnx.answer.named import split
from attnx.answer.prediction import logits_of
from attnx.capturing.watch import undisturbed, unwrapped
from attnx.errors import ChoiceError
from attnx.explaining.seam import Request
from attnx.inputs.families import adapter_for
from attnx.references.case import first_answers
from attnx.running.batches import collate, in_batches, padding_id, positions_at_once
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
    adapter, pad_id = adapter_for(model), padding_id(model, processor)
    prepared = [one.prepared for one in requests]
    found: dict[int, float] = {}
    with undisturbed(model):
        for rows, output in in_batches(
            model,
            prepared,
            lambda several: model(**collate(model, several, pad_id)),
            first=partial(first_answers, model, pad_id),
            pad_id=pad_id,
            at_most=positions_at_once(model, all_answers=True),
        ):
            logits = logits_of(model, output)
            if logits is None:
                raise ChoiceError(f"{type(model).__name__} predicts nothing, so nothing can be right; load a head")
            for place, row in enumerate(rows):
                asked = requests[row]
                where = asked.position
                where = adapter.explained(model, processor, asked.prepared) if where is None else where
                found[row] = _margin(logits[place, where] if logits.ndim == 3 else logits[place], asked.target)
    return [found[row] for row in range(len(requests))]


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


def _margin(logits: Tensor, target: Any) -> float:
    wanted, rival = split(target)
    if rival is not None:
        return float(logits[wanted] - logits[rival])
    others = logits.clone()
    others[wanted] = -torch.inf
    return float(logits[wanted] - others.max())
