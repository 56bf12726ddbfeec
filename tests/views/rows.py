"""Explanations made by hand: the scores are known."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from attnx.adapters import Position, group_words
from attnx.results import Explanation
from tests.made import explanation as made_explanation


def explanation(*tokens: str, scores: Sequence[float] | None = None, layers: int = 1) -> Explanation:
    """[CLS] with half of the relevance, then the tokens with `scores` at the last layer, and half of that below."""
    made = [Position(0, "[CLS]", special=True), *(Position(i, token) for i, token in enumerate(tokens, start=1))]
    positions, words = group_words(made, None)
    last = np.array([0.5, *(scores or [0.5 / len(tokens)] * len(tokens))])
    rows = np.array([last / 2 ** (layers - layer) for layer in range(1, layers + 1)])
    return made_explanation(
        positions, words, position=0, layers=tuple(range(1, layers + 1)), relevance={"rollout": rows}
    )
