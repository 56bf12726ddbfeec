"""A path back through a model: which part of the answer's gradient goes which way. A new path is a row."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Path:
    """What carries the answer through attention: the share of its gradient that values and scores get."""

    name: str
    values: float
    scores: float
    """For queries and keys together."""
    frozen: bool = True
    """Whether norms, activations and products are frozen; if not, gradients are the model's own."""

    @property
    def queries(self) -> float:
        """What queries, and keys, get: of a frozen product each factor has half."""
        return self.scores / 2 if self.frozen else self.scores

    @property
    def conserves(self) -> bool:
        """Whether positions and biases add up to the score: a softmax that responds has a part that belongs to none."""
        return self.frozen and self.scores == 0


VALUE_PATH = Path("value_path", values=1.0, scores=0.0)
WHOLE_PATH = Path("whole_path", values=0.5, scores=0.5)
