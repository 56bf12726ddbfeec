"""What is asked of a method, checked once: which attention, which layers, which head, which query positions.

Every method has the same signature. It builds a `Question`, computes relevance with the four axes
layer × head × query × input for exactly what was asked, and hands that to `Question.answer`, which drops the axes that
the caller pinned and returns the kind of array that came in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias, cast

import numpy as np
import torch
from torch import Tensor

from attnx.attention import AttentionTensor, rows_to_one
from attnx.errors import AttentionError, ChoiceError
from attnx.long_attention import LongAttention
from attnx.methods.choices import Head, check_head, check_layer, check_position, check_positions
from attnx.methods.discard import check_share, discarded
from attnx.methods.receptive_field import Normalize, by_column, check_normalize
from attnx.methods.visibility import first_seen, visible_keys
from attnx.methods.weights import attention_weights

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Attention: TypeAlias = AttentionTensor | LongAttention | Tensor | Array

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
    normalize: Normalize | None
    drop_sink: bool
    discard: float
    spare: int | None
    mask: Callable[[], Tensor]
    """What each query can see; asked only where it matters, for it may have to be read off the weights."""
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
        normalize: Normalize | None = None,
        drop_sink: bool = False,
        discard: float = 0.0,
        spare: int | None = 0,
    ) -> Question:
        weights = attention_weights(attention)
        merged = attention.merged if isinstance(attention, (AttentionTensor, LongAttention)) else None
        head = cast(Head, merged or "mean") if head is None else head
        head = check_head(head, weights.shape[1], merged)
        if not isinstance(residual, (int, float)) or not 0 <= residual <= 1:
            raise ChoiceError(f"residual is a share between 0 and 1, {residual!r} asked")
        question = cls(
            weights=weights,
            layers=tuple(range(1, len(weights) + 1)) if layer is None else (check_layer(layer, len(weights)),),
            head=head,
            positions=check_positions(position, weights.shape[-1]),
            residual=residual,
            normalize=check_normalize(normalize),
            drop_sink=drop_sink,
            discard=check_share(discard),
            spare=None if spare is None else check_position(spare, weights.shape[-1]),
            mask=lambda: visible_keys(attention, weights),
            drop_layer=layer is not None,
            drop_position=position is not None and not isinstance(position, Sequence),
            from_numpy=isinstance(attention, np.ndarray),
        )
        if isinstance(attention, LongAttention):
            from attnx.methods.long_question import LongQuestion

            if discard:
                raise ChoiceError("discard needs all weights of a layer at once, which a long input does not keep")
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
        """Whether every query is asked for, in order and with heads merged: a layer of interest is like one below."""
        in_order = self.positions == tuple(range(self.length))
        return in_order and not self.drop_position and self.head in ("mean", "max", "min")

    @cached_property
    def visible(self) -> Tensor:
        """layer × query × key: what each query can see."""
        return self.mask()

    def queries_seeing(self, layer: int) -> Tensor:
        """How many queries can see each key."""
        return self.visible[layer - 1].sum(0)

    @cached_property
    def seen(self) -> Tensor:
        """Whether any query of any layer sees a position; what none sees is padding."""
        return torch.stack([self.queries_seeing(layer) > 0 for layer in range(1, len(self.weights) + 1)]).any(0)

    @cached_property
    def causal(self) -> bool:
        """Whether no query sees a later position, in any layer."""
        return not bool(self.visible.triu(1).any())

    @cached_property
    def sink(self) -> int | None:
        """The position that is dropped as a key, if any is."""
        return first_seen(self.seen, causal=self.causal) if self.drop_sink else None

    def uninformed(self) -> Question:
        """The same question about the model that spreads each query's attention evenly over what it can see."""
        mask = self.visible
        shared = mask.stride(0) == 0  # as `capture` makes it where all layers have one mask
        even = rows_to_one((mask[:1] if shared else mask).to(torch.float64))[:, None]
        weights = even.expand(len(mask), -1, -1, -1)
        return replace(self, weights=weights, head="mean", normalize=None, discard=0.0, mask=lambda: mask)

    @cached_property
    def below(self) -> Tensor:
        """layer × query × key: every layer with its heads merged and the residual added, as lower layers are used."""
        top = max(self.layers)
        if self.weights.stride(0) == 0 and self.normalize is None:  # all layers are one, as in an uninformed model
            return self._with_residual(self._merged(1), 1).expand(top, -1, -1)
        return torch.stack([self._with_residual(self._merged(layer), layer) for layer in range(1, top + 1)])

    def top(self, layer: int) -> Tensor:
        """head × query × key of the layer of interest: the asked head or heads (Appendix A.1), or their merger."""
        if self.head in ("mean", "max", "min"):
            return self.below[layer - 1 : layer]
        return self._with_residual(self._alone(layer), layer)

    def rows(self, layer: int) -> Tensor:
        """head × asked position × key of the layer of interest."""
        places = list(self.positions)
        if self.head in ("mean", "max", "min"):
            return self.below[layer - 1 : layer, places]
        return self._with_residual(self._alone(layer)[:, places], layer, places)

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
            heads = rows_to_one(heads.amax(0))
        elif self.head == "min":
            heads = rows_to_one(heads.amin(0))
        else:
            heads = heads.mean(0)
        return discarded(heads, self.discard, self.spare)

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

    def _alone(self, layer: int) -> Tensor:
        """head × query × key of the head or heads that were asked for, none merged."""
        heads = self._checked(layer)
        heads = heads[self.head : self.head + 1] if isinstance(self.head, int) else heads
        return discarded(heads, self.discard, self.spare)

    def _with_residual(self, matrix: Tensor, layer: int, queries: Sequence[int] | None = None) -> Tensor:
        """A = (1 − r)·W + r·I, each row re-normalised (§3; r = 0.5 gives the paper's 0.5·W + 0.5·I).

        The rows are those of some queries, or of all.
        """
        identity = torch.eye(self.length, dtype=matrix.dtype, device=matrix.device)
        identity = identity if queries is None else identity[queries]
        return rows_to_one((1 - self.residual) * self._adjusted(matrix, layer) + self.residual * identity)

    def _adjusted(self, matrix: Tensor, layer: int, keys: slice = slice(None)) -> Tensor:
        """Rows of W over some keys, without the sink and with columns normalised, where that is asked for."""
        if self.sink is not None:
            kept = torch.arange(self.length, device=matrix.device) != self.sink
            matrix = matrix * kept[keys]
        return by_column(matrix, self.queries_seeing(layer)[keys]) if self.normalize == "column" else matrix
