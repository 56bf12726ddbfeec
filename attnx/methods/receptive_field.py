"""Decoders treated fairly: relevance beyond what the mask alone gives a position.

Under a causal mask early positions are seen by every later query, so rollout and flow favour them by construction.
Ways to take that out:

- `"receptive_field"`: hold the model against two *uninformed* ones that spread each query's attention evenly, with the
  same residual and number of layers. U is the relevance in the one that sees what the mask shows, B in the one that
  sees everything; R becomes R · B / U where the query can reach, each row scaled back to the sum that it had.
- `"prefix"`: the same, but *everything* ends at the query: each row of a causal model is what it would be if the text
  ended there. For the last position the two are one.
- `"column"`: in each layer divide column m by the number of queries that can see m, scale the rows back, then go on.
  It is a rule of the graph (see `attnx.graph.edges`).

Windows and padding are masks like any other. A position that no query sees in any layer is padding to B, too.

Of an encoder–decoder the output alone looks back. An even model spreads what it takes of the source evenly, whatever
the mask, so columns of the source stay as they are, and those of the output are scaled within their own sum: how much
is from the source and how much from the output is what was measured.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor

from attnx.attention import normalize_rows
from attnx.errors import AttentionError, ChoiceError
from attnx.graph import Graph, Selection
from attnx.registry import unknown

Normalize: TypeAlias = Literal["receptive_field", "prefix", "column"]
NORMALIZATIONS = ("receptive_field", "prefix", "column")

Normalization: TypeAlias = Normalize | Literal["auto"] | None
"""As a caller of `explain` says it: "auto" is "prefix" for causal attention and nothing for other."""


def check_normalize(normalize: Any) -> Normalize | None:
    """A name of the above, or None."""
    return _one_of(normalize, NORMALIZATIONS)  # type: ignore[no-any-return]


def check_normalization(normalize: Any) -> Normalization:
    """The same, or "auto"."""
    return _one_of(normalize, ("auto", *NORMALIZATIONS))  # type: ignore[no-any-return]


def _one_of(normalize: Any, known: tuple[str, ...]) -> Any:
    if normalize not in (None, *known):
        raise ChoiceError(unknown("normalize", normalize, known) + "; None leaves it out")
    return normalize


Everywhere: TypeAlias = Callable[[Tensor, Tensor, Tensor, int], Tensor]
"""(own, even, residual, depth) → query × input: B after so many layers. `own` marks each query's own position, `even`
the attention of a query that sees everything, `residual` is query × 1."""

UNREACHED = 1e-9
"""Relevance above this where the mask lets nothing through is a contradiction, not rounding."""


def by_reach(
    relevance: Tensor,
    graph: Graph,
    selection: Selection,
    normalize: Normalize,
    reach: Callable[[Graph, Selection], Tensor],
    method: Callable[[Graph, Selection], Tensor],
    everywhere: Everywhere | None,
) -> Tensor:
    """R · B / U for layer × head × query × input.

    `reach` gives U of the uninformed graph. B comes from `everywhere` in closed form, or else from the method itself.
    """
    ends = normalize == "prefix"
    if ends and graph.causal_positions is None:
        raise ChoiceError(
            "normalize='prefix' is for decoders: here queries see later positions, and what they know does not end at "
            "the query; use 'receptive_field'"
        )
    if everywhere is not None and not graph.has_fixed_layers:
        tensor, even, residual = _sees_everything(graph, selection, ends=ends)
        depths = [_depth(graph, selection.down_to, layer) for layer in selection.layers]
        everything = torch.stack([everywhere(tensor, even, residual, depth) for depth in depths])[:, None]
    else:
        everything = _computed_everywhere(graph, selection, method, ends=ends)
    reached = reach(graph.with_uniform_attention(), selection)
    if not graph.sequences or graph.has_fixed_layers:
        return scaled_by_reach(relevance, reached, everything)
    if graph.causal_positions is None:
        return relevance
    fair = relevance.clone()
    columns = graph.causal_positions
    fair[..., columns] = scaled_by_reach(relevance[..., columns], reached[..., columns], everything[..., columns])
    return fair


def _depth(graph: Graph, first: int, last: int) -> int:
    """How many layers of self-attention of the causal sequence lie between."""
    if not graph.sequences:
        return last - first + 1
    passed = [edges.weights.layer for edges in graph.layers[first - 1 : last]]
    return sum(layer.query_slice == graph.causal_positions and layer.kind == "self" for layer in passed)


def scaled_by_reach(relevance: Tensor, reach: Tensor, everything: Tensor) -> Tensor:
    """R · B / U where U is not 0, each row scaled back to the sum that R had."""
    reached = reach > 0
    lost = relevance.detach().masked_fill(reached, 0)
    if bool((lost > UNREACHED).any()):
        *_, query, position = (lost > UNREACHED).nonzero()[0].tolist()
        raise AttentionError(
            f"row {query} has relevance {float(lost.max()):.3g} at position {position}, which its mask cannot reach: "
            "attention and visible contradict each other"
        )
    fair = torch.where(reached, relevance * everything / torch.where(reached, reach, 1), 0)
    return normalize_rows(fair) * relevance.sum(-1, keepdim=True)


def _sees_everything(graph: Graph, selection: Selection, *, ends: bool) -> tuple[Tensor, Tensor, Tensor]:
    """asked query × input: each query's own position, and even attention to all that any query sees; the residual.

    Without its sink an even row sums to less than 1, and the residual's part of it grows.
    """
    share, sink = graph.rules.residual, graph.rules.sink
    places = torch.arange(graph.length, device=graph.visible_positions.device)
    queries = torch.tensor(selection.positions, device=places.device)[:, None]
    tensor = (places == queries).to(torch.float64)
    shown = graph.visible_positions & ((places <= queries) if ends else torch.ones_like(places).bool())
    if graph.sequences and graph.causal_positions is not None:
        shown = shown & (places >= graph.causal_positions.start) & (places < graph.causal_positions.stop)
    kept = shown & (places != (-1 if sink is None else sink))
    even = torch.where(kept.any(-1, keepdim=True), normalize_rows(kept.to(torch.float64)), tensor)
    counts = [mask.sum(-1, keepdim=True).double() for mask in (kept, shown)]
    attended = (1 - share) * counts[0] / counts[1].clamp(min=1)
    sums = attended + share
    return tensor, even.expand_as(tensor), torch.where(sums > 0, share / torch.where(sums > 0, sums, 1), 1.0)


def _computed_everywhere(
    graph: Graph, selection: Selection, method: Callable[[Graph, Selection], Tensor], *, ends: bool
) -> Tensor:
    """layer × 1 × query × input: B of a method without a closed form, by the method itself."""
    if not ends:
        return method(graph.with_full_visibility(), selection)
    rows = [
        method(graph.with_full_visibility(position), replace(selection, positions=(position,)))
        for position in selection.positions
    ]
    return torch.cat(rows, dim=2)


def rollout_of_uniform_attention(identity: Tensor, even: Tensor, residual: Tensor, depth: int) -> Tensor:
    """(r·I + (1 − r)·P)^depth = r^depth · I + (1 − r^depth) · P, because even attention P is P · P."""
    kept = residual**depth
    return kept * identity + (1 - kept) * even
