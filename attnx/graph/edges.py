"""The edges of one layer: edge weights with residual, sink, column normalization and discarding applied.

A materialized layer keeps its matrix. A layer that is computed from queries and keys is read in blocks of rows and
never held as a whole. Uniform attention behind a plain causal mask has a closed form: a product with it is a cumulative
sum, O(n) instead of O(n²).

In an encoder–decoder a layer computes the positions of one sequence. The rows of all other positions are those of the
identity, whatever the edge weights and the residual. For flow this is exact, because no more than 1 leaves a node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from attnx._signals import cached_property
from attnx.attention import RowBlock, UniformLayer, blocks, normalize_rows
from attnx.attention import masks as waiting
from attnx.errors import ChoiceError
from attnx.graph.edge_weights import LayerWeights


def discard_lowest(weights: Tensor, share: float, keep_position: int | None = 0) -> Tensor:
    """Attention (… × query × key) without the lowest `share` of each matrix's weights, rows normalized to 1 again.

    Weights that tie with the lowest one that is kept are kept. So is the column `keep_position`, by default CLS,
    through which information of the whole image passes; None keeps no column.

    >>> discard_lowest(torch.tensor([[0.5, 0.1, 0.4], [0.3, 0.6, 0.1], [0.1, 0.2, 0.7]]), 0.5)
    tensor([[0.5556, 0.0000, 0.4444],
            [0.3333, 0.6667, 0.0000],
            [0.1250, 0.0000, 0.8750]])
    """
    if share == 0:
        return weights
    flat = weights.detach().flatten(-2)
    lowest = flat.sort(-1).values[..., int(share * flat.shape[-1]), None, None]
    kept = weights.detach() >= lowest
    if keep_position is not None:
        kept[..., keep_position] = True
    return normalize_rows(torch.where(kept, weights, 0))


@dataclass(frozen=True)
class Rules:
    """What is applied to the weights of every layer to make edges of them."""

    residual: float = 0.5
    sink: int | None = None
    """The key position that is dropped."""
    column: bool = False
    """Whether each column is divided by the number of queries that can see it."""
    discard_ratio: float = 0.0
    """The share of the lowest weights that is dropped."""
    keep_position: int | None = 0
    """The position whose weights are not discarded."""


@dataclass(frozen=True, eq=False)
class Edges:
    """A = (1 − r)·W + r·I of one layer, rows normalized (§3 of the paper, which uses r = 0.5)."""

    weights: LayerWeights
    rules: Rules
    device: torch.device
    """The device of all products; the layers of a model may be spread over several."""

    def __post_init__(self) -> None:
        if self.rules.discard_ratio and not self.weights.layer.whole:
            raise ChoiceError("discard needs all weights of a layer at once, which a long input does not keep")

    @cached_property
    def written(self) -> Tensor:
        """computed query × key with heads merged, as used below the layer of interest."""
        if not self.weights.layer.whole:
            return self._compose_in_blocks(None)[self.weights.query_slice]
        return self._with_residual(self._discard(self.weights.whole), self._own)

    @cached_property
    def matrix(self) -> Tensor:
        """query × key with heads merged; the identity for positions that this layer does not compute."""
        return self.written if self._writes_all else self._among_all(self.written)

    def top(self) -> Tensor:
        """head × query × key of the layer of interest: the selected head or heads (Appendix A.1), or all merged."""
        if self.weights.is_merged:
            return self.matrix[None]
        rows = self._with_residual(self._discard(self.weights.top_rows()), self._own)
        return rows if self._writes_all else torch.stack([self._among_all(row) for row in rows])

    def rows(self, positions: tuple[int, ...]) -> Tensor:
        """head × position × key of the layer of interest."""
        places = list(positions)
        if self._writes_all:
            return self._rows(places)
        queries = self.weights.query_slice
        inside = [place for place, index in enumerate(places) if queries.start <= index < queries.stop]
        heads = 1 if self.weights.is_merged or isinstance(self.weights.head, int) else self.weights.layer.heads
        identity = torch.eye(self.weights.length, dtype=torch.float64, device=self.device)[places]
        tensor = identity.repeat(heads, 1, 1)
        if inside:
            tensor[:, inside] = self._rows([places[place] for place in inside])
        return tensor

    def _rows(self, places: list[int]) -> Tensor:
        """Rows of positions that this layer computes."""
        if self.weights.layer.whole and self.weights.is_merged:
            return self.written[[place - self.weights.query_slice.start for place in places]][None]
        if self.rules.discard_ratio:  # what is lowest is a question to all rows
            return self.top()[:, places]
        return self._with_residual(self.weights.top_rows(places), places).to(self.device)

    def left_multiply(self, vectors: Tensor) -> Tensor:
        """vectors · A, vector × key."""
        layer = self.weights.layer
        if isinstance(layer, UniformLayer) and layer.mask.triangular and not self.rules.column:
            return self._left_multiply_uniform(vectors)
        if layer.whole:
            return vectors @ self.matrix if self._writes_all else self._left_multiply_own(vectors)
        vectors = vectors.to(layer.mask.device)
        if self.weights.edge_weights.residual == "share" and self.rules.sink is None and not self.rules.column:
            left_product = self.weights.left_product(vectors)
            if left_product is not None:
                share = self.rules.residual
                return ((1 - share) * left_product + share * vectors).to(self.device)
        result = vectors.clone()
        result[:, self.weights.query_slice] = 0
        for start, stop in blocks(layer):
            part = vectors[:, start:stop]
            # Rows of queries to which no vector gives weight are not even computed.
            if not waiting.on_cpu(part) or bool(part.any()):
                keys, mixed, stay = self._split(start, stop)
                result[:, keys] += part @ mixed
                result[:, start:stop] += part * stay
        return result.to(self.device)

    def compose(self, below: Tensor | None) -> Tensor:
        """A · below, or A itself where `below` is None."""
        if not self.weights.layer.whole:
            return self._compose_in_blocks(below)
        if below is None:
            return self.matrix
        if self._writes_all:
            return self.matrix @ below
        result = below.clone()
        result[self.weights.query_slice] = self.written @ below
        return result

    @property
    def _own(self) -> list[int] | None:
        """The queries that this layer computes; None for all."""
        queries = self.weights.query_slice
        return None if self._writes_all else list(range(queries.start, queries.stop))

    @cached_property
    def _writes_all(self) -> bool:
        return self.weights.query_slice == slice(0, self.weights.length)

    def _among_all(self, written: Tensor) -> Tensor:
        whole = torch.eye(self.weights.length, dtype=written.dtype, device=written.device)
        whole[self.weights.query_slice] = written
        return whole

    def _left_multiply_own(self, vectors: Tensor) -> Tensor:
        result = vectors.clone()
        result[:, self.weights.query_slice] = 0
        return result + vectors[:, self.weights.query_slice] @ self.written

    @property
    def _added(self) -> float:
        """1 where the residual is added in full, 0 where its share is 0 (raw weights)."""
        return float(self.rules.residual > 0)

    def _discard(self, weights: Tensor) -> Tensor:
        return discard_lowest(weights, self.rules.discard_ratio, self.rules.keep_position)

    def _with_residual(self, rows: Tensor, queries: list[int] | None) -> Tensor:
        """… × query × key; the rows are those of some queries, or of all."""
        if self.weights.layer.fixed:
            return rows
        kind, share = self.weights.edge_weights.residual, self.rules.residual
        rows = self._adjusted(rows, range(self.weights.length) if queries is None else queries, slice(None))
        if kind == "inside":
            return rows
        scaled = rows.clone() if kind == "added" else (1 - share) * rows
        added = self._added if kind == "added" else share
        if queries is None:
            scaled.diagonal(dim1=-2, dim2=-1).add_(added)
        else:
            scaled[..., list(range(len(queries))), queries] += added
        if kind == "added":
            return scaled
        return scaled / scaled.sum(-1, keepdim=True) if share > 0 else normalize_rows(scaled)  # with a share none is 0

    def _adjusted(self, rows: Tensor, queries: Sequence[int], keys: slice) -> Tensor:
        """Rows of W over some keys, without the sink and with normalized columns where the rules say so."""
        if self.rules.sink is not None:
            rows = self._without_column(self.rules.sink, rows, queries, keys)
        if not self.rules.column:
            return rows
        return by_column(rows, self.weights.layer.mask.queries_per_key[keys].to(rows.device))

    def _without_column(self, sink: int, rows: Tensor, queries: Sequence[int], keys: slice) -> Tensor:
        dropped = torch.arange(self.weights.length, device=rows.device)[keys] == sink
        if self.weights.edge_weights.residual != "inside":
            return rows * ~dropped
        # The sink's own diagonal entry contains its residual, so it stays.
        others = torch.tensor([query != sink for query in queries], device=rows.device)
        kept = rows * ~(dropped & others[:, None])
        return normalize_rows(kept) * rows.sum(-1, keepdim=True)

    def _split(self, start: int, stop: int) -> tuple[slice, Tensor, Tensor]:
        """A block of A without its residual: the keys, query × key, and the residual of each query."""
        block: RowBlock = self.weights.merged(start, stop)
        rows = self._adjusted(block.weights[0], range(start, stop), block.keys)
        kind, share = self.weights.edge_weights.residual, self.rules.residual
        if kind != "share":
            return block.keys, rows, torch.full_like(rows[:, 0], self._added if kind == "added" else 0.0)
        sums = (1 - share) * rows.sum(-1) + share
        scale = torch.where(sums > 0, 1 / sums, 0)
        return block.keys, rows * ((1 - share) * scale)[:, None], share * scale

    def _compose_in_blocks(self, below: Tensor | None) -> Tensor:
        layer, length = self.weights.layer, self.weights.length
        below = None if below is None else below.to(layer.mask.device)
        if self._writes_all:
            result = torch.zeros(length, length, dtype=torch.float64, device=layer.mask.device)
        else:
            carried = torch.eye(length, dtype=torch.float64, device=layer.mask.device)
            result = carried if below is None else below.clone()
            result[self.weights.query_slice] = 0
        for start, stop in blocks(layer):
            keys, mixed, stay = self._split(start, stop)
            if below is None:
                result[start:stop, keys] = mixed
                result[start:stop].diagonal(start).add_(stay)
            else:
                result[start:stop] = mixed @ below[keys] + stay[:, None] * below[start:stop]
        return result.to(self.device)

    def _left_multiply_uniform(self, vectors: Tensor) -> Tensor:
        """vectors · A for uniform causal attention, whose row i gives 1/(i + 1) to each of its first i + 1 keys."""
        each, stay = (amount.to(vectors.device) for amount in self._even_shares)
        tensor = (vectors * each).flip(-1).cumsum(-1).flip(-1)  # of all queries that see the key
        if self.rules.sink is not None:
            tensor[:, self.rules.sink] = 0
        return tensor + vectors * stay

    @cached_property
    def _even_shares(self) -> tuple[Tensor, Tensor]:
        """For uniform causal attention: what each query takes from every key that it sees, and its residual."""
        share, sink = self.rules.residual, self.rules.sink
        places = torch.arange(self.weights.length, dtype=torch.float64, device=self.device)
        even = (1 - share) / (places + 1)
        attended = even * (places + 1 if sink is None else places + 1 - (places >= sink).double())
        sums = attended + share
        scale = torch.where(sums > 0, 1 / sums, 0)
        return even * scale, share * scale


def by_column(rows: Tensor, queries: Tensor) -> Tensor:
    """… × query × key with each column divided by the number of `queries` that can see it, rows scaled back."""
    return normalize_rows(rows / queries.clamp(min=1)) * rows.sum(-1, keepdim=True)
