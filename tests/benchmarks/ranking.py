"""How high a method puts the word that decides: reciprocal ranks, what chance and fixed orders reach, intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

RESAMPLES = 2_000
DIGITS = 9
"""Scores that differ only beyond tie: their order means nothing."""


def reciprocal_rank(scores: Sequence[float], cue: int) -> float:
    """1 / rank of word `cue`, the highest score first; words that tie count as in random order.

    >>> reciprocal_rank([3.0, 1.0, 1.0], 1)
    0.41666666666666663
    """
    rounded = np.round(np.asarray(scores, dtype=np.float64), DIGITS)
    above, level = int((rounded > rounded[cue]).sum()), int((rounded == rounded[cue]).sum())
    return float(np.mean([1 / (above + 1 + tied) for tied in range(level)]))


def is_first(scores: Sequence[float], cue: int) -> float:
    """1 where word `cue` has the highest score, its share of it where several have."""
    rounded = np.round(np.asarray(scores, dtype=np.float64), DIGITS)
    return float(rounded[cue] == rounded.max()) / int((rounded == rounded.max()).sum())


def fixed_orders(words: int) -> Mapping[str, Sequence[float]]:
    """Orders that know nothing of the text, as scores."""
    forward = [float(-place) for place in range(words)]
    second = [0.5 if place == 1 else -place for place in range(words)]
    return {"chance": [0.0] * words, "(first word)": forward, "(last word)": forward[::-1], "(second word)": second}


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
