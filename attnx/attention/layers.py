"""The attention of one layer: materialized, or computed by rows from queries and keys."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Protocol, Self, TypeAlias, TypeVar, cast

import torch
from torch import Tensor

from attnx._signals import Uninterruptible
from attnx.attention import masks as waiting
from attnx.attention.masks import Mask, is_visible
from attnx.errors import AttentionError

HeadReduction: TypeAlias = Literal["mean", "max", "min"]
HEAD_REDUCTIONS: tuple[HeadReduction, ...] = ("mean", "max", "min")

ROW_SUM_SLACK = 1e-4
"""How far above 1 a row may sum in single or double precision; half precision has its own rounding."""


def normalize_rows(weights: Tensor) -> Tensor:
    """Divide each row by its sum; a row of zeros stays zero."""
    sums = weights.sum(-1, keepdim=True)
    return weights / torch.where(sums > 0, sums, 1)


def merge_heads(weights: Tensor, how: HeadReduction, dim: int = 0) -> Tensor:
    """… × query × key with the heads of one axis merged; what is no mean is scaled back to rows of 1."""
    if how == "mean":
        return weights.mean(dim)
    return normalize_rows(weights.amax(dim) if how == "max" else weights.amin(dim))


def is_attention(weights: Tensor) -> bool:
    """Whether all of … × query × key is attention: two numbers tell."""
    weights = weights.detach()
    return bool(_sums(weights).max() <= 1 + _slack(weights)) and bool(weights.min() >= 0)


def check_attention(heads: Tensor, number: int) -> None:
    """That head × query × key is attention: an error names the layer and the row that is not."""
    if is_attention(heads):
        return
    heads = heads.detach()
    sums, slack = _sums(heads), _slack(heads)
    bad = ~(sums <= 1 + slack) | (heads.amin(-1) < 0)
    if bool(bad.any()):
        head, row = cast(list[int], bad.nonzero()[0].tolist())
        raise AttentionError(
            f"layer {number}, head {head}, row {row} is not attention: weights must be ≥ 0 and sum to at most 1, "
            f"found minimum {heads[head, row].min().item():.6g} and sum {sums[head, row].item():.6g}"
        )


def _sums(weights: Tensor) -> Tensor:
    return weights.sum(-1, dtype=torch.promote_types(weights.dtype, torch.float32))


def _slack(weights: Tensor) -> float:
    return max(ROW_SUM_SLACK, torch.finfo(weights.dtype).eps) if weights.is_floating_point() else 0.0


MAX_BLOCK_ELEMENTS = 4_000_000
"""Weights in one block, over all heads: 16 MB, which an allocator hands out again and again without new pages."""


@dataclass(frozen=True, eq=False)
class RowBlock:
    """Some rows of one layer, without the keys at either end that none of them can see."""

    first_key: int
    weights: Tensor
    """head × query × key."""

    @property
    def keys(self) -> slice:
        return slice(self.first_key, self.first_key + self.weights.shape[-1])


BlockTail: TypeAlias = Callable[[Tensor, Tensor], Tensor]
"""(vector × width, vector) → vector × width: what leaves the block at each of these positions when the vector is taken
from what attention adds there."""


class AttentionLayer(Protocol):
    """One attention call of one input."""

    @property
    def module(self) -> str:
        """The name of the module that attended, if it is known."""

    @property
    def heads(self) -> int: ...

    @property
    def query_slice(self) -> slice:
        """The positions that attend; all others stay what they were below."""

    @property
    def kind(self) -> str:
        """What it is among several sequences ("encoder", "self", "cross"); empty where there is one."""

    @property
    def fixed(self) -> bool:
        """Whether it is no attention but a map that no edge weights and no residual change (see `ConstantLayer`)."""

    @property
    def mask(self) -> Mask: ...

    @property
    def whole(self) -> bool:
        """Whether a map of all rows is in memory or small, so that a merged one may be kept beside it."""

    @property
    def captured(self) -> Mapping[str, Tensor]:
        """What else was captured of this call, because edge weights need it: values, projections, …"""

    @property
    def rest(self) -> BlockTail | None:
        """The tail of its block, where edge weights need that."""

    def rows(self, start: int, stop: int) -> RowBlock:
        """The attention of the queries from `start` up to `stop`, in float32 or better."""

    def cropped(self, kept: Tensor, mask: Mask, queries: Tensor | None = None) -> AttentionLayer:
        """The layer over the `kept` positions alone, with its mask cropped alike; of cross-attention its `queries`."""

    def with_captured(self, captured: Mapping[str, Tensor]) -> AttentionLayer:
        """The layer with these beside what was captured already."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Layer:
    """What the layers of one sequence have in common."""

    fixed: ClassVar[bool] = False

    module: str = ""
    captured: Mapping[str, Tensor] = field(default_factory=dict)
    rest: BlockTail | None = None
    kind: str = ""

    def with_captured(self, captured: Mapping[str, Tensor]) -> Self:
        return replace(self, captured={**self.captured, **captured})


@dataclass(frozen=True, eq=False)
class MaterializedLayer(Layer):
    """A layer whose weights are in memory."""

    weights: Tensor
    """head × n × n."""
    mask: Mask
    whole: bool = True

    @property
    def heads(self) -> int:
        return self.weights.shape[0]

    @property
    def query_slice(self) -> slice:
        return slice(0, self.weights.shape[1])

    def rows(self, start: int, stop: int) -> RowBlock:
        return RowBlock(0, self.weights[:, start:stop])

    def cropped(self, kept: Tensor, mask: Mask, queries: Tensor | None = None) -> MaterializedLayer:
        keys = kept.to(self.weights.device)
        rows = keys if queries is None else queries.to(self.weights.device)
        return replace(self, weights=self.weights[:, rows][:, :, keys], mask=mask)


@dataclass(frozen=True, eq=False)
class UniformLayer(Layer):
    """One head that spreads each query's attention evenly over what the mask shows."""

    mask: Mask
    whole: bool = True
    queries: slice | None = None
    """The positions that attend, of several sequences; None for all."""
    heads: int = 1

    @property
    def query_slice(self) -> slice:
        return slice(0, self.mask.length) if self.queries is None else self.queries

    def rows(self, start: int, stop: int) -> RowBlock:
        return RowBlock(0, normalize_rows(self.mask.visible(start, stop).to(torch.float64))[None])

    def cropped(self, kept: Tensor, mask: Mask, queries: Tensor | None = None) -> UniformLayer:
        return replace(self, mask=mask)


def blocks(layer: AttentionLayer) -> Iterator[tuple[int, int]]:
    """Ranges of queries whose rows of all heads fit into one block."""
    queries = layer.query_slice
    size = max(1, MAX_BLOCK_ELEMENTS // (layer.heads * layer.mask.length))
    return ((start, min(start + size, queries.stop)) for start in range(queries.start, queries.stop, size))


def pad_keys(block: RowBlock, length: int) -> Tensor:
    """head × query × n: the rows of a block with all their keys."""
    if block.weights.shape[-1] == length:
        return block.weights
    rows = block.weights.new_zeros(*block.weights.shape[:2], length)
    rows[..., block.keys] = block.weights
    return rows


def autocast_disabled(device: str) -> AbstractContextManager[Any]:
    """No autocast in the block.

    Where none is on nothing is switched: the end of an autocast takes a lock of torch, which a process that is forked
    at that moment would never get.
    """
    return _WithoutAutocast(device) if torch.is_autocast_enabled(device) else nullcontext()


class _WithoutAutocast(Uninterruptible[None]):
    def __init__(self, device: str) -> None:
        self._off = torch.autocast(device, enabled=False)
        self._entered = False

    def _begin(self) -> None:
        self._entered = True
        self._off.__enter__()  # type: ignore[no-untyped-call]

    def _end(self) -> None:
        entered, self._entered = self._entered, False
        if entered:
            self._off.__exit__(None, None, None)


def attention_weights(
    query: Tensor,
    key: Tensor,
    *,
    mask: Tensor | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    sinks: Tensor | None = None,
) -> Tensor:
    """softmax(scale · Q·Kᵀ + mask), (batch ×) head × query × key, in float32 or better.

    `key` may have fewer heads than `query` (each shared by a group); `mask` is boolean (true = may look) or additive.
    `softcap` bounds the scores as Gemma 2 does; `sinks` are the scores, one a head, of a key that is not an input
    (gpt-oss), so that rows sum to less than 1. A query that may see nothing has a row of zeros.
    """
    with autocast_disabled(query.device.type):
        return _softmax(_masked(_scores(query, key, scale, softcap), mask), sinks)


def _scores(query: Tensor, key: Tensor, scale: float | None, softcap: float | None) -> Tensor:
    """… × head × query × key, a group of query heads against the keys that they share."""
    dtype = torch.promote_types(query.dtype, torch.float32)
    query, key = query.to(dtype), key.to(dtype)
    *lead, heads, queries, width = query.shape
    grouped = query.reshape(*lead, key.shape[-3], -1, width) @ key.transpose(-2, -1)
    scores = grouped.view(*lead, heads, queries, -1).mul_(1 / math.sqrt(width) if scale is None else scale)
    return scores if softcap is None else softcap * torch.tanh(scores / softcap)


def _masked(scores: Tensor, mask: Tensor | None) -> Tensor:
    if mask is None:
        return scores
    return scores.masked_fill_(~mask, -math.inf) if mask.dtype == torch.bool else scores.add_(mask)


def _softmax(scores: Tensor, sinks: Tensor | None) -> Tensor:
    if sinks is not None:
        column = sinks.to(scores.dtype).view(-1, 1, 1).expand(*scores.shape[:-1], 1)
        return torch.cat([scores, column], dim=-1).softmax(-1)[..., :-1]
    weights = scores.softmax(-1)
    if waiting.on_cpu(weights) and not bool(weights.detach()[..., :1].isnan().any()):
        return weights
    # A query that may see nothing has a row of NaN here, and gives nothing to any key.
    return weights.masked_fill((scores == -math.inf).all(-1, keepdim=True), 0)


@dataclass(frozen=True, eq=False)
class ComputedLayer(Layer):
    """A layer from which any row can be computed."""

    query: Tensor
    """head × n × width."""
    key: Tensor
    """key head × n × width; each key head is shared by a group of query heads."""
    mask: Mask
    """Its source is the model's own mask, shared by its layers."""
    scale: float | None = None
    softcap: float | None = None
    sinks: Tensor | None = None
    sums: Tensor | None = None
    """head × n: the logarithm of each row's sum of exp, where the kernel returned it."""
    whole: bool = False

    @property
    def heads(self) -> int:
        return self.query.shape[0]

    @property
    def query_slice(self) -> slice:
        return slice(0, self.query.shape[1])

    def rows(self, start: int, stop: int) -> RowBlock:
        mask = None if self.mask.source is None else self.mask.source[..., start:stop, :].to(self.key.device)
        first, last = (0, stop) if self.mask.triangular else _visible_span(mask, self.mask.length)
        with autocast_disabled(self.query.device.type):
            scores = _scores(self.query[:, start:stop], self.key[:, first:last], self.scale, self.softcap)
            if self.mask.triangular:
                # Only the last columns reach beyond the diagonal.
                later = torch.ones(stop - start, stop - start, dtype=torch.bool, device=scores.device).triu(1)
                scores[..., start - stop :].masked_fill_(later, -math.inf)
            weights = _softmax(_masked(scores, None if mask is None else mask[..., first:last]), self.sinks)
        return RowBlock(first, weights)

    def cropped(self, kept: Tensor, mask: Mask, queries: Tensor | None = None) -> ComputedLayer:
        keys = kept.to(self.key.device)
        rows = keys if queries is None else queries.to(self.key.device)
        return replace(self, query=self.query[:, rows], key=self.key[:, keys], mask=mask, sums=None)


def repeat_kv(tensor: Tensor, heads: int) -> Tensor:
    """Keys or values repeated for each query head that shares them (grouped-query attention)."""
    if tensor.ndim != 4 or tensor.shape[1] == heads:
        return tensor
    return tensor.repeat_interleave(heads // tensor.shape[1], dim=1)


def _visible_span(mask: Tensor | None, length: int) -> tuple[int, int]:
    """From the first to behind the last key that any query of the mask's rows can see."""
    if mask is None:
        return 0, length
    seen = is_visible(mask).flatten(0, -2).any(0).nonzero()
    return (int(seen[0]), int(seen[-1]) + 1) if len(seen) else (0, length)


class LatestLayer:
    """The layer that was recomputed last, of all layers of one run: no two of them are in memory."""

    def __init__(self) -> None:
        self._make: Callable[[], ComputedLayer] | None = None
        self._made: ComputedLayer | None = None

    def of(self, make: Callable[[], ComputedLayer]) -> ComputedLayer:
        if self._made is not None and make is self._make:
            return self._made
        self._make, self._made = None, None  # let go of the other one before there are two
        made = make()
        self._make, self._made = make, made
        return made


@dataclass(frozen=True, eq=False)
class RecomputedLayer(Layer):
    """A layer of which nothing is kept but how its queries and keys are computed."""

    make: Callable[[], ComputedLayer]
    latest: LatestLayer
    heads: int
    mask: Mask
    total: Tensor
    """The sum of its queries and keys, which is finite where all of them are."""
    whole: bool = False

    @property
    def query_slice(self) -> slice:
        return slice(0, self.mask.length)

    def made(self) -> ComputedLayer:
        return self.latest.of(self.make)

    def rows(self, start: int, stop: int) -> RowBlock:
        return self.made().rows(start, stop)

    def cropped(self, kept: Tensor, mask: Mask, queries: Tensor | None = None) -> ComputedLayer:
        return replace(self.made().cropped(kept, mask, queries), captured=self.captured, rest=self.rest, kind=self.kind)


L = TypeVar("L", bound=AttentionLayer)


def made(layer: L | RecomputedLayer) -> L | ComputedLayer:
    """The layer itself, or what it is when it is recomputed."""
    return layer.made() if isinstance(layer, RecomputedLayer) else layer


@dataclass(frozen=True, eq=False)
class LinearizedNorm:
    """gain ⊙ (z − mean of z) · scale + shift."""

    gain: Tensor
    """A number a channel."""
    scale: Tensor
    """A number a position, above 0; with a batch axis before it while the model runs."""
    shift: Tensor
    """A number a channel, which belongs to no part of a sum."""
    centred: bool
    """Whether the mean is taken out."""

    def unscaled(self, vectors: Tensor) -> Tensor:
        """… × width: the linear map without its scale, which is the same for all parts of a position."""
        gain = self.gain.to(vectors)
        return gain * (vectors - vectors.mean(-1, keepdim=True) if self.centred else vectors)

    def __call__(self, states: Tensor) -> Tensor:
        """The output of the norm for all positions."""
        return self.unscaled(states) * self.scale.to(states)[..., None] + self.shift.to(states)

    def captured(self, name: str) -> dict[str, Tensor]:
        """The norm of one input as a layer carries it."""
        parts = {"gain": self.gain, "scale": self.scale, "shift": self.shift, "centred": torch.tensor(self.centred)}
        return {f"{name}.{part}": tensor for part, tensor in parts.items()}

    @classmethod
    def of(cls, captured: Mapping[str, Any], name: str) -> LinearizedNorm | None:
        """The norm of that name that a layer carries, if there is one."""
        if f"{name}.gain" not in captured:
            return None
        gain, scale, shift, centred = (captured[f"{name}.{part}"] for part in ("gain", "scale", "shift", "centred"))
        return cls(gain, scale, shift, bool(centred))
