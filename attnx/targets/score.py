"""Run a model and read its prediction, and the score of a target, off its output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from attnx.adapters import PreparedInput, called, takes_logits_to_keep
from attnx.errors import CaptureError, ChoiceError, InputError
from attnx.registry import Registry, unknown
from attnx.targets.base import NOTHING, SCORES, HeadKind, HeadOutput, Prediction, Score, Target, encoder_offset
from attnx.targets.heads import CHOICE, CLASS, LABEL, NEXT_SENTENCE, SIMILARITY, TAG, TOKEN, VALUE
from attnx.targets.span import SPAN

HEAD_KINDS: Registry[HeadKind] = Registry("answer", row=HeadKind)
_BUILT_IN = (SPAN, CHOICE, NEXT_SENTENCE, TAG, TOKEN, VALUE, LABEL, CLASS, SIMILARITY)
for _row in _BUILT_IN:
    HEAD_KINDS.add(_row.name, _row)


def head_kinds() -> tuple[HeadKind, ...]:
    """The rows that may read a model's output, in the order in which they are tried: plug-ins first."""
    built_in = {row.name for row in _BUILT_IN}
    return tuple(HEAD_KINDS[name] for name in sorted(HEAD_KINDS, key=lambda name: name in built_in))


def read(model: nn.Module, output: Any, kind: str = "") -> tuple[HeadKind, Tensor] | None:
    """The row that reads the output, or the one that is named, and its numbers; None where there is no head."""
    for row in (HEAD_KINDS[kind],) if kind else head_kinds():
        if kind or not row.requires_target:
            logits = row.logits(model, output)
            if logits is not None:
                return row, logits
    return None


def head_logits(model: nn.Module, output: Any) -> Tensor | None:
    """The numbers of the model's head, the batch first: what must be the same where the prediction must be."""
    head = read(model, output)
    return None if head is None else head[1]


def head_values(model: nn.Module, output: Any) -> Tensor | None:
    """The same, and without a head what an embedding is made of: all that may be explained of an output."""
    logits = head_logits(model, output)
    if logits is not None:
        return logits
    others = (row.logits(model, output) for row in head_kinds() if row.requires_target)
    return next((other for other in others if other is not None), None)


def score(
    model: nn.Module,
    inputs: dict[str, Tensor],
    targets: Tensor,
    kind: Score,
    rows: Tensor | None = None,
    *,
    answers: str = "",
) -> Tensor:
    """Run a batch and read one number for each target: its logit, margin, probability or log-odds.

    `targets` is what `encode_targets` made of them: one for each input, or as many as `rows` names the inputs of.
    `answers` is the row of `HEAD_KINDS` that they name (see `kind_of`). A target against another is the difference of
    the two. The margin is the logit above the mean of all others, or above the one that it is compared with.
    """
    row, logits = answered(model, inputs, targets, rows, answers=answers)
    return row.score(model, logits, targets, kind)


def answered(
    model: nn.Module, inputs: dict[str, Tensor], targets: Tensor, rows: Tensor | None = None, *, answers: str = ""
) -> tuple[HeadKind, Tensor]:
    """Run a batch: the row of `HEAD_KINDS` that reads it, and for each target what it is read off."""
    row, logits, index = _run(model, inputs, targets, answers)
    batch = torch.arange(len(logits), device=logits.device) if rows is None else rows
    if index is not None:
        logits = logits[batch, index]
    elif rows is not None:
        logits = logits[batch]
    return row, logits


def score_each(
    model: nn.Module, inputs: dict[str, Tensor], targets: Tensor, kind: Score, *, answers: str = ""
) -> tuple[Tensor, ...]:
    """The scores of several targets of one input, each with a backward pass of its own."""
    row, logits, index = _run(model, inputs, targets, answers)
    indices = [0] * len(targets) if index is None else index.tolist()
    tensor = logits if index is None else logits.flatten(0, 1)
    return tuple(
        row.score(model, tensor[index][None], target, kind)
        for index, target in zip(indices, torch.split(targets, 1), strict=True)
    )


def _run(
    model: nn.Module, inputs: dict[str, Tensor], targets: Tensor, answers: str
) -> tuple[HeadKind, Tensor, Tensor | None]:
    """Run a batch: what reads it, what is read, and the index in it of each target; None where it has no positions."""
    position = targets[:, 1].long()
    kept: Tensor = position.unique()  # type: ignore[no-untyped-call]
    few = {"logits_to_keep": kept} if takes_logits_to_keep(model) else {}
    output = called(model, {**inputs, **few})
    row, logits = _head(model, output, answers)
    if not row.per_position:
        return row, logits, None
    return row, logits, torch.searchsorted(kept, position.contiguous()) if few else position - encoder_offset(output)


def score_output(model: nn.Module, output: Any, row: int, position: int, target: Target, kind: Score) -> Tensor:
    """The same number of one input, read off the output of a run: `row` in its batch, at this position."""
    head, logits = _head(model, output, target.kind)
    tensor = logits[row, position - encoder_offset(output)] if head.per_position else logits[row]
    return head.score(model, tensor[None], encode_targets([target], tensor.device), kind)[0]


def encode_targets(targets: Sequence[Target], device: torch.device | None = None) -> Tensor:
    """Targets as one tensor, so that they can travel with the batch: index, position, what each is compared with, and
    what their row needs besides.
    """
    rows = [
        (target.index, target.position, NOTHING if target.against is None else target.against, *target.beside)
        for target in targets
    ]
    # All numbers are exact in double precision, which Apple's graphics chips do not have.
    exact = torch.float32 if device is not None and device.type == "mps" else torch.float64
    return torch.tensor(rows, dtype=exact, device=device)


def kind_of(targets: Sequence[Target]) -> str:
    """The row of `HEAD_KINDS` that scores these targets, which must be one; "" for the one that reads the output."""
    kinds = {target.kind for target in targets}
    if len(kinds) > 1:
        raise InputError(f"targets of different kinds ({', '.join(sorted(kinds))}) cannot be scored together")
    return next(iter(kinds), "")


def check_score(kind: str | None, model: nn.Module, default: Score, answers: str = "") -> Score:
    """The requested kind of number; by default a value without a probability is taken as it is."""
    rows = (HEAD_KINDS[answers],) if answers in HEAD_KINDS else head_kinds()
    known = next((row for row in rows if row.recognized_by(model)), rows[0] if answers else None)
    offered = SCORES if known is None else known.scores
    if kind is None:
        return default if default in offered else offered[0]
    if kind not in (*SCORES, *offered):
        raise ChoiceError(unknown("score", kind, offered))
    if kind not in offered:
        raise ChoiceError(f"{type(model).__name__} predicts a value, which has no {kind}; use its {offered[0]}")
    return kind


def first_output(model: nn.Module, inputs: dict[str, Tensor], length: int) -> list[Tensor]:
    """The output for the first input of a batch, which has so many positions: it must not depend on padding."""
    logits = head_values(model, called(model, inputs))
    return [] if logits is None else [logits[0] if logits.ndim == 2 else logits[0, :length]]


def _head(model: nn.Module, output: Any, kind: str) -> tuple[HeadKind, Tensor]:
    head = read(model, output, kind)
    if head is None:
        raise InputError(f"{type(model).__name__} predicts nothing; load it with a head")
    return head


def predict(
    model: nn.Module,
    processor: Any,
    output: Any,
    row: int,
    position: int,
    target: Any = None,
    prepared: PreparedInput | None = None,
) -> Prediction | None:
    """Read the prediction for input `row` of a batch off the model's output; None when the model has no such head.

    With a `target` the prediction is about that part of the output instead of the best one; of a pair, about the first
    against the second.
    """
    head = read(model, output, getattr(target, "kind", ""))
    if head is None:
        if target is not None:
            raise ChoiceError(
                f"target {target!r} was requested, but {type(model).__name__} has no head that predicts; load one that "
                "has"
            )
        return None
    kind, logits = head
    tensor = (logits[row, position - encoder_offset(output)] if kind.per_position else logits[row]).detach().float()
    if not bool(tensor.isfinite().all()):
        raise CaptureError(
            f"{type(model).__name__} predicts NaN or infinity: its weights are damaged, or half precision overflows; "
            "check the checkpoint, or use model.float()"
        )
    return kind.prediction(HeadOutput(model, getattr(processor, "tokenizer", processor), tensor, target, prepared))


def prediction_notes(model: nn.Module, processor: Any, prediction: Prediction | None, target: Any) -> tuple[str, ...]:
    """What the user should know of what is explained of the output."""
    if prediction is None or prediction.kind not in HEAD_KINDS:
        return ()
    tokenizer = getattr(processor, "tokenizer", processor)
    return HEAD_KINDS[prediction.kind].notes(HeadOutput(model, tokenizer, torch.empty(0), target), prediction)
