"""How a model is trained: every number that the result depends on, in one frozen value that checkpoints carry."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Recipe:
    """One run of training. An epoch is all natural lines, plus so many of each other source, newly drawn each time."""

    seed: int = 0
    epochs: int = 12
    batch: int = 64
    learning_rate: float = 1e-3
    warmup_steps: int = 300
    weight_decay: float = 0.01
    clip: float = 1.0
    averaging: float = 0.999
    """Decay of the running mean of the weights, which is what is kept in the end."""
    word_dropout: float = 0.05
    """Share of words that are replaced by `<unk>`, newly drawn in each step."""
    dropout: float = 0.1
    """On the embeddings, the attention weights and the residual stream of a new model."""
    attractor_lines: int = 12_000
    """Lines per epoch from files of which every line has attractors: few, because nature has few."""
    generated: int = 4_000
    """Generated sentences per epoch."""
    joined: int = 0
    """Sentences of two clauses per epoch, each put together from two natural lines."""
    prefixes: int = 0
    """Shorter beginnings per epoch, cut from those in the data and labelled by the teacher."""
    noun_phrases: int = 0
    """Single words per epoch, each after "the" and labelled by the teacher."""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


TEACHER = Recipe(
    epochs=1, batch=32, learning_rate=1e-4, warmup_steps=100, word_dropout=0.0, attractor_lines=6_000, generated=0
)
"""For a pretrained body: short, gentle, and natural sentences above all."""

STUDENT = Recipe(epochs=6, attractor_lines=16_000, prefixes=40_000)
"""For the small model that learns from a teacher."""

CONTINUED = Recipe(
    epochs=3,
    batch=32,
    learning_rate=6e-4,
    dropout=0.05,
    word_dropout=0.02,
    attractor_lines=12_000,
    generated=2_000,
    joined=14_000,
    prefixes=26_000,
    noun_phrases=6_000,
)
"""For a student that goes on: longer sentences, single words, and less noise."""

ALONE = Recipe(joined=8_000)
"""For the small model without a teacher."""
