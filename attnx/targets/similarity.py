"""How near an input is to another in an embedding model: the cosine of their embeddings, the other one held fixed.

No model answers so by itself; a target asks for it. The other embedding is any direction: that of a text here, that of
an image where both live in one space.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from attnx.adapters import OWN, POOLINGS
from attnx.targets.base import NOTHING, HeadKind, HeadOutput, Score, Target, shifted_index, wide
from attnx.targets.prediction import Prediction

Direction = tuple[float, ...]
_MADE = (*POOLINGS, OWN)


@dataclass(frozen=True)
class SimilarityTarget:
    """A target: the cosine with an embedding, whose length does not matter where it is a unit vector."""

    vector: Direction
    text: str
    """What it is the embedding of, in words."""
    pooling: str
    length: int
    """Positions of the input itself; what is behind them is padding."""
    kind: ClassVar[str] = "similarity"

    def target(self, position: int) -> Target:
        return Target(0, position, kind=self.kind, beside=self.beside)

    @property
    def beside(self) -> tuple[float, ...]:
        return (float(_MADE.index(self.pooling)), float(self.length), *self.vector)


def pooled(states: Tensor, pooling: str, length: int) -> Tensor:
    """position × width → the embedding: the mean of all positions, the first, the last, or the one that there is."""
    ways = {
        "mean": lambda: states[:length].mean(0),
        "cls": lambda: states[0],
        "last": lambda: states[length - 1],
        OWN: lambda: states[0],
    }
    return ways[pooling]()


def _states(model: nn.Module, output: Any) -> Tensor | None:
    """batch × position × width, as they leave the last layer."""
    tensor = output[0] if isinstance(output, tuple) else getattr(output, "last_hidden_state", None)
    return tensor if isinstance(tensor, Tensor) and tensor.ndim == 3 and tensor.is_floating_point() else None


def _score(model: nn.Module, states: Tensor, targets: Tensor, kind: Score) -> Tensor:
    """Column 3 is how positions are pooled, column 4 how many there are, and all further ones are the direction."""
    how, lengths = _MADE[int(targets[0, 3])], targets[:, 4].long()
    embeddings = torch.stack([pooled(state, how, int(length)) for state, length in zip(states, lengths, strict=True)])
    embeddings = wide(embeddings)
    directions = targets[:, 5:].to(embeddings.dtype)
    cosines: Tensor = (embeddings * directions).sum(-1) / embeddings.norm(dim=-1)
    return cosines


def _prediction(told: HeadOutput) -> Prediction:
    similarity_target: SimilarityTarget = told.target
    row = torch.tensor([(0, 0, NOTHING, *similarity_target.beside)], dtype=torch.float64, device=told.logits.device)
    cosine = float(_score(told.model, told.logits[None], row, "cosine"))
    label = f"{cosine:.3f} with {similarity_target.text}"
    return Prediction(similarity_target.kind, label, 0, None, ("cosine",), (cosine,), beside=similarity_target.beside)


def _moved(target: Target, gone: Sequence[int]) -> Target:
    pooling, length, *vector = target.beside
    return replace(
        target, position=shifted_index(target.position, gone), beside=(pooling, length - len(set(gone)), *vector)
    )


SIMILARITY = HeadKind(
    SimilarityTarget.kind,
    logits=_states,
    prediction=_prediction,
    score=_score,
    requires_target=True,
    scores=("cosine",),
    moved=_moved,
)
