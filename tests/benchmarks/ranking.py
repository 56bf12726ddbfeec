"""How high a method puts the word that decides, by the arithmetic of `attnx.truth`; intervals and Markdown tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from attnx.benchmarks import ranking

RESAMPLES = 2_000


def reciprocal_rank(scores: Sequence[float], cue: int) -> float:
    """1 / rank of word `cue`, the highest score first; words that tie count as in random order."""
    return ranking.reciprocal_rank(scores, [cue])


def is_first(scores: Sequence[float], cue: int) -> float:
    """1 where word `cue` has the highest score, its share of it where several have."""
    return ranking.is_first(scores, [cue])


def fixed_orders(words: int) -> Mapping[str, Sequence[float]]:
    """Orders that know nothing of the text, as scores."""
    return {name.replace(")", " word)"): scores for name, scores in ranking.fixed_orders(words).items()}


def interval(columns: Sequence[np.ndarray], seed: int = 0) -> tuple[float, float, float]:
    """The mean of the columns' means, and its 95 % bootstrap interval: rows are drawn anew within each column."""
    random = np.random.default_rng(seed)
    drawn = [column[random.integers(len(column), size=(RESAMPLES, len(column)))].mean(1) for column in columns]
    low, high = np.quantile(np.mean(drawn, axis=0), (0.025, 0.975))
    return float(np.mean([column.mean() for column in columns])), float(low), float(high)


def table(rows: Sequence[Sequence[object]]) -> str:
    """A table in Markdown, its first row the heading; numbers with as many digits as mean something."""
    cells = [[f"{one:.3f}" if isinstance(one, float) else str(one) for one in row] for row in rows]
    lines = ["| " + " | ".join(row) + " |" for row in cells]
    return "\n".join([lines[0], "|" + "---|" * len(cells[0]), *lines[1:]])
