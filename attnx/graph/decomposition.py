"""Edge weights by decomposition of the block's output: norms (Kobayashi et al. 2020), GlobEnc, ALTI.

    c[i,j] = max(0, ‖y_i‖₁ − ‖y_i − p_i(j)‖₁),  each row scaled to 1

y_i is the block's output at query i after the residual connection, p_i(j) the part of it that comes from key j, the
residual included in p_i(i). A part that points away from y_i counts as 0, however large it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from attnx._signals import cached_property
from attnx.attention import (
    MAX_BLOCK_ELEMENTS,
    AttentionLayer,
    LinearizedNorm,
    RowBlock,
    normalize_rows,
    repeat_kv,
)
from attnx.errors import AttentionError
from attnx.graph.edge_weights import EdgeWeights


@dataclass(frozen=True, eq=False)
class Contributions:
    """The terms of a block's output y_i = scale_i · Σ_j A[i,j] · projection · v_j + residual_i + constant_i."""

    values: Tensor
    """head × key × head width, in single precision or better."""
    projection: Tensor
    """output × head × head width."""
    scale: Tensor
    """One positive factor for each query, from linearized norms."""
    residual: Tensor
    """query × output."""
    constant: Tensor
    """query × output."""

    @classmethod
    def of(cls, layer: AttentionLayer, *norms: str) -> Contributions:
        """The terms behind these norms ("norm", "last") of the block, those that it has; cached for each layer."""
        made = _cache.setdefault(layer, {})
        if norms not in made:
            made[norms] = cls._of(layer, norms)
        return made[norms]

    @classmethod
    def _of(cls, layer: AttentionLayer, norms: tuple[str, ...]) -> Contributions:
        captured = layer.captured
        values = expanded_values(layer)
        projection = _captured(layer, "projections").to(values)
        states, bias = _captured(layer, "states").to(values), captured["bias"].to(values)
        row, tensor, constant = torch.ones_like(states[:, 0]), states, bias.expand_as(states)
        for name in ("branch", *norms):
            norm = LinearizedNorm.of(captured, name)
            if norm is not None:
                scale = norm.scale.to(values)
                row, projection, constant = row * scale, norm.unscaled(projection.T).T, norm(constant)
                tensor = tensor if name == "branch" else norm.unscaled(tensor) * scale[:, None]
        return cls(values, projection.reshape(len(projection), len(values), -1), row, tensor, constant)

    @cached_property
    def gram(self) -> Tensor:
        """key × head × head in float64: inner products of two heads' projected values of a key."""
        projection, values = self.projection.double(), self.values.double()
        heads, _, width = values.shape
        products = projection.flatten(1).T @ projection.flatten(1)
        of_head = [values[head] @ products[head * width : (head + 1) * width] for head in range(heads)]
        sized = [torch.einsum("jgw,gjw->jg", tensor.view(-1, heads, width), values) for tensor in of_head]
        return torch.stack(sized, dim=1)

    @cached_property
    def residual_products(self) -> Tensor:
        """position × head in float64: inner products of a head's projected value with the residual at that position."""
        pulled = torch.einsum("io,ohw->hiw", self.residual.double(), self.projection.double())
        return (pulled * self.values.double()).sum(-1).T

    def norms(self, weights: Tensor, first_key: int) -> Tensor:
        """query × key: ‖Σ_h A[h,i,j] · carried_h v_h(j)‖ for head × query × key of attention, without `scale`."""
        by_key = weights.double().permute(2, 1, 0)
        gram = self.gram[first_key : first_key + len(by_key)]
        return ((by_key @ gram) * by_key).sum(-1).clamp(min=0).T.sqrt()

    def outputs(self, weights: Tensor, start: int, keys: slice) -> Tensor:
        """query × output: y of the queries from `start` on, whose keys all lie in `keys`."""
        queries = slice(start, start + weights.shape[1])
        mixed = weights.to(self.values) @ self.values[:, keys]
        summed = torch.einsum("hiw,ohw->io", mixed, self.projection)
        return summed * self.scale[queries, None] + self.residual[queries] + self.constant[queries]

    def vectors(self, weights: Tensor, start: int, keys: slice) -> Iterator[tuple[slice, slice, Tensor]]:
        """p / scale in blocks: queries, keys (both counted from 0 in `weights`), and key × query × output.

        At most one block is in memory, and values are projected once for each key.
        """
        heads, queries, count = weights.shape
        width = self.residual.shape[-1]
        tensor = self.residual[start : start + queries] / self.scale[start : start + queries, None]
        at_once = max(1, MAX_BLOCK_ELEMENTS // (heads * width))
        for first in range(0, count, at_once):
            some = slice(first, min(first + at_once, count))
            here = self.values[:, keys][:, some]
            projection = torch.einsum("hjw,ohw->jho", here, self.projection)
            by_key = weights[..., some].to(self.values).permute(2, 1, 0).contiguous()
            size = max(1, MAX_BLOCK_ELEMENTS // (len(by_key) * width))
            for begin in range(0, queries, size):
                block = slice(begin, min(begin + size, queries))
                block_vectors = by_key[:, block] @ projection
                places = torch.arange(begin, block.stop, device=block_vectors.device) + start - keys.start - first
                inside = (places >= 0) & (places < len(block_vectors))
                block_vectors[places[inside], inside.nonzero()[:, 0]] += tensor[block][inside]
                yield block, some, block_vectors


def expanded_values(layer: AttentionLayer) -> Tensor:
    """head × key × width of a layer in single precision or better, repeated for grouped-query attention."""
    values = _captured(layer, "values")
    wide = values.to(torch.promote_types(values.dtype, torch.float32))
    return repeat_kv(wide[None], layer.heads)[0]


def normalize_rows_or_identity(weights: Tensor, start: int, first_key: int) -> Tensor:
    """… × query × key in float64 with rows normalized to 1; a row of zeros becomes that of the identity."""
    weights = weights.double()
    sums = weights.sum(-1, keepdim=True)
    queries, keys = (torch.arange(size, device=weights.device) for size in weights.shape[-2:])
    tensor = (queries[:, None] + start == keys + first_key).to(weights)
    return torch.where(sums > 0, weights / torch.where(sums > 0, sums, 1), tensor)


def _captured(layer: AttentionLayer, name: str) -> Tensor:
    if name not in layer.captured:
        raise AttentionError(
            f"these edge weights need {name} of each layer, which attention alone does not contain; capture with "
            "extras=('blocks',), or call attnx.explain with the method"
        )
    return layer.captured[name]


_cache: WeakKeyDictionary[AttentionLayer, dict[tuple[str, ...], Contributions]] = WeakKeyDictionary()


def norms_of_heads(layer: AttentionLayer, start: int, stop: int) -> RowBlock:
    """head × query × key."""
    block = layer.rows(start, stop)
    sizes = Contributions.of(layer).gram.diagonal(dim1=1, dim2=2).clamp(min=0).sqrt().T[:, None, block.keys]
    return RowBlock(block.first_key, normalize_rows(block.weights.double() * sizes))


def norms(layer: AttentionLayer, start: int, stop: int) -> RowBlock:
    """1 × query × key: all heads together."""
    block = layer.rows(start, stop)
    return RowBlock(
        block.first_key, normalize_rows(Contributions.of(layer).norms(block.weights, block.first_key))[None]
    )


NORM = EdgeWeights(
    "norm",
    norms_of_heads,
    together=norms,
    needs=frozenset({"blocks"}),
    paper="Kobayashi et al. 2020",
    costs="one run, and pairs of heads for each edge",
)


def norms_with_residual(layer: AttentionLayer, start: int, stop: int) -> RowBlock:
    """1 × query × key, each row summing to 1."""
    block = layer.rows(start, stop)
    tensor = _norms(Contributions.of(layer, "norm"), block, start)
    return RowBlock(block.first_key, normalize_rows_or_identity(tensor, start, block.first_key)[None])


def norms_of_encoder(layer: AttentionLayer, start: int, stop: int) -> RowBlock:
    """1 × query × key, as they are."""
    if "norm.gain" not in layer.captured:
        return norms_with_residual(layer, start, stop)
    block = layer.rows(start, stop)
    return RowBlock(block.first_key, _norms(Contributions.of(layer, "norm", "last"), block, start)[None])


def _norms(parts: Contributions, block: RowBlock, start: int) -> Tensor:
    """query × key: ‖p_i(j)‖."""
    rows = slice(start, start + block.weights.shape[1])
    tensor = parts.scale[rows, None].double() * parts.norms(block.weights, block.first_key)
    queries = torch.arange(rows.start, rows.stop, device=tensor.device)
    places = queries - block.first_key
    inside = (places >= 0) & (places < tensor.shape[1])
    queries, places, here = queries[inside], places[inside], inside.nonzero()[:, 0]
    # On the diagonal ‖T + x‖² = ‖T‖² + 2 T·x + ‖x‖².
    squares = parts.residual[queries].double().square().sum(-1)
    attention = block.weights[:, here, places].double().T
    both = 2 * parts.scale[queries].double() * (attention * parts.residual_products[queries]).sum(-1)
    tensor[here, places] = (tensor[here, places].square() + both + squares).clamp(min=0).sqrt()
    return tensor


NORM_RESIDUAL = EdgeWeights(
    "norm_residual",
    norms_with_residual,
    needs=frozenset({"blocks"}),
    residual="inside",
    per_head=False,
    paper="Kobayashi et al. 2021",
    costs="one run, and pairs of heads for each edge",
)
GLOBENC = EdgeWeights(
    "globenc",
    norms_of_encoder,
    needs=frozenset({"blocks"}),
    residual="inside",
    per_head=False,
    supports_sequences=False,
    paper="Modarressi et al. 2022",
    costs="one run, and pairs of heads for each edge",
)


def contributions(layer: AttentionLayer, start: int, stop: int) -> RowBlock:
    """1 × query × key."""
    block = layer.rows(start, stop)
    parts = Contributions.of(layer, "norm")
    whole = parts.outputs(block.weights, start, block.keys) / parts.scale[start:stop, None]
    sign, twice = whole.sign(), 2 * whole.abs()
    tensor = block.weights.new_zeros(block.weights.shape[1:], dtype=torch.float64)
    for queries, keys, vectors in parts.vectors(block.weights, start, block.keys):
        # |y| − |y − p| is t = p · sign(y) where t ≤ |y|, else 2|y| − t; this avoids the difference of two large sums.
        along = vectors.mul_(sign[queries])
        nearer = torch.minimum(along, twice[queries] - along).sum(-1)
        tensor[queries, keys] = nearer.T.double().clamp(min=0)
    return RowBlock(block.first_key, normalize_rows_or_identity(tensor, start, block.first_key)[None])


ALTI = EdgeWeights(
    "alti",
    contributions,
    needs=frozenset({"blocks"}),
    residual="inside",
    per_head=False,
    paper="Ferrando et al. 2022",
    costs="one run, and a vector for each edge",
)
