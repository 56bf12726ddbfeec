"""Gradient rollout: R ← R + Ā R through one stack, and Chefer's rules where an output attends to a source.

With R_dd and R_ee what each position of the output and of the source is made of in its own stream, and R_de what the
output has of the source (Chefer et al. 2021, the numbers are theirs):

    self-attention:    R_ss += Ā R_ss,   R_sq += Ā R_sq                                    (6, 7)
    R̄ = R̂ / (row sums of R̂) + I,  R̂ = R − I; where a row of R̂ is 0 it is left so        (8, 9)
    cross-attention:   R_de += R̄_ddᵀ Ā R̄_ee                                               (10)

Rule 11 has no part here, for the source reads nothing of the output. The transpose is the authors'.
"""

from __future__ import annotations

import torch
from torch import Tensor

from attnx.attention.rows import rows_to_one
from attnx.errors import ChoiceError
from attnx.graph.asked import Asked
from attnx.graph.graph import Graph
from attnx.methods.rollout import rolled


def rolled_by_rules(graph: Graph, asked: Asked) -> Tensor:
    """layer × head × position × input."""
    if not graph.streams:
        return rolled(graph, asked)
    if not graph.is_merged:
        raise ChoiceError(f"the rules of cross-attention are of all heads together; head={graph.head!r} has none")
    source, output = graph.streams.values()
    relevance = torch.eye(graph.length, dtype=torch.float64, device=graph.device)
    alone = graph.mixed(0.0)  # Ā without the identity, which the rules add themselves
    found = []
    for layer in range(asked.down_to, asked.layers[-1] + 1):
        gains, level = alone.levels[layer - 1].written, alone.levels[layer - 1].weights.level
        if level.kind == "cross":
            of_output, of_source = (_normalised(relevance[place, place]) for place in (output, source))
            relevance[output, source] += of_output.T @ gains[:, source] @ of_source
        else:
            relevance[level.own] += gains @ relevance
        if layer in asked.layers:
            found.append(relevance[list(asked.positions)])
    return torch.stack(found)[:, None]


def _normalised(relevance: Tensor) -> Tensor:
    """R̄ of one stream."""
    identity = torch.eye(len(relevance), dtype=relevance.dtype, device=relevance.device)
    return rows_to_one(relevance - identity) + identity
