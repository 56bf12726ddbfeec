"""A model's answer as one number for each input: what references differentiate and measure."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import signature
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, nn

from attnx.answer.prediction import exclusive, logits_of, probabilities
from attnx.answer.target import Target
from attnx.errors import ChoiceError, InputError
from attnx.inputs.model_facts import without_cache
from attnx.registry import unknown

Score: TypeAlias = Literal["logit", "margin", "probability", "log_odds"]
SCORES: tuple[Score, ...] = ("logit", "margin", "probability", "log_odds")

_NOTHING = -1


def score(
    model: nn.Module, inputs: dict[str, Tensor], targets: Tensor, kind: Score, rows: Tensor | None = None
) -> Tensor:
    """Run a batch and read one number for each target: its logit, margin, probability or log-odds.

    `targets` is what `as_rows` made of them: one for each input, or as many as `rows` names the inputs of. A target
    against another is the difference of the two. The margin is the logit above the mean of all others, or above the
    one that it stands against.
    """
    position = targets[:, 1]
    kept: Tensor = position.unique()  # type: ignore[no-untyped-call]
    few = {"logits_to_keep": kept} if answers_where_told(model) else {}
    output = model(**{**without_cache(model, inputs), **few})
    return _of_kind(model, _answer(model, output, kept if few else None, position, rows), targets, kind)


def score_of(model: nn.Module, output: Any, row: int, seat: int, target: Target, kind: Score) -> Tensor:
    """The same number of one input, read off the output of a run: `row` in its batch, `seat` among its answers."""
    logits = logits_of(model, output)
    if logits is None:
        raise InputError(f"{type(model).__name__} predicts nothing; load it with a head")
    own = logits[row] if logits.ndim == 2 else logits[row, seat]
    return _of_kind(model, own[None], as_rows([target], own.device), kind)[0]


def _of_kind(model: nn.Module, logits: Tensor, targets: Tensor, kind: Score) -> Tensor:
    index, _, against = targets.unbind(1)
    if kind == "margin":
        return _margin(model, logits, index, against)
    wanted = _values(model, logits, kind, index)
    other = _values(model, logits, kind, against.clamp_min(0))
    return wanted - torch.where(against == _NOTHING, 0.0, other)


def as_rows(targets: Sequence[Target], device: torch.device | None = None) -> Tensor:
    """Targets as an input × 3 tensor, so that they can travel with the batch."""
    rows = [(one.index, one.position, _NOTHING if one.against is None else one.against) for one in targets]
    return torch.tensor(rows, dtype=torch.long, device=device)


def check_score(kind: str | None, model: nn.Module, default: Score) -> Score:
    """The kind of number asked for; by default a value without a probability is taken as it is."""
    if kind is None:
        regression = getattr(model.config, "problem_type", None) == "regression"
        return "logit" if regression else default
    if kind not in SCORES:
        raise ChoiceError(unknown("score", kind, SCORES))
    return kind


def answers_where_told(model: nn.Module) -> bool:
    """Whether the model can leave its logits out but at some positions, the same ones in all inputs of a batch.

    Inputs of different length are therefore kept apart: each length would add its last position to all.
    """
    return "logits_to_keep" in signature(model.forward).parameters


def first_answer(model: nn.Module, inputs: dict[str, Tensor], length: int) -> list[Tensor]:
    """What the model says of the first input of a batch, which has so many positions: it must not hang on padding."""
    logits = logits_of(model, model(**inputs))
    return [] if logits is None else [logits[0] if logits.ndim == 2 else logits[0, :length]]


def _answer(model: nn.Module, output: Any, kept: Tensor | None, position: Tensor, rows: Tensor | None) -> Tensor:
    """target × class: of models that answer at every position, the answer at the target's."""
    logits = logits_of(model, output)
    if logits is None:
        raise InputError(f"{type(model).__name__} predicts nothing; load it with a head")
    of = torch.arange(len(logits), device=logits.device) if rows is None else rows
    if logits.ndim == 2:
        return logits if rows is None else logits[of]
    column = position if kept is None else torch.searchsorted(kept, position.contiguous())
    return logits[of, column]


def _margin(model: nn.Module, logits: Tensor, index: Tensor, against: Tensor) -> Tensor:
    """Logits that share a constant say nothing by it, so it is taken out; labels that may all be true share none."""
    logits = _wide(logits)
    chosen = logits.gather(1, index[:, None])[:, 0]
    rival = logits.gather(1, against.clamp_min(0)[:, None])[:, 0]
    others = (logits.sum(1) - chosen) / (logits.shape[1] - 1) if exclusive(model, logits) else 0 * chosen
    return chosen - torch.where(against == _NOTHING, others, rival)


def _values(model: nn.Module, logits: Tensor, kind: Score, index: Tensor) -> Tensor:
    """The number of class `index` of each row."""
    column, logits = index[:, None], _wide(logits)
    chosen = logits.gather(1, column)[:, 0]
    if kind == "logit":
        return chosen
    if kind == "probability":
        return probabilities(model, logits).gather(1, column)[:, 0]
    if not exclusive(model, logits):
        return chosen
    # Against the sum of all others, not log(p / (1 − p)): a confident model's p rounds to 1.
    return chosen - logits.scatter(1, column, -torch.inf).logsumexp(1)


def _wide(logits: Tensor) -> Tensor:
    return logits if logits.dtype == torch.float64 else logits.float()
