"""What is asked of a method, checked once: which attention, which layers, which head, which query positions.

Every method has the same signature. It builds a `Question`, computes relevance with the four axes
layer × head × query × input for exactly what was asked, and hands that to `Question.answer`, which drops the axes that
the caller pinned and returns the kind of array that came in.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias, cast

import numpy as np
import torch
from torch import Tensor

from attnx.attention import AttentionTensor, rows_to_one
from attnx.errors import AttentionError, ChoiceError
from attnx.long_attention import LongAttention

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Attention: TypeAlias = AttentionTensor | LongAttention | Tensor | Array
Head: TypeAlias = int | Literal["each", "mean", "max", "min"]

ROW_SUM_SLACK = 1e-4
"""How far above 1 a row may sum in single or double precision; half precision is given its own rounding."""


@dataclass(frozen=True, eq=False)
class Question:
    """One method call, with its arguments checked against the attention that they are about."""

    weights: Tensor
    layers: tuple[int, ...]
    head: Head
    positions: tuple[int, ...]
    residual: float
    drop_layer: bool
    drop_position: bool
    from_numpy: bool

    @classmethod
    def ask(
        cls,
        attention: Attention,
        *,
        layer: int | None,
        position: int | Sequence[int] | None,
        head: Head | None,
        residual: float,
    ) -> Question:
        weights = _weights(attention)
        merged = attention.merged if isinstance(attention, (AttentionTensor, LongAttention)) else None
        head = cast(Head, merged or "mean") if head is None else head
        head = check_head(head, weights.shape[1], merged)
        if not isinstance(residual, (int, float)) or not 0 <= residual <= 1:
            raise ChoiceError(f"residual is a share between 0 and 1, {residual!r} asked")
        question = cls(
            weights=weights,
            layers=tuple(range(1, len(weights) + 1)) if layer is None else (check_layer(layer, len(weights)),),
            head=head,
            positions=_positions(position, weights.shape[-1]),
            residual=residual,
            drop_layer=layer is not None,
            drop_position=position is not None and not isinstance(position, Sequence),
            from_numpy=isinstance(attention, np.ndarray),
        )
        if isinstance(attention, LongAttention):
            from attnx.methods.long_question import LongQuestion

            return LongQuestion(**vars(question), attention=attention)
        return question

    @property
    def length(self) -> int:
        return self.weights.shape[-1]

    @property
    def heads(self) -> int:
        return self.weights.shape[1]

    @property
    def device(self) -> torch.device:
        return self.weights.device

    @property
    def is_whole(self) -> bool:
        """Whether every query is asked for with heads merged: then a layer of interest is like one below."""
        return len(self.positions) == self.length and not self.drop_position and self.head in ("mean", "max", "min")

    @cached_property
    def below(self) -> Tensor:
        """layer × query × key: every layer with its heads merged and the residual added, as lower layers are used."""
        top = max(self.layers)
        return torch.stack([self._with_residual(self._merged(layer)) for layer in range(1, top + 1)])

    def top(self, layer: int) -> Tensor:
        """head × query × key of the layer of interest: the asked head or heads (Appendix A.1), or their merger."""
        if isinstance(self.head, int):
            return self._with_residual(self._checked(layer)[self.head : self.head + 1])
        if self.head == "each":
            return self._with_residual(self._checked(layer))
        return self.below[layer - 1 : layer]

    def rows(self, layer: int) -> Tensor:
        """head × asked position × key of the layer of interest."""
        return self.top(layer)[:, list(self.positions)]

    def pulled(self, vectors: Tensor, layer: int) -> Tensor:
        """vectors · A: where each vector over the queries of a layer comes from below it, vector × key."""
        return vectors @ self.below[layer - 1]

    def pushed(self, layer: int, below: Tensor | None) -> Tensor:
        """A · below for every query of a layer; A itself where nothing is below."""
        matrix = self.below[layer - 1]
        return matrix if below is None else matrix @ below

    def answer(self, relevance: Tensor) -> Any:
        """Turn layer × head × query × input into the axes and the kind of array that the caller expects."""
        if self.drop_position:
            relevance = relevance.squeeze(2)
        if self.head != "each":
            relevance = relevance.squeeze(1)
        if self.drop_layer:
            relevance = relevance.squeeze(0)
        return relevance.numpy() if self.from_numpy else relevance

    def _merged(self, layer: int) -> Tensor:
        heads = self._checked(layer)
        if self.head == "max":
            return rows_to_one(heads.amax(0))
        if self.head == "min":
            return rows_to_one(heads.amin(0))
        return heads.mean(0)

    def _checked(self, layer: int) -> Tensor:
        """head × query × key of one layer in float64; an error names the layer and the row that is not attention."""
        slack = max(ROW_SUM_SLACK, torch.finfo(self.weights.dtype).eps) if self.weights.is_floating_point() else 0.0
        heads = self.weights[layer - 1].to(torch.float64)
        sums = heads.detach().sum(-1)
        bad = ~(sums <= 1 + slack) | (heads.detach().amin(-1) < 0)
        if bool(bad.any()):
            head, row = cast(list[int], bad.nonzero()[0].tolist())
            raise AttentionError(
                f"layer {layer}, head {head}, row {row} is not attention: weights must be ≥ 0 and sum to at most 1, "
                f"found minimum {heads[head, row].min().item():.6g} and sum {sums[head, row].item():.6g}"
            )
        return heads

    def _with_residual(self, matrix: Tensor) -> Tensor:
        """A = (1 − r)·W + r·I, each row re-normalised (§3; r = 0.5 gives the paper's 0.5·W + 0.5·I)."""
        identity = torch.eye(self.length, dtype=matrix.dtype, device=matrix.device)
        return rows_to_one((1 - self.residual) * matrix + self.residual * identity)


def check_layer(layer: int, layers: int) -> int:
    layer = whole_number("layer", layer)
    if not 1 <= layer <= layers:
        raise ChoiceError(f"layer {layer} asked, model has {layers} (1 is next to the input)")
    return layer


def _positions(position: int | Sequence[int] | None, length: int) -> tuple[int, ...]:
    if position is None:
        return tuple(range(length))
    if not isinstance(position, Sequence):
        return (check_position(position, length),)
    if not position:
        raise ChoiceError("the list of positions is empty; give at least one, or None for all")
    return tuple(check_position(one, length) for one in position)


def check_position(position: int, length: int) -> int:
    """The index from 0 of a position, which may be counted from the end as in Python (−1 is the last)."""
    position = whole_number("position", position)
    if not -length <= position < length:
        raise ChoiceError(f"position {position} asked, input has {length} (0 to {length - 1}; −1 is the last)")
    return position % length


def check_head(head: Head, heads: int, merged: str | None) -> Head:
    if isinstance(head, str):
        if head not in ("each", "mean", "max", "min"):
            raise ChoiceError(f"head {head!r} is not known; give a number from 0, 'each', 'mean', 'max' or 'min'")
    else:
        head = whole_number("head", head)
    if merged and head != merged:
        raise ChoiceError(
            f"head {head!r} asked, but the heads were merged ({merged}) while capturing; capture with reduce=None"
        )
    if not isinstance(head, str) and not 0 <= head < heads:
        raise ChoiceError(f"head {head} asked, model has {heads} (0 to {heads - 1})")
    return head


def whole_number(name: str, value: Any) -> int:
    """A plain int of any whole number, numpy's too."""
    try:
        return int(operator.index(value)) if not isinstance(value, bool) else int("")
    except (TypeError, ValueError):
        raise ChoiceError(f"{name} must be a whole number, found {value!r}") from None


def _weights(attention: Any) -> Tensor:
    weights = _tensor(attention)
    if weights.ndim != 4 or weights.shape[-1] != weights.shape[-2] or 0 in weights.shape:
        hints = {
            3: "; for one head per layer add the axis: attention[:, None]",
            5: "; there is a batch axis in it: take one input, attention[:, index]",
        }
        raise AttentionError(
            f"attention must be layer × head × n × n, found shape {tuple(weights.shape)}{hints.get(weights.ndim, '')}"
        )
    # Apple's GPUs have no float64, in which every sum here is made.
    return weights.cpu() if weights.device.type == "mps" else weights


def _tensor(attention: Any) -> Tensor:
    """The weights as a tensor, also of `outputs.attentions`: a tuple of layers, each 1 × head × n × n."""
    if isinstance(attention, AttentionTensor):
        return attention.weights
    if isinstance(attention, LongAttention):
        return torch.empty(attention.layers, attention.heads, *2 * (attention.length,), device="meta")
    if isinstance(attention, Tensor):
        return attention
    try:
        if isinstance(attention, (tuple, list)) and attention and isinstance(attention[0], Tensor):
            stacked = torch.stack(tuple(attention))
            return stacked[:, 0] if stacked.ndim == 5 and stacked.shape[1] == 1 else stacked
        # torch takes neither read-only arrays nor those of another byte order.
        array = np.array(attention)
        return torch.from_numpy(array.astype(array.dtype.newbyteorder("="), copy=False))
    except (TypeError, ValueError, RuntimeError) as error:
        raise AttentionError(
            f"attention must be a layer × head × n × n array, found {type(attention).__name__}: {error}"
        ) from error
