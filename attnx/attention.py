"""The one object that every method reads: attention of one input, layer × head × query × key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnx.errors import AttentionError


@dataclass(frozen=True, eq=False)
class AttentionTensor:
    """Attention weights of one input through all layers of a model.

    `weights[layer, head, query, key]` is what `query` gave to `key`; index 0 is the layer next to the input, which
    the rest of attnx calls layer 1. `visible[layer, query, key]` is true where the mask (causal, window, padding)
    let the query look at all.
    """

    weights: Tensor
    visible: Tensor
    modules: tuple[str, ...] = ()
    merged: str | None = None
    """How the heads were merged while capturing ("mean", …); None when every head is kept."""
    values: tuple[Tensor, ...] | None = None
    """Per layer, head × key × width: what was mixed, repeated for heads that share it (GQA)."""
    projections: tuple[Tensor, ...] | None = None
    """Per layer, output × (head · width): the matrix that the mixed values of all heads go through."""
    graph: tuple[Tensor, ...] | None = None
    """Per layer, batch × head × query × key: tensors of the model's own autograd graph, for `torch.autograd.grad`."""

    def __post_init__(self) -> None:
        layers, _, queries, keys = self.weights.shape
        if queries != keys:
            raise AttentionError(f"attention must be layer × head × n × n, found {tuple(self.weights.shape)}")
        if self.visible.shape != (layers, queries, keys):
            raise AttentionError(
                f"visible must be layer × n × n = {(layers, queries, keys)}, found {tuple(self.visible.shape)}"
            )

    @property
    def layers(self) -> int:
        return self.weights.shape[0]

    @property
    def heads(self) -> int:
        return self.weights.shape[1]

    @property
    def length(self) -> int:
        """n, the number of input positions."""
        return self.weights.shape[-1]

    @property
    def causal(self) -> bool:
        """Whether no query could see a later position, in any layer. One position alone is not called causal."""
        return self.length > 1 and not bool(self.visible.triu(1).any())

    def numpy(self) -> np.ndarray[Any, np.dtype[Any]]:
        """The weights as a numpy array, copied from the device when they are not on the CPU."""
        array: np.ndarray[Any, np.dtype[Any]] = self.weights.detach().cpu().numpy()
        return array

    def __repr__(self) -> str:
        heads = f"{self.merged} of heads" if self.merged else f"{self.heads} heads"
        kind = ", causal" if self.causal else ""
        return f"AttentionTensor({self.layers} layers, {heads}, {self.length} positions{kind})"


def rows_to_one(weights: Tensor) -> Tensor:
    """Divide each row by its sum; a row of zeros stays zero."""
    sums = weights.sum(-1, keepdim=True)
    return weights / torch.where(sums > 0, sums, 1)
