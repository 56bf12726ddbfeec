"""Raw attention: each layer's own weights, heads merged, no residual. The first row of the paper's tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack, overload

import torch
from torch import Tensor

from attnx.arguments import checked
from attnx.graph.asked import Asked, Head
from attnx.graph.graph import Graph
from attnx.methods.method import Array, Brought, Method, MethodChoices, call
from attnx.methods.normalization import Normalize
from attnx.methods.receptive_field import rolled_everywhere


@overload
def raw(attention: Array, **choices: Unpack[MethodChoices]) -> Array: ...


@overload
def raw(attention: Brought, **choices: Unpack[MethodChoices]) -> Tensor: ...


@checked
def raw(
    attention: Any,
    *,
    layer: int | str | None = None,
    position: int | Sequence[int] | None = None,
    head: Head | None = None,
    residual: float = 0.0,
    normalize: Normalize | None = None,
    drop_sink: bool = False,
) -> Any:
    """What each query attends to in each layer, taken alone: layer × query × key.

    Above the first layers a key is no longer the token at its position but a mixture of tokens, so this is not yet
    relevance of the input; `rollout` and `flow` trace it back.

    A query's even attention is the same for all that it sees, so `normalize="receptive_field"` leaves raw attention as
    it is; `"column"` does not. `drop_sink` leaves out what goes to the first token of a decoder.

    >>> raw(np.full((1, 2, 3, 3), 1 / 3), layer=1, position=0)
    array([0.33333333, 0.33333333, 0.33333333])
    """
    return call(
        RAW,
        attention,
        layer=layer,
        position=position,
        head=head,
        residual=residual,
        normalize=normalize,
        drop_sink=drop_sink,
    )


def _layers(graph: Graph, asked: Asked) -> Tensor:
    return torch.stack([graph.levels[layer - 1].rows(asked.positions) for layer in asked.layers])


def _one_layer_everywhere(own: Tensor, even: Tensor, residual: Tensor, depth: int) -> Tensor:
    return rolled_everywhere(own, even, residual, 1)


RAW = Method(
    "raw",
    _layers,
    title="raw attention",
    paper="Abnar & Zuidema 2020, the first row of Tables 1 to 3",
    residual=0.0,
    everywhere=_one_layer_everywhere,
    everywhere_in_streams=True,
    by_rows=True,
    local=True,
    takes_signed=True,
)
