"""An answer that stands in the text: question answering by where it starts and where it ends.

A span from s to e scores start[s] + end[e]. One position of the context is the start and one the end, so its
probability is the product of two, as transformers' pipeline has it. Spans are counted through the triangle of all
s ≤ e, which does not depend on the length of the text: (0, 0), (0, 1), (1, 1), (0, 2), …
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from attnx.adapters import Position, has_head
from attnx.errors import ChoiceError, whole_number
from attnx.targets.base import NOTHING, HeadKind, HeadOutput, Score, Target, shifted_index, split, wide
from attnx.targets.prediction import Prediction

LONGEST = 15
"""Tokens of an answer that the model gives by itself, as in transformers' pipeline; a caller may name longer ones."""

_SPANS_KEPT = 5


def span_number(start: int, end: int) -> int:
    """
    >>> [span_number(*span) for span in [(0, 0), (0, 1), (1, 1), (0, 2)]]
    [0, 1, 2, 3]
    """
    return end * (end + 1) // 2 + start


def span_of(number: int) -> tuple[int, int]:
    """
    >>> [span_of(number) for number in range(4)]
    [(0, 0), (0, 1), (1, 1), (0, 2)]
    """
    start, end = _spans(torch.tensor([number]))
    return int(start), int(end)


def _spans(numbers: Tensor) -> tuple[Tensor, Tensor]:
    end = ((8 * numbers.double() + 1).sqrt() / 2 - 0.5).floor().long()
    return numbers.long() - end * (end + 1) // 2, end


def _logits(model: nn.Module, output: Any) -> Tensor | None:
    """batch × position × 2: how well an answer starts, and ends, at each position."""
    start, end = getattr(output, "start_logits", None), getattr(output, "end_logits", None)
    if start is None and isinstance(output, tuple) and has_head(model, "ForQuestionAnswering") and len(output) > 1:
        start, end = output[0], output[1]
    if not isinstance(start, Tensor) or not isinstance(end, Tensor) or not start.ndim == end.ndim == 2:
        return None
    return torch.stack((start, end), -1)


def _score(model: nn.Module, logits: Tensor, targets: Tensor, kind: Score) -> Tensor:
    """Of each row the target's number; columns 3 and 4 are the first position at which an answer may stand, and the
    one behind the last.
    """
    logits, against = wide(logits), targets[:, 2].long()
    places = torch.arange(logits.shape[1], device=logits.device)
    possible = (places >= targets[:, 3:4]) & (places < targets[:, 4:5])
    wanted = _number(logits, targets[:, 0], possible, kind)
    alone = against == NOTHING
    if bool(alone.all()):
        return wanted
    if kind == "margin":
        wanted = torch.where(alone, wanted, _number(logits, targets[:, 0], possible, "logit"))
    other = _number(logits, against.clamp_min(0), possible, "logit" if kind == "margin" else kind)
    return wanted - torch.where(alone, 0.0, other)


def _number(logits: Tensor, numbers: Tensor, possible: Tensor, kind: Score) -> Tensor:
    ends = [_End(logits[..., side], place, possible) for side, place in enumerate(_spans(numbers))]
    if kind == "logit":
        return ends[0].chosen + ends[1].chosen
    if kind == "margin":
        return ends[0].margin + ends[1].margin
    sure = ends[0].log_share + ends[1].log_share
    if kind == "probability":
        return sure.exp()
    # 1 − p·q = (1 − p) + p·(1 − q): not by p·q itself, which rounds to 1.
    return sure - torch.logaddexp(ends[0].log_rest, ends[0].log_share + ends[1].log_rest)


class _End:
    """One end of a span: the logits of where it may be, and of where it is."""

    def __init__(self, logits: Tensor, place: Tensor, possible: Tensor) -> None:
        self.logits, self.possible, column = logits, possible, place[:, None]
        self.chosen = logits.gather(1, column)[:, 0]
        self.others = possible.scatter(1, column, False)

    @property
    def margin(self) -> Tensor:
        """Above the mean of all other places."""
        count = self.others.sum(1).clamp_min(1)
        return self.chosen - self.logits.masked_fill(~self.others, 0.0).sum(1) / count

    @property
    def log_share(self) -> Tensor:
        return self.chosen - self.logits.masked_fill(~self.possible, -torch.inf).logsumexp(1)

    @property
    def log_rest(self) -> Tensor:
        whole = self.logits.masked_fill(~self.possible, -torch.inf).logsumexp(1)
        return self.logits.masked_fill(~self.others, -torch.inf).logsumexp(1) - whole


def _prediction(told: HeadOutput) -> Prediction:
    first, stop = _where(told)
    asked, other = split(told.target)
    best = _best(told.logits, first, stop)
    span = best[0] if asked is None else _named(told, asked, first, stop)
    rival = None if other is None else _named(told, other, first, stop)
    told.rival(span_number(*span), None if rival is None else span_number(*rival))

    def probability(of: tuple[int, int]) -> float:
        target = torch.tensor([[span_number(*of), 0, NOTHING, first, stop]], device=told.logits.device)
        return float(_score(told.model, told.logits[None], target, "probability"))

    values = [float(told.logits[start, 0] + told.logits[end, 1]) for start, end in best]
    return Prediction(
        "span",
        _written(told, span),
        span_number(*span),
        probability(span),
        tuple(_written(told, one) for one in best),
        tuple(values),
        None if rival is None else _written(told, rival),
        None if rival is None else span_number(*rival),
        span,
        (float(first), float(stop)),
        None if span == best[0] else probability(best[0]),
    )


def _where(told: HeadOutput) -> tuple[int, int]:
    """Where an answer may stand: in the second text of a pair, or in all of a single one."""
    if told.prepared is None:
        return 0, len(told.logits)
    positions = told.prepared.positions
    places = [position.index for position in positions.named if position.segment == 1] or positions.content
    return places[0], places[-1] + 1


def _best(logits: Tensor, first: int, stop: int) -> list[tuple[int, int]]:
    """The best spans of at most `LONGEST` tokens."""
    start, end = logits[first:stop, 0], logits[first:stop, 1]
    found = []
    for more in range(min(LONGEST, stop - first)):
        sums = start[: len(start) - more] + end[more:]
        top = sums.topk(min(_SPANS_KEPT, len(sums)))
        found += [
            (value, first + place, first + place + more)
            for value, place in zip(top.values.tolist(), top.indices.tolist(), strict=True)
        ]
    return [(one, last) for _, one, last in sorted(found, key=lambda one: -one[0])[:_SPANS_KEPT]]


def _named(told: HeadOutput, name: Any, first: int, stop: int) -> tuple[int, int]:
    """The span that a caller calls by its text, by a slice of positions, or by its number."""
    if isinstance(name, str):
        return _quoted(told, name, first, stop)
    if isinstance(name, slice):
        start, behind, _ = name.indices(len(told.logits))
        span = start, behind - 1
    else:
        span = span_of(whole_number("target", name)) if name is not None and int(name) >= 0 else (-1, -1)
    if not first <= span[0] <= span[1] < stop:
        raise ChoiceError(
            f"target {name!r} is no span of the context, which has positions {first} to {stop - 1}; give the words "
            "of an answer, or slice(first, last + 1) of positions"
        )
    return span


def _quoted(told: HeadOutput, name: str, first: int, stop: int) -> tuple[int, int]:
    """The best place at which these words stand."""
    text, positions = _context(told, first, stop)
    if text is None:
        raise ChoiceError(
            f"target {name!r} is a text, but this input came as tokens; give slice(first, last + 1) of positions"
        )
    found, begin = [], text.find(name)
    while name and begin >= 0:
        end = begin + len(name)
        inside = [
            p.index for p in positions if p.start is not None and p.end is not None and p.start < end and p.end > begin
        ]
        found += [(inside[0], inside[-1])] if inside else []
        begin = text.find(name, begin + 1)
    if not found:
        raise ChoiceError(f"target {name!r} does not stand in the context; the answer is some words of it, as written")
    return max(found, key=lambda span: float(told.logits[span[0], 0] + told.logits[span[1], 1]))


def _context(told: HeadOutput, first: int, stop: int) -> tuple[str | None, list[Position]]:
    """The text in which answers stand, and those of its positions that are known by their characters."""
    if told.prepared is None or told.prepared.text is None:
        return None, []
    positions = [
        position
        for position in told.prepared.positions[first:stop]
        if position.start is not None and position.end is not None
    ]
    text = told.prepared.text
    return text if isinstance(text, str) else text[1], positions


def _written(told: HeadOutput, span: tuple[int, int]) -> str:
    """The words of a span, as they stand in the text."""
    text, positions = _context(told, span[0], span[1] + 1)
    if text is not None and positions:
        return text[positions[0].start : positions[-1].end].strip()
    if told.prepared is None:
        return f"positions {span[0]} to {span[1]}"
    return str(told.processor.decode(told.prepared.inputs["input_ids"][span[0] : span[1] + 1]))


def _moved(target: Target, gone: Sequence[int]) -> Target:
    """The same span when some positions are gone; where an end is gone itself, the position before it."""

    def number(index: int) -> int:
        return span_number(*(shifted_index(place, gone) for place in span_of(index)))

    first, stop = (int(value) for value in target.beside)
    left = first - sum(one < first for one in gone), stop - sum(one < stop for one in gone)
    return replace(
        target,
        index=number(target.index),
        against=None if target.against is None else number(target.against),
        position=shifted_index(target.position, gone),
        beside=(float(left[0]), float(left[1])),
    )


def _notes(told: HeadOutput, prediction: Prediction) -> tuple[str, ...]:
    if prediction.span is None or prediction.span[0] == prediction.span[1]:
        return ()
    return (
        "the answer is read where it starts and where it ends: raw attention, rollout and flow show the view of its "
        "start (another position can be chosen), and what knows the answer explains the score of both",
    )


SPAN = HeadKind("span", logits=_logits, prediction=_prediction, score=_score, moved=_moved, notes=_notes)
