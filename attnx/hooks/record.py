"""What one attention call leaves behind, and the list that fills while the model runs."""

from __future__ import annotations

import re
import sys
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import FrameType
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, nn

from attnx.attention import (
    HEAD_REDUCTIONS,
    ComputedLayer,
    HeadReduction,
    LinearizedNorm,
    Mask,
    RecomputedLayer,
    made,
    merge_heads,
    repeat_kv,
)
from attnx.errors import CaptureError, ChoiceError

_NAMES = ("num_heads", "num_attention_heads", "n_heads", "n_head", "nhead", "num_attn_heads")


@dataclass
class Folded:
    """A call whose heads came folded with the batch, and with windows if the model has any."""

    maps: int
    """For each input."""
    width: int
    """Of one head's values."""
    named: int | None
    """Heads, as the module or its config names them."""
    projected: int | None = None
    """The width of all heads together, seen where they enter the output projection."""

    @property
    def heads(self) -> int | None:
        """What is known of the number of heads: from the shape of the values, else from the config."""
        if self.projected is not None and self.projected % self.width == 0:
            return self.projected // self.width
        return 1 if self.maps == 1 else self.named


def named_heads(module: Any) -> int | None:
    """The number of heads that a module, or the config that it carries, tells by a name that is known."""
    for owner in (module, getattr(module, "config", None)):
        for name in _NAMES:
            value = getattr(owner, name, None)
            if isinstance(value, int) and value > 0:
                return value
    return None


def check_heads(folded: Folded, module: str, positions: int) -> None:
    """That the maps of a folded call are its heads and nothing else."""
    if folded.heads == folded.maps:
        return
    if folded.heads is None:
        raise CaptureError(
            f"attention in {module or 'the model'} has {folded.maps} maps of {positions} positions, and neither "
            "the model's config nor an output projection says whether they are heads or windows"
        )
    raise CaptureError(
        f"attention in {module} is in windows: {folded.maps} maps of {positions} positions, but {folded.heads} heads"
    )


def together(weights: Tensor, values: Tensor, further: Tensor, further_values: Tensor) -> Tensor | None:
    """batch × head × m × m for m = (1 + streams) · n; None where these are not two calls of that kind.

    `weights` are those of the tokens, batch × head × n × n, and `further` those of the streams, batch × stream × head ×
    n × 2n. That the first n keys are the tokens is seen by their values, which are the very same in both calls.
    """
    batch, sequences, heads, length, keys = further.shape
    if weights.shape != (batch, heads, length, length) or keys != 2 * length:
        return None
    if further_values.ndim != 5 or values.shape != (batch, heads, length, further_values.shape[-1]):
        return None
    of_tokens = further_values[..., :length, :]
    if not torch.equal(of_tokens, values[:, None].expand_as(of_tokens)):
        return None
    size = (1 + sequences) * length
    whole = weights.new_zeros(batch, heads, size, size)
    whole[..., :length, :length] = weights
    for sequence in range(sequences):
        own = slice((1 + sequence) * length, (2 + sequence) * length)
        whole[..., own, :length] = further[:, sequence, ..., :length]
        whole[..., own, own] = further[:, sequence, ..., length:]
    return whole


_CONVOLUTIONS = {"conv1d", "conv2d", "conv3d"}
MIXING = _CONVOLUTIONS | {
    "unfold",
    "lstm",
    "gru",
    "rnn_tanh",
    "rnn_relu",
    "fft_fft",
    "fft_rfft",
    "fft_fftn",
    "fft_fft2",
}
"""Names of the functions that may move something from one position to another."""

SAMPLING = "grid_sample"
"""The function by which deformable attention reads its input: at a few points between positions, without a map."""


def mixes(name: str, operands: Sequence[Any]) -> bool:
    """Whether one of them does. A convolution of width 1 does not."""
    if name in _CONVOLUTIONS:
        weight = operands[1] if len(operands) > 1 else None
        return isinstance(weight, Tensor) and any(size > 1 for size in weight.shape[2:])
    return name in MIXING


def beside(attention: Sequence[str], mixers: Iterable[str]) -> tuple[str, ...]:
    """Of the modules that mix, those in a layer of attention, with # for the layer's number."""
    layers = {layer for module in attention for layer in _layer(module, attention)}
    names = [name for name in mixers if any(name.startswith(layer) for layer in layers)]
    return tuple(dict.fromkeys(re.sub(r"\d+", "#", name) for name in names))


def check_sampling(sampling: Iterable[str], model_name: str, module: str = "") -> None:
    """Refuse layers that attend by sampling: the attention that is seen beside it is not the model's."""
    layer = next((name for name in sampling if name.startswith(module) and re.search(r"\.\d+\.", name)), None)
    if layer is not None:
        raise CaptureError(
            f"{model_name} attends by sampling in {layer} (deformable attention), which has no map over positions, so "
            "the attention that is seen beside it is not the model's; use a model of the same task that attends over "
            "all positions (DETR without deformable attention, a ViT), or Captum, which needs no map"
        )


def _layer(module: str, attention: Sequence[str]) -> list[str]:
    """How names in the layer of this module begin: "a.layers.3." of "a.layers.3.attn", if no other module has it."""
    for end in re.finditer(r"(?:^|\.)\d+\.", module):
        beginning = module[: end.end()]
        if not any(other.startswith(beginning) for other in attention if other != module):
            return [beginning]
    return []


class Descent:
    """The calls that each living tensor descends from, as bits: 1 << number of the call."""

    def __init__(self) -> None:
        self._calls: dict[int, tuple[weakref.ref[Tensor], int]] = {}

    def of(self, *things: Any) -> int:
        """The calls before these tensors, also where they stand in lists."""
        calls = 0
        for thing in things:
            if isinstance(thing, Tensor):
                reference, known = self._calls.get(id(thing), (None, 0))
                calls |= known if reference is not None and reference() is thing else 0
            elif isinstance(thing, (tuple, list)) and not isinstance(thing, torch.Size):
                calls |= self.of(*thing)
            elif isinstance(thing, dict):
                calls |= self.of(*thing.values())
        return calls

    def mark(self, thing: Any, calls: int) -> None:
        """That this tensor, or each of a list, descends from these calls and no others."""
        if isinstance(thing, Tensor):
            key = id(thing)
            if calls or key in self._calls:
                # No Python in the callback: a Ctrl-C that came inside it would be printed and lost.
                self._calls[key] = (weakref.ref(thing, partial(self._calls.pop, key)), calls)
        elif isinstance(thing, (tuple, list)) and not isinstance(thing, torch.Size):
            for one in thing:
                self.mark(one, calls)

    def hand_on(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> None:
        """From the operands of a function to what it made, and to what it wrote into."""
        if not self._calls or isinstance(result, (int, torch.Size, torch.dtype, torch.device)):
            return  # most of all calls: nothing attended yet, or a shape was asked for
        calls = self.of(*args, *kwargs.values()) if kwargs else self.of(*args)
        self.mark(result, calls)
        written = name == "__setitem__" or (name.endswith("_") and not name.endswith("__"))
        if written and args and isinstance(args[0], Tensor):
            self.mark(args[0], calls)
            if args[0]._base is not None:
                self.mark(args[0]._base, calls | self.of(args[0]._base))

    def forget(self) -> None:
        self._calls.clear()


@dataclass(frozen=True, eq=False)
class NormCall:
    """One call of a module that may be a norm: it has a number a channel, and no modules inside."""

    module: nn.Module
    entered: Tensor
    left: Tensor


@dataclass(eq=False)
class BlockCall:
    """One call of a block."""

    module: nn.Module
    states: Tensor
    """batch × position × width: the residual stream that enters."""
    first_record: int
    """How many attention calls there were before it."""
    precision: torch.dtype
    """In which it computes: that of the states, or of an autocast."""
    norms: list[NormCall] = field(default_factory=list)
    children: list[Tensor] = field(default_factory=list)
    """What the block's own modules gave."""
    left: Tensor | None = None
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    """What it was called with, where it is to be called again."""


@dataclass(frozen=True, eq=False)
class Joined:
    """How the attention of a batch joins the stream: r = x + branch(Σ T + bias), and what stands behind r."""

    states: Tensor
    """batch × position × width: x."""
    bias: Tensor
    """Of the output projection, zeros where it has none."""
    branch: LinearizedNorm | None
    """A norm, or a constant for each channel, on attention's own branch."""
    norm: LinearizedNorm | None
    """The norm behind the sum, where what goes on is its output (post-LN); None where r goes on as it is."""
    last: LinearizedNorm | None
    """The norm that the block ends with, if it is another one."""
    miss: float
    """By how much the sum missed what was seen, as a share of the largest number of it."""
    met: Tensor
    """batch × row × width: the sum as it was seen."""
    rows: list[int] | slice
    """The positions at which it was."""
    on_branch: NormCall | None = None
    """The norm of the branch, if it is one."""

    def captured(self, index: int, kept: Tensor | None) -> dict[str, Tensor]:
        """Of one input, without its padding, as a level carries it."""
        states = self.states[index]
        found = {"states": states if kept is None else states[kept.to(states.device)], "bias": self.bias}
        for name, norm in (("branch", self.branch), ("norm", self.norm), ("last", self.last)):
            if norm is not None:
                scale = norm.scale[index]
                scale = scale if kept is None else scale[kept.to(scale.device)]
                found |= replace(norm, scale=scale).captured(name)
        return found | {"miss": torch.tensor(self.miss)}


@dataclass(frozen=True, eq=False)
class Claim:
    """Something that must be so."""

    holds: Tensor
    """One boolean, where it was computed."""
    error: Callable[[], Exception]
    """What to raise where it is not so; asked only then."""


def settle(claims: Sequence[Claim]) -> None:
    """Raise the error of the first claim that does not hold. One read for each device."""
    held = [True] * len(claims)
    for device in {claim.holds.device for claim in claims}:
        places = [place for place, claim in enumerate(claims) if claim.holds.device == device]
        for place, holds in zip(places, torch.stack([claims[place].holds for place in places]).tolist(), strict=True):
            held[place] = holds
    for claim, holds in zip(claims, held, strict=True):
        if not holds:
            raise claim.error()


Merging: TypeAlias = HeadReduction | Callable[[Tensor], Tensor] | None
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
    computed: tuple[ComputedLayer | RecomputedLayer, ...] = ()
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
        return [
            recomputed_layer.total
            if isinstance(recomputed_layer, RecomputedLayer)
            else total(recomputed_layer.query, recomputed_layer.key)
            for recomputed_layer in self.computed
        ]

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
        """Keep queries and keys of one call instead of its weights; `how` are the other fields of `ComputedLayer`.

        `sums` are those of its rows, batch × head × query, where the kernel told them.

        They are copied: a model's own are often views of one buffer, which would be held with the values in it.
        """
        name = self._names.get(id(module), "") if module is not None else self._caller()
        query, key = self._by_head(query, name).detach(), self._by_head(key, name).detach()
        kept = []
        for index in range(len(query)):
            source = None if mask is None else mask[min(index, len(mask) - 1)]
            tensor, others = copied(query[index]), copied(_each_once(key[index]))
            own_sums = None if sums is None else sums[index].clone()
            own_mask = self._mask(source, others, causal=causal)
            kept.append(ComputedLayer(tensor, others, own_mask, sums=own_sums, module=name, **how))
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
        tensor, own_values = (
            (None, None) if self._latest is None else (reference_type() for reference_type in self._latest)
        )
        if tensor is None or own_values is None or not self.records or self.records[-1].module != name:
            return False
        whole = together(tensor, own_values, weights, values)
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
        values = repeat_kv(self._by_head(values, record.module), weights.shape[1])
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
    return torch.stack(
        [tensor.detach().sum(dtype=torch.promote_types(tensor.dtype, torch.float32)) for tensor in several]
    ).sum()


def can_be_computed(query: Tensor, key: Tensor) -> bool:
    """Whether a call of the kernel is attention of an input to itself, in the layout that `ComputedLayer` has."""
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
    if head not in HEAD_REDUCTIONS:
        raise ChoiceError(f"head={head!r} is not known; give 'mean', 'max', 'min', a function, or None to keep all")
    return lambda weights: merge_heads(weights, head, dim=1).unsqueeze(1)
