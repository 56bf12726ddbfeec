"""Run a model on prepared inputs, short ones together and long ones alone, and hand out what was seen of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from torch import Tensor, nn

from attnx.adapters import Adapter, Prepared
from attnx.adapters.batch import collate, padding_id
from attnx.attention import AttentionTensor
from attnx.batching import batches, takes_padding
from attnx.capture import Captured, LongCaptured, capture_batch, capture_long_batch
from attnx.errors import AttnxError, CaptureError
from attnx.long_attention import LongAttention
from attnx.long_inputs import Road
from attnx.methods.choices import Head

Attention: TypeAlias = AttentionTensor | LongAttention

_C = TypeVar("_C", Captured, LongCaptured)


@dataclass(frozen=True, eq=False)
class Observation:
    """One input as the model took it."""

    attention: Attention
    output: Any
    """What the model returned for the whole batch."""
    row: int
    """The input's place in the batch."""
    answered: tuple[int, ...] | None = None
    """Positions at which a language model answered; None for all."""

    def seat(self, position: int) -> int:
        """Where among the answers of the output the one at `position` is."""
        return position if self.answered is None else self.answered.index(position)


def observe(
    model: nn.Module,
    adapter: Adapter,
    processor: Any,
    prepared: Sequence[Prepared],
    roads: Sequence[Road],
    *,
    head: Head | None,
    batch_size: int,
    answer_at: Callable[[Prepared], Sequence[int]],
) -> Iterator[tuple[int, Observation]]:
    """The number of each input and its observation, batch by batch: not in the order of the inputs.

    A long input is run by itself, for nothing is gained by padding others to it, and a language model is asked for its
    answers `answer_at` some positions only.
    """
    pad_id = padding_id(model, processor)
    short = [index for index, one in enumerate(roads) if not one.long]

    def run(chosen: Sequence[Prepared]) -> Captured:
        return _run(model, capture_batch, adapter, collate(model, chosen, pad_id), head)

    mixed = batch_size > 1 and bool(short) and takes_padding(
        model, [prepared[index] for index in short], pad_id, lambda chosen: _of_the_first(run(chosen))
    )  # fmt: skip
    lengths, shapes = [len(prepared[index].positions) for index in short], [prepared[index].shape for index in short]
    for batch in batches(lengths, mixed=mixed, size=batch_size, shapes=shapes):
        captured = run([prepared[short[place]] for place in batch])
        for row, place in enumerate(batch):
            yield short[place], Observation(captured.attention[row], captured.output, row)
    for index, one in enumerate(prepared):
        if roads[index].long:
            inputs, places = collate(model, [one], pad_id), answer_at(one)
            long = _run(model, capture_long_batch, adapter, inputs, head, answer_at=places)
            yield index, Observation(long.attention[0], long.output, 0, long.answered)


def _run(
    model: nn.Module,
    capture: Callable[..., _C],
    adapter: Adapter,
    inputs: dict[str, Any],
    head: Head | None,
    **options: Any,
) -> _C:
    try:
        return capture(model, inputs, reduce=_reduction(head), within=adapter.within, **options)
    except AttnxError:
        raise
    except Exception as error:
        reason = str(error).strip().split("\n")[0]
        raise CaptureError(
            f"{type(model).__name__} refused the input ({type(error).__name__}: {reason}); check that tokenizer and "
            "model belong together, and that the model runs on it by itself"
        ) from error


def _of_the_first(captured: Captured) -> list[Tensor]:
    """What padding must not change: the first input's attention, and what a classifier says of it."""
    logits = getattr(captured.output, "logits", None)
    classes = [logits[0]] if isinstance(logits, Tensor) and logits.ndim == 2 else []
    return [captured.attention[0].weights, *classes]


def _reduction(head: Head | None) -> Any:
    """Merge heads as they arrive unless single heads are asked for."""
    if head is None:
        return "mean"
    return head if head in ("mean", "max", "min") else None
