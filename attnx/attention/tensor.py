"""The attention of one input, layer by layer from the input up: what every graph is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnx._signals import cached_property
from attnx.attention.layers import AttentionLayer, MaterializedLayer, pad_keys, repeat_kv
from attnx.attention.masks import Mask
from attnx.attention.sequences import causal_sequence, layer_number, layers_of_kind
from attnx.errors import AttentionError


@dataclass(frozen=True, eq=False)
class AttentionTensor:
    """The attention of one input through all layers of a model: layer × head × n × n, materialized or computed by rows.

    `weights[layer, head, query, key]` is what `query` gave to `key`; index 0 is the layer closest to the input, which
    the rest of attnx calls layer 1. `visible[layer, query, key]` is true where the mask (causal, window, padding)
    let the query attend at all.

    An encoder–decoder has two `sequences`, "source" and "output", whose positions stand in one count. Its layers are
    counted from the input up through both, and have names: "encoder 1", "self 2", "cross 2" (see `number`).

    Example:
        >>> AttentionTensor.of(np.full((2, 1, 3, 3), 1 / 3))
        AttentionTensor(2 layers, 1 heads, 3 positions)
    """

    layers: tuple[AttentionLayer, ...]
    head: str | None = None
    """How the heads were merged as they arrived ("mean", …); None when every head is there."""
    stacked: Tensor | None = None
    """layer × head × n × n, of which the layers are views, where all is in memory."""
    sequences: Mapping[str, slice] = field(default_factory=dict)
    """Name → its positions, where there are several, in the order of the count."""
    copies: int = 1
    """How many positions of the output there are for each token: 1, or 1 + the streams that predict (ProphetNet's). The
    tokens' stand first; those of a stream hold no token, and the first stream's predict what comes next."""

    def __post_init__(self) -> None:
        if not self.layers or len({layer.mask.length for layer in self.layers}) != 1:
            raise AttentionError("attention needs layers, all over the same positions")

    @classmethod
    def of(
        cls, weights: Any, visible: Any = None, *, modules: Sequence[str] = (), head: str | None = None
    ) -> AttentionTensor:
        """Attention that you computed yourself.

        Args:
            weights: layer × head × n × n: a tensor, an array, or a tuple of layers as `outputs.attentions`.
            visible: layer × n × n, true where a query may attend. Without it the attention is causal if no query in
                any layer gives weight to a later key, and else sees everything. Other zeros are not taken for a mask:
                half precision makes them, too.
            modules: The names of the modules that attended.
            head: How heads were merged, where they were.

        Returns:
            The attention as every method takes it.

        Raises:
            AttentionError: If these are no such numbers, or their shapes do not fit.
        """
        weights = _four_axes(_tensor(weights))
        names = tuple(modules) or ("",) * len(weights)
        if len(names) != len(weights):
            raise AttentionError(f"{len(weights)} layers, but {len(names)} names of modules")
        masks = _masks(weights, visible)
        layers = [
            MaterializedLayer(weight, mask, module=name)
            for weight, mask, name in zip(weights, masks, names, strict=True)
        ]
        return cls(tuple(layers), head, weights)

    @property
    def num_layers(self) -> int:
        return len(self.layers)

    @property
    def num_heads(self) -> int:
        return max(layer.heads for layer in self.layers)

    @property
    def length(self) -> int:
        """n, the number of input positions."""
        return self.layers[0].mask.length

    @property
    def tokens(self) -> int:
        """How many positions hold an input: all but those of streams that predict."""
        return self.length - self._shift * (self.copies - 1)

    def prediction_position(self, position: int) -> int:
        """The position whose row predicts what comes after one: itself, or that of a predicting stream."""
        return position + self._shift if self.copies > 1 and position >= self.sequences["output"].start else position

    @property
    def _shift(self) -> int:
        """How many tokens the output has."""
        return (self.length - self.sequences["output"].start) // self.copies if self.copies > 1 else 0

    @property
    def device(self) -> torch.device:
        return self.layers[0].mask.device

    @property
    def kinds(self) -> tuple[str, ...]:
        """What each layer is among several sequences: "encoder", "self" or "cross"; empty names where there is one."""
        return tuple(layer.kind for layer in self.layers)

    def layers_of_kind(self, kind: str) -> tuple[int, ...]:
        """The numbers, from 1, of the layers of a kind, from the input up: `layers_of_kind("cross")`."""
        return layers_of_kind(self.kinds, kind)

    def number(self, layer: int | str) -> int:
        """The number of a layer that is named ("cross 2" is the second of its kind, "cross" the last), or numbered."""
        return layer_number(self.kinds, layer)

    @property
    def written(self) -> slice | None:
        """The positions that see no later ones of their sequence: a whole decoder, the output of an encoder–decoder."""
        return causal_sequence(self.layers, self.sequences)

    @property
    def modules(self) -> tuple[str, ...]:
        return tuple(layer.module for layer in self.layers)

    @property
    def whole(self) -> bool:
        """Whether every layer is in memory."""
        return all(layer.whole for layer in self.layers)

    @property
    def held(self) -> tuple[str, ...]:
        """The modules whose attention is in memory, n × n numbers each."""
        return tuple(layer.module for layer in self.layers if layer.whole)

    @property
    def causal(self) -> bool:
        """Whether no query could see a later position, in any layer. One position alone is not called causal, and of
        several sequences one at most is (see `written`)."""
        return self.length > 1 and not self.sequences and all(layer.mask.causal for layer in self.layers)

    @property
    def weights(self) -> Tensor:
        """layer × head × n × n, where all is in memory; rows of positions that do not attend in a layer are 0."""
        if self.sequences and self.whole and len({layer.heads for layer in self.layers}) == 1:
            return torch.stack([_among_all(layer) for layer in self.layers])
        if self.stacked is None:
            numbers = sum(layer.heads for layer in self.layers) * self.length**2
            raise AttentionError(
                f"this attention is computed where it is read; all of it would be {numbers:,} numbers. Capture with "
                "held=True to have them, or ask a method for rows"
            )
        return self.stacked

    @cached_property
    def visible(self) -> Tensor:
        """layer × query × key; layers that share one mask share its memory."""
        masks = {id(layer.mask): layer.mask for layer in self.layers}
        seen = {key: mask.visible(0, self.length) for key, mask in masks.items()}
        if len(seen) == 1:
            return next(iter(seen.values())).expand(self.num_layers, -1, -1)
        return torch.stack([seen[id(layer.mask)] for layer in self.layers])

    def captured(self, name: str) -> tuple[Tensor, ...] | None:
        """What else was captured, a tensor a layer ("values", "projections"); None where it was not requested."""
        tensors = tuple(layer.captured[name] for layer in self.layers if name in layer.captured)
        return tensors if len(tensors) == len(self.layers) else None

    @property
    def values(self) -> tuple[Tensor, ...] | None:
        """Per layer, head × key × width: what was mixed, repeated for heads that share it (GQA)."""
        result = self.captured("values")
        if result is None or self.head is not None:
            return result
        return tuple(repeat_kv(tensor[None], layer.heads)[0] for tensor, layer in zip(result, self.layers, strict=True))

    @property
    def projections(self) -> tuple[Tensor, ...] | None:
        """Per layer, output × (head · width): the matrix that the mixed values of all heads go through."""
        return self.captured("projections")

    @property
    def gates(self) -> tuple[Tensor, ...] | None:
        """Per layer, head × query × width: what mixed values are multiplied by before the projection; 1 for nothing."""
        return self.captured("gates")

    @property
    def differentiable(self) -> tuple[Tensor, ...] | None:
        """Per layer, batch × head × query × key: tensors of the model's own autograd graph."""
        return self.captured("differentiable")

    def numpy(self) -> np.ndarray[Any, np.dtype[Any]]:
        """The weights as a numpy array, copied from the device when they are not on the CPU."""
        array: np.ndarray[Any, np.dtype[Any]] = self.weights.detach().cpu().numpy()
        return array

    def __repr__(self) -> str:
        heads = f"{self.head} of heads" if self.head else f"{self.num_heads} heads"
        kind = ", causal" if self.causal else ""
        kind += "" if self.whole else ", computed where it is read"
        if not self.sequences:
            return f"AttentionTensor({self.num_layers} layers, {heads}, {self.length} positions{kind})"
        layers = ", ".join(f"{self.kinds.count(name)} {name}" for name in dict.fromkeys(self.kinds))
        lengths = " + ".join(f"{part.stop - part.start} {name}" for name, part in self.sequences.items())
        return f"AttentionTensor({layers} layers, {heads}, {lengths} positions{kind})"


def _among_all(layer: AttentionLayer) -> Tensor:
    """head × n × n of a layer of one sequence, among the positions of all."""
    length = layer.mask.length
    queries = layer.query_slice
    rows = pad_keys(layer.rows(queries.start, queries.stop), length)
    weights = rows.new_zeros(len(rows), length, length)
    weights[:, queries] = rows
    return weights


def as_attention(attention: Any) -> AttentionTensor:
    """Attention in any form: an `AttentionTensor`, a tensor, an array, or a tuple of layers."""
    return attention if isinstance(attention, AttentionTensor) else AttentionTensor.of(attention)


def _tensor(attention: Any) -> Tensor:
    """The weights as a tensor, also of `outputs.attentions`: a tuple of layers, each 1 × head × n × n."""
    if isinstance(attention, Tensor):
        if attention.layout is not torch.strided or attention.device.type == "meta" or attention.is_complex():
            raise AttentionError("attention must be plain numbers: not sparse, not complex, and not on the meta device")
        return attention
    try:
        if isinstance(attention, (tuple, list)) and attention and isinstance(attention[0], Tensor):
            stacked = torch.stack(tuple(attention))
            return stacked[:, 0] if stacked.ndim == 5 and stacked.shape[1] == 1 else stacked
        # torch takes neither read-only arrays nor those of another byte order.
        array = np.array(attention)
        if array.dtype.kind not in "fiub":
            raise TypeError(f"numbers of type {array.dtype} are none that attention is made of")
        return torch.from_numpy(array.astype(array.dtype.newbyteorder("="), copy=False))
    except (TypeError, ValueError, RuntimeError) as error:
        raise AttentionError(
            f"attention must be a layer × head × n × n array, found {type(attention).__name__}: {error}"
        ) from error


def _four_axes(weights: Tensor) -> Tensor:
    if weights.ndim != 4 or weights.shape[-1] != weights.shape[-2] or 0 in weights.shape:
        hints = {
            3: "; for one head per layer add the axis: attention[:, None]",
            5: "; there is a batch axis in it: take one input, attention[:, index]",
        }
        raise AttentionError(
            f"attention must be layer × head × n × n, found shape {tuple(weights.shape)}{hints.get(weights.ndim, '')}"
        )
    # Apple's GPUs have no float64, in which every sum is made.
    return weights.cpu() if weights.device.type == "mps" else weights


_FEW = 2**20
"""Numbers that may be looked through at once."""


def _masks(weights: Tensor, visible: Any) -> list[Mask]:
    """A mask for each layer, the same object where it is the same mask."""
    layers, length, device = len(weights), weights.shape[-1], weights.device
    if visible is None:
        # The first row tells at once of most arrays; a causal one has to be looked through.
        tensor = weights.detach()
        parts = [tensor] if tensor.numel() < _FEW else tensor  # a copy of all of a large one would be too much
        looks_ahead = bool(tensor[:, :, 0, 1:].any()) or any(bool(part.triu(1).any()) for part in parts)
        return [Mask(length, device, triangular=length > 1 and not looks_ahead)] * layers
    visible = _tensor(visible).to(device)
    if visible.shape != (layers, length, length):
        raise AttentionError(
            f"visible must be layer × n × n = {(layers, length, length)}, found {tuple(visible.shape)}"
        )
    if visible.stride(0) == 0:
        return [Mask(length, device, visible[0].bool())] * layers
    return [Mask(length, device, layer.bool()) for layer in visible]
