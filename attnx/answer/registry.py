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
from attnx.answer.kinds.span import SPAN
from attnx.registry import Registry

ANSWERS: Registry[AnswerKind] = Registry("answer", row=AnswerKind)
_BUILT_IN = (SPAN, CHOICE, NEXT_SENTENCE, TAG, TOKEN, VALUE, LABEL, CLASS)
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
