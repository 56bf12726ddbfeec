"""Explanations made by hand, from tables of scores by method."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

import attnx
from attnx.results import Attribution


def attributions(
    layers: tuple[int, ...],
    relevance: Mapping[str, Any],
    references: Mapping[str, Any] | None = None,
    *,
    signed: Collection[str] = (),
    local: Collection[str] = (),
    target_specific: Collection[str] = (),
    digits: Mapping[str, int] | None = None,
    diagnostics: Mapping[str, Mapping[str, Any]] | None = None,
    maps: Mapping[str, Any] | None = None,
    first: str | None = None,
) -> dict[str, Attribution]:
    """`relevance` has an axis of layers, `references` have not; `first` leads the order."""
    every = {**relevance, **(references or {})}
    order = [name for name in (first, *every) if name is not None]
    return {
        name: Attribution(
            name,
            np.asarray(every[name]),
            layers if name in relevance else None,
            signed=name in signed,
            target_specific=name in target_specific,
            single_layer=name in local,
            precision=(digits or {}).get(name),
            diagnostics=(diagnostics or {}).get(name, {}),
            matrices=(maps or {}).get(name),
        )
        for name in dict.fromkeys(order)
    }


_TABLES = ("signed", "local", "target_specific", "digits", "diagnostics", "maps", "first")


def explanation(
    positions: Any,
    words: Any,
    position: int,
    layers: tuple[int, ...],
    relevance: Mapping[str, Any],
    references: Mapping[str, Any] | None = None,
    **fields: Any,
) -> attnx.Explanation:
    tables = {name: fields.pop(name) for name in _TABLES if name in fields}
    return attnx.Explanation(
        positions, words, position, attributions(layers, relevance, references, **tables), **fields
    )


def generation(
    positions: Any,
    words: Any,
    prompt_length: int,
    layer: int,
    relevance: Mapping[str, Any],
    predictions: Any,
    references: Mapping[str, Any] | None = None,
    **fields: Any,
) -> attnx.GenerationExplanation:
    """Of one layer."""
    tables = {name: fields.pop(name) for name in _TABLES if name in fields}
    stacked = {name: np.asarray(scores)[None] for name, scores in relevance.items()}
    return attnx.GenerationExplanation(
        positions,
        words,
        prompt_length,
        attributions((layer,), stacked, references, **tables),
        predictions,
        **fields,
    )


def with_scores(one: Any, scores: Mapping[str, Any] | None = None, **changes: Any) -> Any:
    """The same result with other methods: new ones replace all that are layered or not as they are.

    `changes` are `relevance` and `references`, which stand for all layered and all other methods, or tables by method.
    """
    layered = {name: value.scores for name, value in one.attributions.items() if value.layers is not None}
    others = {name: value.scores for name, value in one.attributions.items() if value.layers is None}
    tables: dict[str, Any] = {
        "signed": {name for name, value in one.attributions.items() if value.signed},
        "local": {name for name, value in one.attributions.items() if value.single_layer},
        "target_specific": {name for name, value in one.attributions.items() if value.target_specific},
        "digits": {name: value.precision for name, value in one.attributions.items()},
        "diagnostics": {name: value.diagnostics for name, value in one.attributions.items()},
        "maps": {name: value.matrices for name, value in one.attributions.items()},
        "first": next(iter(one.attributions)),
    }
    layers = changes.pop("layers", one.layers)
    relevance, references = changes.pop("relevance", layered), changes.pop("references", others)
    tables |= {
        name: changes.pop(name) or {} if name == "maps" else changes.pop(name) for name in _TABLES if name in changes
    }
    if tables["first"] not in {**relevance, **references}:
        tables["first"] = None
    return replace(one, attributions=attributions(layers, relevance, references, **tables), **changes)
