"""Tables 1 and 2, and the subject check, over many trainings: each model's table, side by side.

Rows beyond the paper's are the methods that are about the answer, which it did not have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from torch import nn

from attnx.errors import InputError
from attnx.methods.registry import PAPER_METHODS
from attnx.reproduce.explained import answer_aware
from attnx.reproduce.sentences import Sentences
from attnx.reproduce.subject import subject
from attnx.results.table import Table
from attnx.results.trainings import SubjectTrainings, Trainings, check_alike


@dataclass(frozen=True, eq=False)
class Trained:
    """A model of the table, and the sentences that it is measured on."""

    name: str
    recipe: str
    model: nn.Module
    tokenizer: Any
    sentences: Sentences


def over_trainings(measure: Callable[..., Table], models: Iterable[Trained], **options: Any) -> Trainings:
    """The table that `measure` (`table1`, `table2`) makes of each model, with its options. One model is held at a time
    where they come one by one."""
    return Trainings(*_measured(measure, models, options))


def subject_over_trainings(models: Iterable[Trained], **options: Any) -> SubjectTrainings:
    """The subject check of each model."""
    return SubjectTrainings(*_measured(subject, models, options))


def _measured(
    measure: Callable[..., Any], models: Iterable[Trained], options: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, str], bool]:
    methods = (*PAPER_METHODS, *answer_aware())
    tables: dict[str, Any] = {}
    recipes: dict[str, str] = {}
    met: set[tuple[str, ...]] = set()
    for one in models:
        if one.name in tables:
            raise InputError(f"two models are called {one.name}; rename the folder of one")
        own = options if options.get("output") is None else {**options, "output": f"{options['output']}/{one.name}"}
        tables[one.name] = measure(one.model, one.tokenizer, one.sentences, methods=methods, **own)
        check_alike(tables)
        recipes[one.name] = one.recipe
        met.add(tuple(beginning.text for beginning in one.sentences.beginnings))
    return tables, recipes, len(met) == 1
