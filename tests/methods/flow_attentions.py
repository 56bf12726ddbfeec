"""Attention to test flow on: every kind that a model, a mask or a careless user can bring."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

Array = np.ndarray[Any, np.dtype[np.float64]]

KINDS = ("random", "sharp", "uniform", "one-hot", "causal", "windowed", "zero rows", "ties", "below one")


def attention(kind: str, *, layers: int, heads: int, length: int, seed: int) -> Array:
    """layer × head × n × n of one kind."""
    draw = np.random.default_rng(seed)
    shape = (layers, heads, length, length)
    weights = draw.exponential(size=shape)
    query, key = np.indices((length, length))
    if kind == "sharp":
        weights = weights**8
    elif kind == "uniform":
        weights = np.ones(shape)
    elif kind == "one-hot":
        weights = (draw.integers(length, size=shape[:3])[..., None] == np.arange(length)).astype(float)
    elif kind == "causal":
        weights = weights * (key <= query)
    elif kind == "windowed":
        weights = weights * (abs(query - key) <= 1)
    elif kind == "ties":
        weights = draw.integers(1, 4, size=shape).astype(float)
    weights = weights / weights.sum(-1, keepdims=True)
    if kind == "zero rows":
        weights = weights * (draw.random(shape[:3]) < 0.6)[..., None]
    elif kind == "below one":
        weights = weights * draw.random(shape[:3])[..., None]
    return weights


@st.composite
def attentions(draw: st.DrawFn, *, layers: int = 8, length: int = 7, heads: int = 2) -> Array:
    """Any kind, in any size up to the given one."""
    return attention(
        draw(st.sampled_from(KINDS)),
        layers=draw(st.integers(1, layers)),
        heads=draw(st.integers(1, heads)),
        length=draw(st.integers(1, length)),
        seed=draw(st.integers(0, 2**32 - 1)),
    )


residuals = st.sampled_from([0.0, 0.25, 0.5, 0.9, 1.0])


def capacities(weights: Array, residual: float = 0.5) -> Array:
    """layer × query × key, written here again so that the tests do not lean on what they test."""
    mixed = (1 - residual) * weights.mean(1) + residual * np.eye(weights.shape[-1])
    sums = mixed.sum(-1, keepdims=True)
    return mixed / np.where(sums > 0, sums, 1)
