"""The kinds of heads by name, the particular before the general: the first that finds its numbers reads the answer.

A plug-in adds its own by `ANSWERS.add(row.name, row)`, or by an entry point of the group `attnx.answers`; rows of
plug-ins are asked first.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from attnx.answer.kind import AnswerKind
from attnx.answer.kinds.at_positions import TAG, TOKEN
from attnx.answer.kinds.choice import CHOICE
from attnx.answer.kinds.classes import CLASS, LABEL, VALUE
from attnx.answer.kinds.next_sentence import NEXT_SENTENCE
from attnx.answer.kinds.similarity import SIMILARITY
from attnx.answer.kinds.span import SPAN
from attnx.registry import Registry

ANSWERS: Registry[AnswerKind] = Registry("answer", row=AnswerKind)
_BUILT_IN = (SPAN, CHOICE, NEXT_SENTENCE, TAG, TOKEN, VALUE, LABEL, CLASS, SIMILARITY)
for _row in _BUILT_IN:
    ANSWERS.add(_row.name, _row)


def answer_kinds() -> tuple[AnswerKind, ...]:
    """The rows by which a model may answer, in the order in which they are asked."""
    own = {row.name for row in _BUILT_IN}
    names = [*(name for name in ANSWERS if name not in own), *(name for name in ANSWERS if name in own)]
    return tuple(ANSWERS[name] for name in names)


def read(model: nn.Module, output: Any, kind: str = "") -> tuple[AnswerKind, Tensor] | None:
    """The row that reads the output, or the one that is named, and its numbers; None where there is no head."""
    for row in (ANSWERS[kind],) if kind else answer_kinds():
        if kind or not row.by_target:
            logits = row.logits(model, output)
            if logits is not None:
                return row, logits
    return None


def logits_of(model: nn.Module, output: Any) -> Tensor | None:
    """The numbers of the model's head, the batch first: what must be the same where the answer must be."""
    found = read(model, output)
    return None if found is None else found[1]


def numbers_of(model: nn.Module, output: Any) -> Tensor | None:
    """The same, and without a head what an embedding is made of: all that may be explained of an output."""
    found = read(model, output)
    if found is not None:
        return found[1]
    others = (row.logits(model, output) for row in answer_kinds() if row.by_target)
    return next((one for one in others if one is not None), None)
