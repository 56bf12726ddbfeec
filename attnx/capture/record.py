"""What one attention call leaves behind, and the list that fills while the model runs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, nn

from attnx.attention import rows_to_one
from attnx.capture.recompute import per_query_head
from attnx.errors import CaptureError, ChoiceError
from attnx.long_attention import QueriesAndKeys

Reduce: TypeAlias = Literal["mean", "max", "min"] | Callable[[Tensor], Tensor] | None
"""What is kept of a layer's batch × head × query × key weights as they arrive; None keeps every head."""

Extra: TypeAlias = Literal["values", "projections"]

_REDUCERS: dict[str, Callable[[Tensor], Tensor]] = {
    "mean": lambda weights: weights.mean(1, keepdim=True),
    "max": lambda weights: rows_to_one(weights.amax(1, keepdim=True)),
    "min": lambda weights: rows_to_one(weights.amin(1, keepdim=True)),
}


@dataclass
class Record:
    """One attention call of the whole batch."""

    module: str
    weights: Tensor
    """batch × head × query × key, already reduced."""
    visible: Tensor | None
    """(batch or 1) × query × key, false where the mask forbids to look; None when nothing was masked."""
    values: Tensor | None = None
    """batch × head × key × width, one per query head."""
    projection: Tensor | None = None
    """output × (head · width)."""
    kept: tuple[QueriesAndKeys, ...] = ()
    """For a long input, one for each of the batch; `weights` has a shape then, and no numbers."""

    def same_as(self, other: Record) -> bool:
        """Whether this is the very attention of another call."""
        if self.kept and other.kept:
            pairs = zip(self.kept, other.kept, strict=True)
            return all(torch.equal(a.query, b.query) and torch.equal(a.key, b.key) for a, b in pairs)
        return not self.kept and not other.kept and torch.equal(self.weights, other.weights)


class Recorder:
    """Collects records in the order of the calls, which is the order of the layers."""

    def __init__(
        self,
        model: nn.Module,
        *,
        batch: int,
        reduce: Reduce,
        extras: tuple[Extra, ...],
        graph: bool,
        long: bool = False,
    ) -> None:
        self.records: list[Record] = []
        self.batch = batch
        self.long = long
        self.extras = extras
        self.graph = graph
        self.merged = reduce if reduce is None or isinstance(reduce, str) else getattr(reduce, "__name__", "reduced")
        self._reduce = _reducer(reduce)
        self._names: dict[int, str] = {id(module): name for name, module in model.named_modules()}

    def add(self, weights: Tensor, visible: Tensor | None, values: Tensor, module: nn.Module | None = None) -> Record:
        """Keep one call. `weights` may come as (batch · head) × query × key, as models that use `bmm` have it."""
        name = self._names.get(id(module), "") if module is not None else self._caller()
        weights = self._by_head(weights, name)
        if weights.dtype in (torch.float16, torch.bfloat16):
            weights = weights.float()
            # Each weight was rounded by itself, which brings some rows above 1: more than attention has to give.
            weights = weights / weights.detach().sum(-1, keepdim=True).clamp(min=1)
        if visible is not None:
            if visible.shape[0] not in (1, self.batch):
                visible = visible.view(self.batch, -1, *visible.shape[1:]).any(1)
            if visible.shape[1:] != weights.shape[2:]:
                visible = visible.expand(-1, *weights.shape[2:])
        kept = self._reduce(weights) if self._reduce else weights
        record = Record(name, kept if self.graph else kept.detach(), visible)
        if "values" in self.extras:
            record.values = per_query_head(self._by_head(values, name), weights.shape[1])
        self.records.append(record)
        return record

    def keep(
        self, query: Tensor, key: Tensor, mask: Tensor | None, module: nn.Module | None = None, **how: Any
    ) -> Record:
        """Keep queries and keys of one call instead of its weights; `how` are the other fields of `QueriesAndKeys`.

        They are copied: a model's own are often views of one buffer, which would be held with the values in it.
        """
        name = self._names.get(id(module), "") if module is not None else self._caller()
        query, key = self._by_head(query, name).detach(), self._by_head(key, name).detach()
        kept = []
        for index in range(len(query)):
            one = None if mask is None else mask[min(index, len(mask) - 1)]
            kept.append(QueriesAndKeys(_copy(query[index]), _copy(_each_once(key[index])), one, **how))
        shape = torch.empty(*query.shape[:-1], key.shape[-2], device="meta")
        record = Record(name, shape, None, kept=tuple(kept))
        self.records.append(record)
        return record

    def _by_head(self, tensor: Tensor, name: str) -> Tensor:
        if tensor.ndim == 4:
            return tensor
        if tensor.ndim == 3 and tensor.shape[0] % self.batch == 0:
            return tensor.reshape(self.batch, -1, *tensor.shape[1:])
        raise CaptureError(
            f"attention in {name or 'the model'} has shape {tuple(tensor.shape)}, not batch × head × query × key: "
            "there is no n × n map"
        )

    def _caller(self) -> str:
        """The innermost module of the model whose code is running, found on the call stack: no hook is needed."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            owner = id(frame.f_locals.get("self"))
            if owner in self._names:
                return self._names[owner]
            frame = frame.f_back
        return ""


def _each_once(keys: Tensor) -> Tensor:
    """Keys without the repetition that models of grouped queries make for kernels that cannot share them."""
    heads = len(keys)
    if heads == 1 or not torch.equal(keys[0], keys[1]):
        return keys
    for size in (size for size in range(heads, 1, -1) if heads % size == 0):
        groups = keys.reshape(-1, size, *keys.shape[1:])
        if torch.equal(groups, groups[:, :1].expand_as(groups)):
            return groups[:, 0]
    return keys


def _copy(tensor: Tensor) -> Tensor:
    # Apple's GPUs have no float64, in which sums over rows are made.
    if tensor.device.type == "mps":
        return tensor.cpu().contiguous()
    return tensor.clone(memory_format=torch.contiguous_format)


def _reducer(reduce: Reduce) -> Callable[[Tensor], Tensor] | None:
    if isinstance(reduce, str):
        if reduce not in _REDUCERS:
            raise ChoiceError(
                f"reduce={reduce!r} is not known; give 'mean', 'max', 'min', a function, or None to keep all"
            )
        return _REDUCERS[reduce]
    return reduce
