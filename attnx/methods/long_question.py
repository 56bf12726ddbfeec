"""A question about attention that is computed where it is read: rows, and products of rows with a layer, in blocks."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from attnx.attention import rows_to_one
from attnx.long_attention import Block, LayerRows, LongAttention, QueriesAndKeys, blocks, whole_rows
from attnx.methods.question import Question


@dataclass(frozen=True, eq=False)
class LongQuestion(Question):
    """The same question about a `LongAttention`. `weights` has the shape of what it would be, and no numbers."""

    attention: LongAttention = field(kw_only=True)

    def rows(self, layer: int) -> Tensor:
        return self._rows(layer, self.positions)

    def pulled(self, vectors: Tensor, layer: int) -> Tensor:
        """vectors · A: the rows of queries to which no vector gives weight are not even computed."""
        kept = self.attention.stack[layer - 1]
        vectors = vectors.to(kept.device)  # a model may be spread over several
        result = torch.zeros_like(vectors)
        for start, stop in blocks(kept):
            part = vectors[:, start:stop]
            if bool(part.any()):
                keys, mixed, stay = self._split(kept.rows(start, stop), layer)
                result[:, keys] += part @ mixed
                result[:, start:stop] += part * stay
        return result.to(self.device)

    def pushed(self, layer: int, below: Tensor | None) -> Tensor:
        """A · below, every row of it; A itself for None."""
        kept = self.attention.stack[layer - 1]
        below = None if below is None else below.to(kept.device)
        result = torch.zeros(self.length, self.length, dtype=torch.float64, device=kept.device)
        for start, stop in blocks(kept):
            keys, mixed, stay = self._split(kept.rows(start, stop), layer)
            if below is None:
                result[start:stop, keys] = mixed
                result[start:stop].diagonal(start).add_(stay)
            else:
                result[start:stop] = mixed @ below[keys] + stay[:, None] * below[start:stop]
        return result.to(self.device)

    @cached_property
    def below(self) -> Tensor:
        return torch.stack([self.pushed(layer, None) for layer in range(1, max(self.layers) + 1)])

    def top(self, layer: int) -> Tensor:
        return self._rows(layer, tuple(range(self.length)))

    @property
    def device(self) -> torch.device:
        return self.attention.device

    @cached_property
    def _queries_seeing(self) -> tuple[Tensor, ...]:
        return tuple(_queries_seeing(layer) for layer in self.attention.stack)

    def queries_seeing(self, layer: int) -> Tensor:
        return self._queries_seeing[layer - 1]

    @cached_property
    def causal(self) -> bool:
        return self.length == 1 or self.attention.causal

    def uninformed(self) -> Question:
        from attnx.methods.even_question import even_question

        return even_question(self)

    def _rows(self, layer: int, positions: tuple[int, ...]) -> Tensor:
        """head × position × key of the layer of interest: the asked head or heads, or their merger."""
        kept = self.attention.stack[layer - 1]
        ordered = sorted(set(positions))
        parts = []
        for start, stop in blocks(kept):
            asked = [position for position in ordered if start <= position < stop]
            if asked:
                rows = whole_rows(kept, asked[0], asked[-1] + 1)[:, [one - asked[0] for one in asked]]
                parts.append(self._with_residual_at(self._adjusted(self._of_interest(rows), layer), asked))
        found = torch.cat(parts, dim=1).to(self.device)
        places = {position: place for place, position in enumerate(ordered)}
        return found[:, [places[position] for position in positions]]

    def _of_interest(self, rows: Tensor) -> Tensor:
        if isinstance(self.head, int):
            return rows[self.head : self.head + 1].double()
        return rows.double() if self.head == "each" else self._merge(rows)[None]

    def _with_residual_at(self, rows: Tensor, positions: list[int]) -> Tensor:
        rows = (1 - self.residual) * rows
        rows[:, range(len(positions)), positions] += self.residual
        return rows_to_one(rows)

    def _split(self, block: Block, layer: int) -> tuple[slice, Tensor, Tensor]:
        """A block of A, without its diagonal: which keys, query × key, and what of each query stays where it is."""
        merged = self._adjusted(self._merge(block.weights), layer, block.keys)
        stay = torch.full((len(merged),), self.residual, dtype=merged.dtype, device=merged.device)
        sums = (1 - self.residual) * merged.sum(-1) + stay
        share = torch.where(sums > 0, 1 / sums, 0)
        return block.keys, merged * ((1 - self.residual) * share)[:, None], stay * share

    def _merge(self, heads: Tensor) -> Tensor:
        if self.head == "max":
            return rows_to_one(heads.amax(0).double())
        if self.head == "min":
            return rows_to_one(heads.amin(0).double())
        return heads.mean(0).double()


def _queries_seeing(layer: LayerRows) -> Tensor:
    """How many queries see each key."""
    if isinstance(layer, QueriesAndKeys) and layer.mask is None:
        places = torch.arange(layer.length, device=layer.device)
        return layer.length - places if layer.causal else torch.full_like(places, layer.length)
    return torch.stack([layer.visible(start, stop).sum(0) for start, stop in blocks(layer)]).sum(0)
