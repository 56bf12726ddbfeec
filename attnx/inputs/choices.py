"""Multiple choice: a text with several that may follow it, each an input of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from attnx.errors import InputError
from attnx.inputs.adapter import Prepared
from attnx.inputs.model_facts import has_head
from attnx.inputs.text import TokenisedRow, tokenised_rows


def takes_choices(model: nn.Module) -> bool:
    return has_head(model, "ForMultipleChoice")


def questions(given: Any) -> tuple[list[Any], bool]:
    """Every question with its choices, and whether the caller gave one and not a list.

    A question is (text, [choice, …]), or a tokenised one, choice × length; of several it is batch × choice × length.
    """
    if isinstance(given, Mapping):
        ids = torch.as_tensor(given.get("input_ids", ()))
        if ids.ndim != 3:
            return [tokenised_rows(given)], True
        batch = [{name: value[row] for name, value in given.items()} for row in range(len(ids))]
        return [tokenised_rows(one) for one in batch], len(batch) == 1
    if isinstance(given, list):
        if not given:
            raise InputError("the list of questions is empty: give at least one, (text, [choice, …])")
        return [item for one in given for item in questions(one)[0]], False
    return [given], True


def prepare_choices(prepare: Callable[[Any], Prepared], question: Any) -> Prepared:
    """The first choice, with all of them as its `choices`."""
    rows = isinstance(question, list) and all(isinstance(one, TokenisedRow) for one in question)
    pair = isinstance(question, tuple) and len(question) == 2
    if not rows and not (pair and isinstance(question[0], str) and isinstance(question[1], (list, tuple))):
        raise InputError(
            "a model of multiple choice reads a text and what may follow it; give (text, [choice, choice, …])"
        )
    several = question if rows else [(question[0], one) for one in question[1]]
    if len(several) < 2:
        raise InputError(f"{len(several)} choices are nothing to choose from; give at least two: (text, [choice, …])")
    choices = tuple(prepare(one) for one in several)
    return replace(choices[0], choices=choices)
