"""The uninformed model of a long input: every query spreads its attention evenly over what it can see.

Behind a plain causal mask a product with a layer is a sum from the end, and costs n instead of n².
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from attnx.attention import rows_to_one
from attnx.long_attention import Block, LayerRows, LongAttention, QueriesAndKeys
from attnx.methods.long_question import LongQuestion


@dataclass(frozen=True, eq=False)
class EvenRows:
    """A layer with the mask of another, and one head that prefers nothing."""

    layer: LayerRows
    heads: int = 1

    @property
    def length(self) -> int:
        return self.layer.length

    @property
    def device(self) -> torch.device:
        return self.layer.device

    @property
    def is_plainly_causal(self) -> bool:
        return isinstance(self.layer, QueriesAndKeys) and self.layer.causal and self.layer.mask is None

    def rows(self, start: int, stop: int) -> Block:
        return Block(0, rows_to_one(self.visible(start, stop).to(torch.float64))[None])

    def visible(self, start: int, stop: int) -> Tensor:
        return self.layer.visible(start, stop)

    def cropped(self, kept: Tensor, mask: Tensor | None) -> EvenRows:
        return EvenRows(self.layer.cropped(kept, mask))


@dataclass(frozen=True, eq=False)
class EvenQuestion(LongQuestion):
    """A question about a stack of `EvenRows`."""

    def pulled(self, vectors: Tensor, layer: int) -> Tensor:
        kept = self.attention.stack[layer - 1]
        if not (isinstance(kept, EvenRows) and kept.is_plainly_causal):
            return super().pulled(vectors, layer)
        places = torch.arange(self.length, dtype=torch.float64, device=vectors.device)
        even = (1 - self.residual) / (places + 1)
        attended = even * (places + 1 if self.sink is None else places + 1 - (places >= self.sink).double())
        sums = attended + self.residual
        share = torch.where(sums > 0, 1 / sums, 0)
        given = (vectors * even * share).flip(-1).cumsum(-1).flip(-1)  # of all queries that see the key
        if self.sink is not None:
            given[:, self.sink] = 0
        return given + vectors * self.residual * share


def even_question(question: LongQuestion) -> EvenQuestion:
    """The same question about the uninformed model behind the same masks."""
    attention = LongAttention(tuple(EvenRows(layer) for layer in question.attention.stack), question.attention.modules)
    shape = (attention.layers, 1, attention.length, attention.length)
    facts = vars(question) | {"weights": torch.empty(shape, device="meta"), "head": "mean", "normalize": None}
    names = EvenQuestion.__dataclass_fields__
    return EvenQuestion(**{name: facts[name] for name in names} | {"attention": attention})
