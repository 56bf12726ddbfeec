"""What a long call will take, said once: memory by the sizes of the model, time by the first inputs that are done."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from time import monotonic
from typing import Any

import torch
from torch import nn

from attnx.attention import HEAD_REDUCTIONS
from attnx.attribution import REFERENCES
from attnx.errors import duration
from attnx.hooks import MAX_BATCH_POSITIONS
from attnx.pipeline.options import LONG_INPUT, Settings
from attnx.pipeline.pipeline import Request
from attnx.progress import MIN_ELAPSED, MIN_REMAINING, announce, is_terminal

MUCH = 2**30
"""Bytes that are."""
_BYTES = 4
"""Of a number in float32."""

_told: weakref.WeakSet[nn.Module] = weakref.WeakSet()


def foresee(
    label: str,
    model: nn.Module,
    requests: Sequence[Request],
    settings: Settings,
    references: Mapping[str, Mapping[str, Any]],
) -> Foresight:
    """Say what is known before: half precision, and memory where it is much. Time is said when some inputs are through.

    How much an input takes beside the others goes by its positions, and by the forwards that rows of methods and
    references say they take.
    """
    say_half_precision(model)
    lengths = [len(request.prepared.positions) for request in requests]
    say_memory(attention_bytes(model.config, lengths, each_head=settings.head not in (None, *HEAD_REDUCTIONS)))
    return Foresight(label, [length * (1 + _forwards(length, settings, references)) for length in lengths])


def _forwards(positions: int, settings: Settings, references: Mapping[str, Mapping[str, Any]]) -> float:
    """Plain forwards beyond the first that an input of so many positions takes, as far as it is known."""
    found = [row.forwards(positions) or 0.0 for row in settings.methods or ()]
    return sum(found) + sum(_cost(name, positions, options) for name, options in references.items())


def _cost(name: str, positions: int, options: Mapping[str, Any]) -> float:
    cost = REFERENCES[name].forwards
    try:
        return 0.0 if cost is None else float(cost(positions, **options))
    except Exception:  # an option that is no number: the reference itself says so, in better words
        return 0.0


def say_half_precision(model: nn.Module) -> None:
    """Once for a model: on a CPU half precision is slower, not faster."""
    first = next(model.parameters(), None)
    if first is None or first.device.type != "cpu" or first.dtype not in (torch.float16, torch.bfloat16):
        return
    if model not in _told:
        _told.add(model)
        kind = str(first.dtype).removeprefix("torch.")
        announce(
            f"attnx: {type(model).__name__} is in {kind} on a CPU, where that takes several times as long as float32; "
            "model.float() changes it"
        )


def attention_bytes(config: Any, lengths: Sequence[int], *, each_head: bool) -> int:
    """What is kept of the largest run of inputs so long: the weights of all layers, or else queries and keys."""
    layers, width, heads = (
        index if isinstance(index := getattr(config, name, None), int) else 0
        for name in ("num_hidden_layers", "hidden_size", "num_attention_heads")
    )
    longest = max(lengths, default=0)
    if longest > LONG_INPUT:
        return layers * longest * 2 * width * _BYTES
    at_once = max(1, min(len(lengths), MAX_BATCH_POSITIONS // max(longest, 1)))
    return at_once * layers * (heads if each_head else 1) * longest**2 * _BYTES


class Foresight:
    """How long a list will take, said once when its first inputs are through; where a bar is shown, that says it."""

    def __init__(self, label: str, work: Sequence[float]) -> None:
        """`work` is what each input takes, in whatever unit."""
        self._label, self._work = label or "explaining", work
        self._done, self._count, self._taken = 0.0, 0, 0.0
        self._begun, self._said = monotonic(), is_terminal()

    def through(self, number: int) -> None:
        """The input of that number is done.

        Inputs of a batch come one upon the other when it has run. So what was done is known when the next is waited for
        again, and what that took is no longer ahead.
        """
        now = monotonic() - self._begun
        waited = now - self._taken
        if not self._said and self._done and self._taken >= MIN_ELAPSED and waited >= self._taken / self._count / 2:
            self._said = True
            self._say(self._taken / self._done * (sum(self._work) - self._done) - waited)
        self._done, self._count, self._taken = self._done + self._work[number], self._count + 1, now

    def _say(self, left: float) -> None:
        if left > MIN_REMAINING:
            announce(
                f"attnx: {self._label}: {self._count} of {len(self._work)} inputs took {duration(self._taken)}, the "
                f"others take about {duration(left)}"
            )


def say_memory(needed: int) -> None:
    """Before it is taken."""
    if needed > MUCH:
        announce(f"attnx: attention takes about {needed / 2**30:.1f} GB of memory at a time; a shorter text takes less")
