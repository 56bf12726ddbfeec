"""Run a model on prepared inputs, short ones together and long ones alone, and hand out what was seen of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor, nn

from attnx.attention.rows import MERGERS
from attnx.attention.tensor import AttentionTensor
from attnx.capturing.capture import Captured, capture_batch
from attnx.capturing.entering import Entry
from attnx.capturing.frozen.run import can_be_gone_back
from attnx.capturing.untouched import switched
from attnx.errors import ChoiceError
from attnx.graph.asked import Head
from attnx.inputs.adapter import Adapter, Prepared
from attnx.inputs.streams import followed_kind
from attnx.running.batches import POSITIONS_AT_ONCE, collate, in_batches, padding_id, positions_at_once
from attnx.running.entries import with_entry
from attnx.running.plan import Plan


@dataclass(frozen=True, eq=False)
class Observation:
    """One input as the model took it."""

    attention: AttentionTensor
    output: Any
    """What the model returned for the whole batch."""
    row: int
    """The input's place in the batch."""
    answered: tuple[int, ...] | None = None
    """Positions at which a language model answered; None for all."""
    mixers: tuple[str, ...] = ()
    """Modules that mix positions beside attention, in its own layers."""

    def seat(self, position: int) -> int:
        """Where among the answers of the output the one at `position` is."""
        return position if self.answered is None else self.answered.index(position)


def observe(
    model: nn.Module,
    adapter: Adapter,
    processor: Any,
    prepared: Sequence[Prepared],
    plans: Sequence[Plan],
    *,
    head: Head | None = None,
    batch_size: int | None,
    answer_at: Callable[[int], Sequence[int]],
) -> Iterator[tuple[int, Observation]]:
    """The number of each input and its observation, batch by batch: not in the order of the inputs.

    A long input is run by itself, for nothing is gained by padding others to it, and a language model is asked for its
    answers only at the positions that `answer_at` names for the number of the input. Heads are merged as they arrive
    unless single ones are asked for, or a weighting must see them. Where a weighting is about the answer, inputs run
    one by one, and the output can be followed back (see `answer_gradient`).
    """
    pad_id = padding_id(model, processor)
    weightings = [method.edges for one in plans for method in one.methods]
    how: dict[str, Any] = {"extras": tuple(sorted({need for row in weightings for need in row.needs}))}
    if all(row.merges_first for row in weightings):
        how["head"] = "mean" if head is None else head if head in MERGERS else None
    way_back = any(row.about_answer for row in weightings) and can_be_gone_back(model)
    if way_back and any(one.joined for one in prepared):
        raise ChoiceError(
            "edges that know the answer are defined for one stack, and a picture with a text has two; use alti, or "
            "references=('value_path',)"
        )
    numbers = {id(one): number for number, one in enumerate(prepared)}

    def run(chosen: Sequence[Prepared], **options: Any) -> Captured:
        places = sorted({place for one in chosen for place in answer_at(numbers[id(one)])})
        # What is made in inference mode could not be kept for the way back.
        with switched(gradients=True) if way_back else nullcontext():
            inputs, entry = _inputs(model, adapter, chosen, pad_id, way_back=way_back)
            part = "" if followed_kind(adapter) else adapter.within
            return capture_batch(model, inputs, within=part, entry=entry, answer_at=places, **how, **options)

    short = [index for index, one in enumerate(plans) if one.held]
    for places, captured in in_batches(
        model,
        [prepared[index] for index in short],
        run,
        pad_id=pad_id,
        first=lambda chosen: _of_the_first(run(chosen)),
        size=1 if way_back or any(prepared[index].joined for index in short) else batch_size,
        at_most=min(POSITIONS_AT_ONCE, positions_at_once(model)),
    ):
        for row, place in enumerate(places):
            yield short[place], _observation(captured, row, adapter)
    for index in (index for index, one in enumerate(plans) if not one.held):
        yield index, _observation(run([prepared[index]], held=False, anew=True), 0, adapter)


def _observation(captured: Captured, row: int, adapter: Adapter) -> Observation:
    attention = captured.attention[row]
    if kind := followed_kind(adapter):  # over the positions of both streams, without what other levels mix
        attention = replace(attention, levels=tuple(one for one in attention.levels if one.kind == kind))
    return Observation(attention, captured.output, row, captured.answered, captured.mixers)


def _inputs(
    model: nn.Module, adapter: Adapter, chosen: Sequence[Prepared], pad_id: int | None, *, way_back: bool
) -> tuple[dict[str, Any], Entry | None]:
    """The model's keyword arguments, and where a way back ends."""
    inputs = collate(model, chosen, pad_id)
    return with_entry(adapter, model, inputs) if way_back else (inputs, None)


def _of_the_first(captured: Captured) -> list[Tensor]:
    """What padding must not change: the first input's attention, and what a classifier says of it."""
    logits = getattr(captured.output, "logits", None)
    classes = [logits[0]] if isinstance(logits, Tensor) and logits.ndim == 2 else []
    return [captured.attention[0].weights, *classes]
