"""The record of each attention call, and the recorder that collects them while the model runs."""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
from attnx.hooks.tracing import TensorMap, running_modules, tensors_in
from attnx.hooks.verification import DeferredCheck, verify

_HEAD_COUNTS = ("num_heads", "num_attention_heads", "n_heads", "n_head", "nhead", "num_attn_heads")


@dataclass
class FoldedHeads:
    """A call whose heads share an axis with the batch, and with windows if the model has any."""

    maps: int
    """For each input."""
    width: int
    """Of one head's values."""
    configured: int | None
    """The number of heads by the module or its config."""
    projected: int | None = None
    """The width of all heads together, known where they enter the output projection."""

    @property
    def heads(self) -> int | None:
        """By the shape of the values, else by the config."""
        if self.projected is not None and self.projected % self.width == 0:
            return self.projected // self.width
        return 1 if self.maps == 1 else self.configured

    def check(self, module: str, positions: int) -> None:
        """That the maps are heads and nothing else."""
        if self.heads == self.maps:
            return
        if self.heads is None:
            raise CaptureError(
                f"attention in {module or 'the model'} has {self.maps} maps of {positions} positions, and neither "
                "the model's config nor an output projection says whether they are heads or windows"
            )
        raise CaptureError(
            f"attention in {module} is in windows: {self.maps} maps of {positions} positions, but {self.heads} heads"
        )


def _configured_heads(module: Any) -> int | None:
    for owner in (module, getattr(module, "config", None)):
        for name in _HEAD_COUNTS:
            count = getattr(owner, name, None)
            if isinstance(count, int) and count > 0:
                return count
    return None


def join_predicting_streams(
    weights: Tensor, values: Tensor, stream_weights: Tensor, stream_values: Tensor
) -> Tensor | None:
    """batch × head × m × m for m = (1 + streams) · n; None where these are not ProphetNet's two calls.

    `weights` are those of the tokens, batch × head × n × n, `stream_weights` those of the streams that predict,
    batch × stream × head × n × 2n, whose first n keys are the tokens: their values are the same in both calls.
    """
    batch, streams, heads, length, keys = stream_weights.shape
    if weights.shape != (batch, heads, length, length) or keys != 2 * length:
        return None
    if stream_values.ndim != 5 or values.shape != (batch, heads, length, stream_values.shape[-1]):
        return None
    token_values = stream_values[..., :length, :]
    if not torch.equal(token_values, values[:, None].expand_as(token_values)):
        return None
    size = (1 + streams) * length
    joined = weights.new_zeros(batch, heads, size, size)
    joined[..., :length, :length] = weights
    for stream in range(streams):
        positions = slice((1 + stream) * length, (2 + stream) * length)
        joined[..., positions, :length] = stream_weights[:, stream, ..., :length]
        joined[..., positions, positions] = stream_weights[:, stream, ..., length:]
    return joined


_CONVOLUTIONS = {"conv1d", "conv2d", "conv3d"}
_MIXING = {"unfold", "lstm", "gru", "rnn_tanh", "rnn_relu", "fft_fft", "fft_rfft", "fft_fftn", "fft_fft2"}
"""Names of functions that move something from one position to another; so do convolutions wider than 1."""
_SAMPLING = "grid_sample"
"""Deformable attention reads its input by it: at a few points between positions, without a map."""


def mixers_beside(attention: Sequence[str], mixers: Iterable[str]) -> tuple[str, ...]:
    """Of the modules that mix positions, those inside a layer of attention, with # for the layer's number."""
    layers = {layer for module in attention for layer in _layer_prefix(module, attention)}
    names = [name for name in mixers if any(name.startswith(layer) for layer in layers)]
    return tuple(dict.fromkeys(re.sub(r"\d+", "#", name) for name in names))


def _layer_prefix(module: str, attention: Sequence[str]) -> list[str]:
    """ "a.layers.3." of "a.layers.3.attn", if no other module of attention has it."""
    for end in re.finditer(r"(?:^|\.)\d+\.", module):
        prefix = module[: end.end()]
        if not any(other.startswith(prefix) for other in attention if other != module):
            return [prefix]
    return []


def check_sampling(sampling: Iterable[str], model_name: str, module: str = "") -> None:
    """Refuse layers that attend by sampling: the attention seen beside it is not the model's."""
    layer = next((name for name in sampling if name.startswith(module) and re.search(r"\.\d+\.", name)), None)
    if layer is not None:
        raise CaptureError(
            f"{model_name} attends by sampling in {layer} (deformable attention), which has no map over positions, so "
            "the attention that is seen beside it is not the model's; use a model of the same task that attends over "
            "all positions (DETR without deformable attention, a ViT), or Captum, which needs no map"
        )


class DataFlow:
    """The attention calls that each living tensor descends from, as bits: 1 << number of the call."""

    def __init__(self) -> None:
        self._sources: TensorMap[int] = TensorMap()

    def sources(self, *nested: Any) -> int:
        calls = 0
        for tensor in tensors_in(nested):
            calls |= self._sources.get(tensor) or 0
        return calls

    def set_sources(self, nested: Any, calls: int) -> None:
        for tensor in tensors_in(nested):
            if calls or self._sources.get(tensor):
                self._sources[tensor] = calls

    def propagate(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> None:
        """From the operands of a function to its result, and to what it wrote into."""
        if not self._sources or isinstance(result, (int, torch.Size, torch.dtype, torch.device)):
            return  # most calls: no attention yet, or only a shape was read
        calls = self.sources(*args, *kwargs.values())
        self.set_sources(result, calls)
        in_place = name == "__setitem__" or (name.endswith("_") and not name.endswith("__"))
        if in_place and args and isinstance(args[0], Tensor):
            self.set_sources(args[0], calls)
            if args[0]._base is not None:
                self.set_sources(args[0]._base, calls | self.sources(args[0]._base))

    def clear(self) -> None:
        self._sources.clear()


@dataclass(frozen=True, eq=False)
class NormCall:
    """A call of a module that may be a norm: it has a number for each channel, and no modules inside."""

    module: nn.Module
    input: Tensor
    output: Tensor


@dataclass(eq=False)
class BlockCall:
    """A call of a block."""

    module: nn.Module
    input: Tensor
    """batch × position × width: the residual stream."""
    first_record: int
    """How many attention calls there were before it."""
    precision: torch.dtype
    """In which it computes: that of the input, or of an autocast."""
    norms: list[NormCall] = field(default_factory=list)
    children: list[Tensor] = field(default_factory=list)
    """Outputs of the block's own modules."""
    output: Tensor | None = None
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    """Its arguments, where it is to be called again."""


@dataclass(frozen=True, eq=False)
class ResidualAdd:
    """How the attention of a batch is added to the residual stream: r = x + branch(Σ T + bias), and what follows r."""

    states: Tensor
    """batch × position × width: x."""
    bias: Tensor
    """Of the output projection, zeros where it has none."""
    branch: LinearizedNorm | None
    """A norm, or a constant for each channel, on attention's own branch."""
    norm: LinearizedNorm | None
    """The norm after the sum, where its output goes on (post-LN); None where r goes on."""
    last: LinearizedNorm | None
    """The norm that ends the block, if it is another one."""
    miss: float
    """How far the sum is from the observed one, as a share of its largest number."""
    observed: Tensor
    """batch × row × width: the observed sum, and at which positions."""
    rows: list[int] | slice
    branch_norm: NormCall | None = None
    """The norm of the branch, if it is one."""

    def captured(self, index: int, kept: Tensor | None) -> dict[str, Tensor]:
        """Of one input, without its padding, as a layer carries it."""

        def unpadded(tensor: Tensor) -> Tensor:
            return tensor[index] if kept is None else tensor[index][kept.to(tensor.device)]

        tensors = {"states": unpadded(self.states), "bias": self.bias, "miss": torch.tensor(self.miss)}
        for name, norm in (("branch", self.branch), ("norm", self.norm), ("last", self.last)):
            if norm is not None:
                tensors |= replace(norm, scale=unpadded(norm.scale)).captured(name)
        return tensors


Merging: TypeAlias = HeadReduction | Callable[[Tensor], Tensor] | None
"""What is kept of a layer's batch × head × query × key weights as they arrive; None keeps every head."""

Extra: TypeAlias = Literal["values", "projections", "gates", "blocks", "rest"]
"""What else is kept of each call; "blocks" (how attention is added to the residual stream) and "rest" (what a block
does after that) bring along what they need."""

_IMPLIED: dict[Extra, tuple[Extra, ...]] = {
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
    """(batch or 1) × query × key, false where masked; None when nothing was masked."""
    values: Tensor | None = None
    """batch × head × key × width; each head is shared by a group of query heads."""
    projection: Tensor | None = None
    """output × (head · width)."""
    bias: Tensor | None = None
    """Of the projection."""
    residual: ResidualAdd | CaptureError | None = None
    """How attention is added to the residual stream, or why that is not known."""
    block: BlockCall | None = None
    """The outermost block in which it is the only attention."""
    gate: Tensor | None = None
    """batch × head × query × width: the factor of mixed values before the projection; None for none."""
    mixed: Tensor | None = None
    """batch × head × query × width: weights times values, until compared with what enters the projection."""
    mismatch: str = ""
    """Why values and projection do not give what the block wrote."""
    outputs: Tensor | None = None
    """Of each head, in the model's autograd graph, where gradients go back to the input."""
    computed: tuple[ComputedLayer | RecomputedLayer, ...] = ()
    """Queries and keys, or how to recompute them, one for each input."""
    number: int = 0
    """Among the calls of the run, including those left out later."""
    sources: int = 0
    """The calls that queries, keys and values descend from, as bits."""
    value_sources: int = 0
    """Those of the values alone: in cross-attention, of another sequence."""
    copies: int = 1
    """Positions for each token: its own, and those of streams that predict."""
    folded: FoldedHeads | None = None
    positions_kept: int | None = None
    """Positions of its output that are added to the block's input; None where that was not observed."""

    def follows(self, other: Record) -> bool:
        """Whether this call read what another one wrote."""
        return bool(self.sources >> other.number & 1)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """batch, heads, queries and keys."""
        if self.weights is not None:
            batch, heads, queries, keys = self.weights.shape
            return batch, heads, queries, keys
        layer = self.computed[0]
        return len(self.computed), layer.heads, layer.query_slice.stop, layer.mask.length

    def totals(self) -> list[Tensor]:
        """Sums that are finite where everything kept is."""
        if self.weights is not None:
            return [total(self.weights)]
        return [
            layer.total if isinstance(layer, RecomputedLayer) else total(layer.query, layer.key)
            for layer in self.computed
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
        to_input: bool = False,
    ) -> None:
        extras = tuple({name for extra in extras for name in (extra, *_IMPLIED.get(extra, ()))})
        if "blocks" in extras and head is not None:
            raise ChoiceError(f"blocks are taken apart head by head, but head={head!r} merges them; use head=None")
        self.model, self.batch, self.held, self.extras = model, batch, held, extras
        self.gradients, self.to_input = gradients, to_input
        self.calls: list[Record] = []
        """What was recorded so far, while the model runs."""
        self.checks: list[DeferredCheck] = []
        self.flow = DataFlow()
        self.mixers: list[str] = []
        """Modules that mixed positions otherwise, in the order of the calls."""
        self.sampling: list[str] = []
        """Modules that read positions by sampling."""
        self.head = head if head is None or isinstance(head, str) else getattr(head, "__name__", "merged")
        self._merge = _merger(head)
        self._masks: dict[tuple[Any, ...], Mask] = {}
        self._latest: tuple[weakref.ref[Tensor], weakref.ref[Tensor]] | None = None
        self._modules = dict(model.named_modules())
        self._names = {id(module): name for name, module in self._modules.items()}

    @property
    def records(self) -> list[Record]:
        """What was recorded, when the run is over and its checks have passed."""
        checks, self.checks = self.checks, []
        verify(checks)
        return self.calls

    def add(self, weights: Tensor, visible: Tensor | None, values: Tensor, module: nn.Module | None = None) -> Record:
        """Record one call. `weights` may come as (batch · head) × query × key, as models that use `bmm` have it."""
        name = self._name(module)
        if weights.ndim == 5 and self._join_streams(weights, values, name):
            return self.records[-1]
        self._latest = weakref.ref(weights), weakref.ref(values)
        folded = None
        if weights.ndim == 3:
            configured = _configured_heads(self._modules.get(name))
            folded = FoldedHeads(len(weights) // self.batch, values.shape[-1], configured)
        weights = self._by_head(weights, name)
        if weights.dtype in (torch.float16, torch.bfloat16):
            weights = weights.float()
            # Each weight was rounded by itself, which brings some rows above 1: more than attention has to give.
            weights = weights / weights.detach().sum(-1, keepdim=True).clamp(min=1)
        if visible is not None:
            visible = self._by_input(visible, weights, name)
        record = Record(name, self._merged(weights), visible, folded=folded)
        if self.extras and self._mixes(record, weights, values):
            self._keep_values(record, values)
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
        **options: Any,
    ) -> Record:
        """Record queries and keys of one call instead of its weights; `options` are further fields of `ComputedLayer`.

        `sums` are those of its rows, batch × head × query, where the kernel returns them. Queries and keys are copied:
        a model's own are often views of one buffer, which would keep the values alive.
        """
        name = self._name(module)
        query, key = self._by_head(query, name).detach(), self._by_head(key, name).detach()
        layers = []
        for index in range(len(query)):
            source = None if mask is None else mask[min(index, len(mask) - 1)]
            keys = copied(_each_once(key[index]))
            row_sums = None if sums is None else sums[index].clone()
            layer_mask = self._mask(source, keys, causal=causal)
            layers.append(ComputedLayer(copied(query[index]), keys, layer_mask, sums=row_sums, module=name, **options))
        record = Record(name, None, computed=tuple(layers))
        self._keep_values(record, value)
        return self._append(record)

    def observe(self, name: str, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> None:
        """A function of torch was called, which may matter though it is no attention."""
        self.flow.propagate(name, args, kwargs, result)
        if name in _CONVOLUTIONS:
            weight = kwargs.get("weight", args[1] if len(args) > 1 else None)
            if isinstance(weight, Tensor) and any(size > 1 for size in weight.shape[2:]):
                self.mixers.append(self._name())
        elif name in _MIXING:
            self.mixers.append(self._name())
        elif name == _SAMPLING:
            self.sampling.append(self._name())

    def set_output(self, record: Record, operands: Sequence[Any], output: Tensor) -> None:
        """What a call read, its values last, and what it made of it."""
        record.sources, record.value_sources = self.flow.sources(*operands), self.flow.sources(operands[-1])
        if self.to_input and record.outputs is None:
            record.outputs = output
        self.flow.set_sources(output, record.sources | 1 << record.number)

    def _name(self, module: nn.Module | None = None) -> str:
        """Of the module, or of the innermost one whose code is running."""
        index = next(running_modules(self._names), None) if module is None else id(module)
        return self._names.get(index, "") if index is not None else ""

    def _append(self, record: Record) -> Record:
        record.number = len(self.calls)
        self.calls.append(record)
        return record

    def _merged(self, weights: Tensor) -> Tensor:
        weights = self._merge(weights) if self._merge else weights
        return weights if self.gradients else weights.detach()

    def _keep_values(self, record: Record, values: Tensor) -> None:
        if "values" in self.extras:
            values = self._by_head(values, record.module)
            record.values = values if self.gradients else _each_once(values.detach().transpose(0, 1)).transpose(0, 1)

    def _join_streams(self, weights: Tensor, values: Tensor, name: str) -> bool:
        """Whether a call is of streams that predict, beside the tokens of the call before; the two are one then."""
        tensors = [] if self._latest is None else [reference() for reference in self._latest]
        if None in tensors or not tensors or not self.records or self.records[-1].module != name:
            return False
        joined = join_predicting_streams(tensors[0], tensors[1], weights, values)  # type: ignore[arg-type]
        if joined is None:
            return False
        record = self.records[-1]
        record.weights, record.visible = self._merged(joined), joined.detach().amax(1) > 0
        record.copies = 1 + weights.shape[1]
        record.mismatch = "tokens, and the positions that predict them, are written by two calls"
        record.mixed = record.values = None
        return True

    def _mask(self, source: Tensor | None, key: Tensor, *, causal: bool) -> Mask:
        """The mask of one call; calls that read the same memory share it."""
        memory = None if source is None else (source.data_ptr(), *source.shape, *source.stride())
        name = (memory, key.shape[1], key.device, causal)
        return self._masks.setdefault(name, Mask(key.shape[1], key.device, source, triangular=causal))

    def _mixes(self, record: Record, weights: Tensor, values: Tensor) -> bool:
        """Whether the values have the layout of the weights; what they make together is checked later."""
        values = repeat_kv(self._by_head(values, record.module), weights.shape[1])
        if values.shape[:2] != weights.shape[:2] or values.shape[2] != weights.shape[3]:
            record.mismatch = f"values of {tuple(values.shape)} do not belong to weights of {tuple(weights.shape)}"
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

    def _by_head(self, tensor: Tensor, name: str) -> Tensor:
        if tensor.ndim == 4:
            return tensor
        if tensor.ndim == 3 and tensor.shape[0] % self.batch == 0:
            return tensor.reshape(self.batch, -1, *tensor.shape[1:])
        raise CaptureError(
            f"attention in {name or 'the model'} has shape {tuple(tensor.shape)}, not batch × head × query × key: "
            "bands or blocks, in which a position sees some of the others (such as LongT5's), without an n × n map"
        )


def total(*tensors: Tensor) -> Tensor:
    """The sum of all, in at least float32: queries and keys may overflow in half precision."""
    return torch.stack([x.detach().sum(dtype=torch.promote_types(x.dtype, torch.float32)) for x in tensors]).sum()


def can_be_computed(query: Tensor, key: Tensor) -> bool:
    """Whether a call is attention of an input to itself, in the layout of `ComputedLayer`."""
    return query.ndim == 4 and key.ndim == 4 and query.shape[-2] == key.shape[-2]


def batch_mask(mask: Tensor | None, query: Tensor, key: Tensor) -> Tensor | None:
    """The kernel's mask as (batch or 1) × (head or 1) × query × key, without a copy."""
    if mask is None:
        return None
    mask = mask[(None,) * (4 - mask.ndim)]
    return mask.expand(-1, -1, query.shape[-2], key.shape[-2])


def _each_once(keys: Tensor) -> Tensor:
    """Keys without the repetition that grouped-query models make for kernels that cannot share them."""
    heads = len(keys)
    if heads == 1 or not torch.equal(keys[0], keys[1]):
        return keys
    for size in (size for size in range(heads, 1, -1) if heads % size == 0):
        groups = keys.reshape(-1, size, *keys.shape[1:])
        if torch.equal(groups, groups[:, :1].expand_as(groups)):
            return groups[:, 0]
    return keys


def copied(tensor: Tensor) -> Tensor:
    # Apple's GPUs have no float64, in which sums over rows are made.
    return (
        tensor.cpu().contiguous()
        if tensor.device.type == "mps"
        else tensor.clone(memory_format=torch.contiguous_format)
    )


def _merger(head: Merging) -> Callable[[Tensor], Tensor] | None:
    if isinstance(head, str):
        if head not in HEAD_REDUCTIONS:
            raise ChoiceError(f"head={head!r} is not known; give 'mean', 'max', 'min', a function, or None to keep all")
        return lambda weights: merge_heads(weights, head, dim=1).unsqueeze(1)
    if head is not None and not callable(head):
        raise ChoiceError(
            f"head={head!r}: capture keeps all heads (None) or merges them ('mean', 'max', 'min', or a function); "
            "a method picks one of them"
        )
    return head
