"""What one attention call leaves behind, and the list that fills while the model runs."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, nn

from attnx.attention.anew import Anew, made
from attnx.attention.computed import Computed, per_query_head
from attnx.attention.rows import MERGERS, Merger, merge_heads
from attnx.attention.visibility import Mask
from attnx.capturing.claims import Claim, settle
from attnx.capturing.descent import Descent
from attnx.capturing.heads import Folded, named_heads
from attnx.capturing.joined import BlockCall, Joined
from attnx.capturing.mixers import MIXING, SAMPLING, mixes
from attnx.capturing.predicting import together
from attnx.errors import CaptureError, ChoiceError

Merging: TypeAlias = Merger | Callable[[Tensor], Tensor] | None
"""What is kept of a layer's batch × head × query × key weights as they arrive; None keeps every head."""

Extra: TypeAlias = Literal["values", "projections", "gates", "blocks", "rest"]
"""What else is kept of each call; blocks, which need the first two, say how attention joins the residual stream, and
the rest, which needs them, is what a block does behind that."""

_BROUGHT_ALONG: dict[Extra, tuple[Extra, ...]] = {
    "blocks": ("values", "projections"),
    "rest": ("blocks", "values", "projections"),
}


@dataclass
class Record:
    """One attention call of the whole batch."""

    module: str
    weights: Tensor | None
    """batch × head × query × key, already merged; None where queries and keys are kept instead."""
    visible: Tensor | None = None
    """(batch or 1) × query × key, false where the mask forbids to look; None when nothing was masked."""
    values: Tensor | None = None
    """batch × head × key × width; each head is shared by a group of query heads."""
    projection: Tensor | None = None
    """output × (head · width)."""
    bias: Tensor | None = None
    """What the projection adds."""
    joined: Joined | CaptureError | None = None
    """How attention joins the residual stream, or why that is not known."""
    block: BlockCall | None = None
    """The outermost block in which it is the only attention."""
    gate: Tensor | None = None
    """batch × head × query × width: what mixed values are multiplied by before the projection; None for nothing."""
    mixed: Tensor | None = None
    """batch × head × query × width: weights times values, until it was held against what entered the projection."""
    unlike: str = ""
    """Why values and projection do not say what the block wrote."""
    outputs: Tensor | None = None
    """What the call gave for each head, a part of the model's autograd graph, where a way back was asked for."""
    computed: tuple[Computed | Anew, ...] = ()
    """Queries and keys, or how they are made again, one for each of the batch."""
    number: int = 0
    """Its place among the calls of the run, also of those that are left out later."""
    before: int = 0
    """The calls that queries, keys and values descend from, as bits."""
    handed: int = 0
    """Those that the values alone descend from: of cross-attention they are another stream's."""

    copies: int = 1
    """How many positions it has for each token: its own, and those of streams that predict (see `predicting`)."""
    folded: Folded | None = None
    """What is known of the heads, where they came in one axis with the batch."""
    carried: int | None = None
    """Positions that were left of the block's output where it was added to its input; None where that was not seen."""

    def follows(self, other: Record) -> bool:
        """Whether what another call wrote was read by this one."""
        return bool(self.before >> other.number & 1)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """batch, heads, queries and keys."""
        if self.weights is not None:
            batch, heads, queries, keys = self.weights.shape
            return batch, heads, queries, keys
        one = self.computed[0]
        return len(self.computed), one.heads, one.own.stop, one.mask.length

    def totals(self) -> list[Tensor]:
        """Sums that are finite where all that was kept is."""
        if self.weights is not None:
            return [total(self.weights)]
        return [one.total if isinstance(one, Anew) else total(one.query, one.key) for one in self.computed]

    def same_as(self, other: Record) -> bool:
        """Whether this is the very attention of another call."""
        if self.weights is not None and other.weights is not None:
            return torch.equal(self.weights, other.weights)
        pairs = list(zip(map(made, self.computed), map(made, other.computed), strict=False))
        return bool(pairs) and all(torch.equal(a.query, b.query) and torch.equal(a.key, b.key) for a, b in pairs)


class Recorder:
    """Collects records in the order of the calls, which is the order of the layers."""

    def __init__(
        self,
        model: nn.Module,
        *,
        batch: int,
        head: Merging = None,
        extras: tuple[Extra, ...] = (),
        gradients: bool = False,
        held: bool = True,
        way_back: bool = False,
    ) -> None:
        extras = tuple({one for name in extras for one in (name, *_BROUGHT_ALONG.get(name, ()))})
        if "blocks" in extras and head is not None:
            raise ChoiceError(f"blocks are taken apart head by head, but head={head!r} merges them; use head=None")
        self.model = model
        self.calls: list[Record] = []
        """What was recorded so far, while the model runs."""
        self.claims: list[Claim] = []
        """What must be so of their numbers."""
        self.descent = Descent()
        self.mixers: list[str] = []
        """Modules that mixed positions otherwise, in the order of the calls."""
        self.sampling: list[str] = []
        """Modules that read positions by sampling."""
        self.batch = batch
        self.held = held
        self.extras = extras
        self.gradients = gradients
        self.way_back = way_back
        self.head = head if head is None or isinstance(head, str) else getattr(head, "__name__", "merged")
        self._merge = _merger(head)
        self._masks: dict[tuple[Any, ...], Mask] = {}
        self._latest: tuple[weakref.ref[Tensor], weakref.ref[Tensor]] | None = None
        self._modules = dict(model.named_modules())
        self._names: dict[int, str] = {id(module): name for name, module in self._modules.items()}

    @property
    def records(self) -> list[Record]:
        """What was recorded, when the run is over: what was claimed of the numbers meanwhile is settled."""
        claims, self.claims = self.claims, []
        settle(claims)
        return self.calls

    def add(self, weights: Tensor, visible: Tensor | None, values: Tensor, module: nn.Module | None = None) -> Record:
        """Keep one call. `weights` may come as (batch · head) × query × key, as models that use `bmm` have it."""
        name = self._names.get(id(module), "") if module is not None else self._caller()
        if weights.ndim == 5 and self._joins(weights, values, name):
            return self.records[-1]
        self._latest = weakref.ref(weights), weakref.ref(values)
        folded = self._folded(weights, values, name)
        weights = self._by_head(weights, name)
        if weights.dtype in (torch.float16, torch.bfloat16):
            weights = weights.float()
            # Each weight was rounded by itself, which brings some rows above 1: more than attention has to give.
            weights = weights / weights.detach().sum(-1, keepdim=True).clamp(min=1)
        if visible is not None:
            visible = self._by_input(visible, weights, name)
        kept = self._merge(weights) if self._merge else weights
        record = Record(name, kept if self.gradients else kept.detach(), visible, folded=folded)
        if self.extras and self._mixes(record, weights, values):
            self._bring_values(record, values)
        return self._append(record)

    def keep(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        module: nn.Module | None = None,
        *,
        causal: bool = False,
        sums: Tensor | None = None,
        **how: Any,
    ) -> Record:
        """Keep queries and keys of one call instead of its weights; `how` are the other fields of `Computed`.

        `sums` are those of its rows, batch × head × query, where the kernel told them.

        They are copied: a model's own are often views of one buffer, which would be held with the values in it.
        """
        name = self._names.get(id(module), "") if module is not None else self._caller()
        query, key = self._by_head(query, name).detach(), self._by_head(key, name).detach()
        kept = []
        for index in range(len(query)):
            source = None if mask is None else mask[min(index, len(mask) - 1)]
            own, others = copied(query[index]), copied(_each_once(key[index]))
            own_sums = None if sums is None else sums[index].clone()
            own_mask = self._mask(source, others, causal=causal)
            kept.append(Computed(own, others, own_mask, sums=own_sums, module=name, **how))
        record = Record(name, None, computed=tuple(kept))
        self._bring_values(record, value)
        return self._append(record)

    def passed(self, name: str, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> None:
        """A function of torch was called, which may be of interest though it is no attention."""
        self.descent.hand_on(name, args, kwargs, result)
        if name in MIXING and mixes(name, (*args, *kwargs.values())):
            self.mixers.append(self._caller())
        elif name == SAMPLING:
            self.sampling.append(self._caller())

    def wrote(self, record: Record, read: Sequence[Any], output: Tensor) -> None:
        """What a call read, its values last, and what it made of it."""
        record.before = self.descent.of(*read)
        record.handed = self.descent.of(read[-1])
        if self.way_back and record.outputs is None:
            record.outputs = output
        self.descent.mark(output, record.before | 1 << record.number)

    def _append(self, record: Record) -> Record:
        record.number = len(self.calls)
        self.calls.append(record)
        return record

    def _bring_values(self, record: Record, values: Tensor) -> None:
        if "values" in self.extras:
            by_head = self._by_head(values, record.module)
            once = _each_once(by_head.detach().transpose(0, 1)).transpose(0, 1)
            record.values = by_head if self.gradients else once

    def _joins(self, weights: Tensor, values: Tensor, name: str) -> bool:
        """Whether a call is of streams that predict, beside the tokens of the call before; the two are one then."""
        own, own_values = (None, None) if self._latest is None else (one() for one in self._latest)
        if own is None or own_values is None or not self.records or self.records[-1].module != name:
            return False
        whole = together(own, own_values, weights, values)
        if whole is None:
            return False
        record = self.records[-1]
        kept = self._merge(whole) if self._merge else whole
        record.weights = kept if self.gradients else kept.detach()
        record.visible = whole.detach().amax(1) > 0
        record.copies = 1 + weights.shape[1]
        record.unlike = "tokens, and the positions that predict them, are written by two calls"
        record.mixed = record.values = None
        return True

    def _mask(self, source: Tensor | None, key: Tensor, *, causal: bool) -> Mask:
        """The mask of one call; calls that read the same memory share it."""
        place = None if source is None else (source.data_ptr(), *source.shape, *source.stride())
        name = (place, key.shape[1], key.device, causal)
        return self._masks.setdefault(name, Mask(key.shape[1], key.device, source, triangular=causal))

    def _mixes(self, record: Record, weights: Tensor, values: Tensor) -> bool:
        """Whether the values are in the layout of the weights; what they make together is checked later."""
        values = per_query_head(self._by_head(values, record.module), weights.shape[1])
        if values.shape[:2] != weights.shape[:2] or values.shape[2] != weights.shape[3]:
            record.unlike = f"values of {tuple(values.shape)} do not belong to weights of {tuple(weights.shape)}"
            return False
        record.mixed = weights.detach() @ values.detach().to(weights.dtype)
        return True

    def _by_input(self, visible: Tensor, weights: Tensor, name: str) -> Tensor:
        """(batch or 1) × query × key."""
        try:
            if visible.shape[0] not in (1, self.batch):
                visible = visible.view(self.batch, -1, *visible.shape[1:]).any(1)
            # The very same object where it fits: calls with one mask share what is read off it.
            return visible if visible.shape[1:] == weights.shape[2:] else visible.expand(-1, *weights.shape[2:])
        except RuntimeError:
            raise CaptureError(
                f"attention in {name or 'the model'} was masked as {tuple(visible.shape)} and mixes values as "
                f"{tuple(weights.shape)}: bands or blocks (such as Longformer's) without an n × n map"
            ) from None

    def _folded(self, weights: Tensor, values: Tensor, name: str) -> Folded | None:
        if weights.ndim != 3:
            return None
        return Folded(len(weights) // self.batch, values.shape[-1], named_heads(self._modules.get(name)))

    def _by_head(self, tensor: Tensor, name: str) -> Tensor:
        if tensor.ndim == 4:
            return tensor
        if tensor.ndim == 3 and tensor.shape[0] % self.batch == 0:
            return tensor.reshape(self.batch, -1, *tensor.shape[1:])
        raise CaptureError(
            f"attention in {name or 'the model'} has shape {tuple(tensor.shape)}, not batch × head × query × key: "
            "bands or blocks, in which a position sees some of the others (such as LongT5's), without an n × n map"
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


def total(*several: Tensor) -> Tensor:
    """The sum of all: weights are at most 1, and queries and keys far from overflow, but not in half precision."""
    return torch.stack([one.detach().sum(dtype=torch.promote_types(one.dtype, torch.float32)) for one in several]).sum()


def can_be_computed(query: Tensor, key: Tensor) -> bool:
    """Whether a call of the kernel is attention of an input to itself, in the layout that `Computed` has."""
    return query.ndim == 4 and key.ndim == 4 and query.shape[-2] == key.shape[-2]


def batch_mask(mask: Tensor | None, query: Tensor, key: Tensor) -> Tensor | None:
    """The kernel's mask as (batch or 1) × (head or 1) × query × key, without a copy."""
    if mask is None:
        return None
    mask = mask[(None,) * (4 - mask.ndim)]
    return mask.expand(-1, -1, query.shape[-2], key.shape[-2])


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


def copied(tensor: Tensor) -> Tensor:
    """By itself, and where rows of it are computed."""
    # Apple's GPUs have no float64, in which sums over rows are made.
    if tensor.device.type == "mps":
        return tensor.cpu().contiguous()
    return tensor.clone(memory_format=torch.contiguous_format)


def _merger(head: Merging) -> Callable[[Tensor], Tensor] | None:
    if not isinstance(head, str):
        if head is not None and not callable(head):
            raise ChoiceError(
                f"head={head!r}: capture keeps all heads (None) or merges them ('mean', 'max', 'min', or a function); "
                "a method picks one of them"
            )
        return head
    if head not in MERGERS:
        raise ChoiceError(f"head={head!r} is not known; give 'mean', 'max', 'min', a function, or None to keep all")
    return lambda weights: merge_heads(weights, head, dim=1).unsqueeze(1)
