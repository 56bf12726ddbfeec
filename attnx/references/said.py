"""What the model said of variants, kept while one call asks several questions.

Blank-out runs a text without each of its positions, and faithfulness begins there: what was run for one is read for the
other, as any number that its answer has.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TypeAlias

import torch
from torch import Tensor, nn

from attnx.answer.kind import AnswerKind
from attnx.answer.number import Score
from attnx.answer.score import as_rows
from attnx.answer.target import Target
from attnx.inputs.adapter import Prepared
from attnx.references.blank import Blank

_LARGEST = 4_096
"""Numbers of an answer that is kept; one over a vocabulary is not, for many would fill the memory."""

_Key: TypeAlias = tuple[nn.Module, Prepared, str, tuple[int, ...], int, str]


@dataclass(frozen=True, eq=False)
class KeptAnswers:
    """The answers of one model to variants of some inputs."""

    kept: dict[_Key, tuple[AnswerKind, Tensor]] = field(default_factory=dict)

    def keep(self, keys: Sequence[_Key], row: AnswerKind, answers: Tensor) -> None:
        """What was read for each of these targets, in their order."""
        if answers[0].numel() <= _LARGEST:
            self.kept.update(zip(keys, ((row, one.clone()) for one in answers.detach()), strict=True))

    def scores(self, model: nn.Module, keys: Sequence[_Key], targets: Sequence[Target], kind: Score) -> list[float]:
        """The number of each target, off the answers that are kept of these."""
        if not keys:
            return []
        row, first = self.kept[keys[0]]
        answers = torch.stack([self.kept[key][1] for key in keys])
        return list(row.score(model, answers, as_rows(targets, first.device), kind).tolist())


_said: ContextVar[KeptAnswers | None] = ContextVar("said", default=None)


@contextmanager
def kept_answers() -> Iterator[None]:
    """Within this the model must stay as it is; what it said is forgotten behind it."""
    token = _said.set(KeptAnswers())
    try:
        yield
    finally:
        _said.reset(token)


def said_so_far() -> KeptAnswers | None:
    """None where nothing is kept."""
    return _said.get()


def key_of(
    model: nn.Module, prepared: Prepared, blank: Blank, places: tuple[int, ...], target: Target, answers: str
) -> _Key:
    return model, prepared, blank.name, places, target.position, answers
