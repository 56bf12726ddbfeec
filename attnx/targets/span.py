"""An answer that stands in the text: question answering by where it starts and where it ends.

A span from s to e scores start[s] + end[e]. One position of the context is the start and one the end, so its
probability is the product of two, as transformers' pipeline has it. Spans are numbered through the triangle of all
s ≤ e, which does not depend on the length of the text: (0, 0), (0, 1), (1, 1), (0, 2), …
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from attnx.adapters import Positions, has_head
from attnx.errors import ChoiceError, whole_number
from attnx.targets.base import NOTHING, HeadKind, HeadOutput, Prediction, Score, Target, shifted_index, split, wide

LONGEST = 15
"""Tokens of an answer that the model gives by itself, as in transformers' pipeline; a caller may name longer ones."""

_SPANS_KEPT = 5

Span = tuple[int, int]
"""Its first and its last position."""


def span_number(start: int, end: int) -> int:
    """
    >>> [span_number(*span) for span in [(0, 0), (0, 1), (1, 1), (0, 2)]]
    [0, 1, 2, 3]
    """
    return end * (end + 1) // 2 + start


def span_of(number: int) -> Span:
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
    positions = torch.arange(logits.shape[1], device=logits.device)
    possible = (positions >= targets[:, 3:4]) & (positions < targets[:, 4:5])
    result = _number(logits, targets[:, 0], possible, kind)
    alone = against == NOTHING
    if bool(alone.all()):
        return result
    if kind == "margin":
        result = torch.where(alone, result, _number(logits, targets[:, 0], possible, "logit"))
    rival = _number(logits, against.clamp_min(0), possible, "logit" if kind == "margin" else kind)
    return result - torch.where(alone, 0.0, rival)


def _number(logits: Tensor, numbers: Tensor, possible: Tensor, kind: Score) -> Tensor:
    start, end = (_End(logits[..., side], index, possible) for side, index in enumerate(_spans(numbers)))
    if kind == "logit":
        return start.chosen + end.chosen
    if kind == "margin":
        return start.margin + end.margin
    log_probability = start.log_share + end.log_share
    if kind == "probability":
        return log_probability.exp()
    # 1 − p·q = (1 − p) + p·(1 − q): not by p·q itself, which rounds to 1.
    return log_probability - torch.logaddexp(start.log_rest, start.log_share + end.log_rest)


class _End:
    """One end of a span: the logits of where it may be, and of where it is."""

    def __init__(self, logits: Tensor, index: Tensor, possible: Tensor) -> None:
        column = index[:, None]
        self.chosen = logits.gather(1, column)[:, 0]
        self.others = possible.scatter(1, column, False)
        self.logits = logits
        self.total = logits.masked_fill(~possible, -torch.inf).logsumexp(1)

    @property
    def margin(self) -> Tensor:
        """Above the mean of all other positions."""
        count = self.others.sum(1).clamp_min(1)
        return self.chosen - self.logits.masked_fill(~self.others, 0.0).sum(1) / count

    @property
    def log_share(self) -> Tensor:
        return self.chosen - self.total

    @property
    def log_rest(self) -> Tensor:
        return self.logits.masked_fill(~self.others, -torch.inf).logsumexp(1) - self.total


def _prediction(output: HeadOutput) -> Prediction:
    first, stop = 0, len(output.logits)
    if output.prepared is not None:  # an answer stands in the second text of a pair, or in a single one
        positions = output.prepared.positions
        context = [position.index for position in positions.named if position.segment == 1] or positions.content
        first, stop = context[0], context[-1] + 1
    target, other = split(output.target)
    best = _best(output.logits, first, stop)
    span = best[0] if target is None else _named(output, target, first, stop)
    rival = None if other is None else _named(output, other, first, stop)
    output.rival(span_number(*span), None if rival is None else span_number(*rival))

    def probability(span: Span) -> float:
        row = torch.tensor([[span_number(*span), 0, NOTHING, first, stop]], device=output.logits.device)
        return float(_score(output.model, output.logits[None], row, "probability"))

    return Prediction(
        "span",
        _text(output, span),
        span_number(*span),
        probability(span),
        tuple(_text(output, candidate) for candidate in best),
        tuple(float(output.logits[start, 0] + output.logits[end, 1]) for start, end in best),
        None if rival is None else _text(output, rival),
        None if rival is None else span_number(*rival),
        span,
        (float(first), float(stop)),
        None if span == best[0] else probability(best[0]),
    )


def _best(logits: Tensor, first: int, stop: int) -> list[Span]:
    """The best spans of at most `LONGEST` tokens."""
    start, end = logits[first:stop, 0], logits[first:stop, 1]
    spans = []
    for more in range(min(LONGEST, stop - first)):
        sums = start[: len(start) - more] + end[more:]
        top = sums.topk(min(_SPANS_KEPT, len(sums)))
        pairs = zip(top.values.tolist(), top.indices.tolist(), strict=True)
        spans += [(value, first + index, first + index + more) for value, index in pairs]
    return [(begin, last) for _, begin, last in sorted(spans, key=lambda span: -span[0])[:_SPANS_KEPT]]


def _named(output: HeadOutput, name: Any, first: int, stop: int) -> Span:
    """The span that a caller names by its text, by a slice of positions, or by its number."""
    if isinstance(name, str):
        return _quoted(output, name, first, stop)
    if isinstance(name, slice):
        start, behind, _ = name.indices(len(output.logits))
        span = start, behind - 1
    else:
        span = span_of(whole_number("target", name)) if name is not None and int(name) >= 0 else (-1, -1)
    if not first <= span[0] <= span[1] < stop:
        raise ChoiceError(
            f"target {name!r} is no span of the context, which has positions {first} to {stop - 1}; give the words "
            "of an answer, or slice(first, last + 1) of positions"
        )
    return span


def _quoted(output: HeadOutput, name: str, first: int, stop: int) -> Span:
    """The best of all occurrences of these words."""
    text, positions = _context(output, first, stop)
    if text is None:
        raise ChoiceError(
            f"target {name!r} is a text, but this input came as tokens; give slice(first, last + 1) of positions"
        )
    spans, begin = [], text.find(name)
    while name and begin >= 0:
        inside = positions.overlapping(begin, begin + len(name))
        spans += [(inside[0], inside[-1])] if inside else []
        begin = text.find(name, begin + 1)
    if not spans:
        raise ChoiceError(f"target {name!r} does not stand in the context; the answer is some words of it, verbatim")
    return max(spans, key=lambda span: float(output.logits[span[0], 0] + output.logits[span[1], 1]))


def _context(output: HeadOutput, first: int, stop: int) -> tuple[str | None, Positions]:
    """The text in which answers stand, and its positions."""
    if output.prepared is None or output.prepared.text is None:
        return None, Positions()
    text = output.prepared.text
    return text if isinstance(text, str) else text[1], output.prepared.positions[first:stop]


def _text(output: HeadOutput, span: Span) -> str:
    """The words of a span, as they stand in the text."""
    text, positions = _context(output, span[0], span[1] + 1)
    ends = [position for position in positions if position.start is not None and position.end is not None]
    if text is not None and ends:
        return text[ends[0].start : ends[-1].end].strip()
    if output.prepared is None:
        return f"positions {span[0]} to {span[1]}"
    return str(output.processor.decode(output.prepared.inputs["input_ids"][span[0] : span[1] + 1]))


def _moved(target: Target, gone: Sequence[int]) -> Target:
    """The same span when some positions are gone; where an end is gone itself, the position before it."""

    def number(index: int) -> int:
        return span_number(*(shifted_index(end, gone) for end in span_of(index)))

    return replace(
        target,
        index=number(target.index),
        against=None if target.against is None else number(target.against),
        position=shifted_index(target.position, gone),
        beside=tuple(edge - sum(index < edge for index in gone) for edge in target.beside),
    )


def _notes(output: HeadOutput, prediction: Prediction) -> tuple[str, ...]:
    if prediction.span is None or prediction.span[0] == prediction.span[1]:
        return ()
    return (
        "the answer is read where it starts and where it ends: raw attention, rollout and flow show the view of its "
        "start (another position can be chosen), and what knows the answer explains the score of both",
    )


SPAN = HeadKind("span", logits=_logits, prediction=_prediction, score=_score, moved=_moved, notes=_notes)
