"""A result where no script runs: its words, each on one of eleven backgrounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

LEVELS = 10
Table: TypeAlias = tuple[str, list[list[str]]]
"""A heading, and rows of cells."""


@dataclass(frozen=True)
class PlainWord:
    text: str
    gap: str
    level: int
    """From 0 to 10, as a share of the strongest word."""
    score: str


@dataclass(frozen=True)
class PlainResult:
    """What the template `result.html.jinja` shows."""

    label: str
    probability: str
    headline: str
    words: tuple[PlainWord, ...]
    notes: tuple[str, ...]


def plain(result: dict[str, Any]) -> PlainResult:
    """The last layer of the default method, from what the page's scripts read."""
    scores = result["relevance"][result["method"]][-1]
    sums = [sum(scores[place] for place in word["positions"]) for word in result["words"]]
    most = max([0.0, *sums])
    words = tuple(
        PlainWord(word["text"], word["gap"], round(LEVELS * max(score, 0) / most) if most > 0 else 0, f"{score:.6f}")
        for word, score in zip(result["words"], sums, strict=True)
    )
    answer = result["prediction"] or {"label": "", "probability": None}
    probability = answer["probability"]
    explained = result["positions"][result["position"]]["token"]
    return PlainResult(
        label=answer["label"],
        probability="" if probability is None else f"{probability:.1%}",
        headline=f"{result['method']} at layer {result['layers'][-1]}, "
        f"explained position {result['position']} {explained}",
        words=words,
        notes=tuple(result["notes"]),
    )


def plain_means(summary: dict[str, Any] | None) -> list[Table]:
    """For each reference a heading, and the means by method and layer."""
    if summary is None:
        return []
    tables = []
    for reference, found in summary["references"].items():
        heading = f"Agreement with {reference}: {summary['measure']}, mean of {summary['count']}"
        rows = [["layer", *map(str, summary["layers"])]]
        rows += [[method, *(_cell(one["mean"]) for one in cells)] for method, cells in found["means"].items()]
        tables.append((heading, rows))
    return tables


def plain_heads(atlas: dict[str, Any] | None) -> list[Table]:
    """For each grid of a head atlas a heading, and its layers, the last on top."""
    if atlas is None:
        return []
    tables = []
    for name, grid in atlas["grids"].items():
        rows = [[str(layer), *map(_cell, row)] for layer, row in zip(atlas["layers"], grid, strict=True)]
        heading = f"Heads, {name}: mean of {atlas['count']}"
        tables.append((heading, [["layer", *map(str, range(len(grid[0])))], *reversed(rows)]))
    return tables


def plain_faithfulness(found: dict[str, Any] | None) -> list[Table]:
    """The four numbers of each explainer, with the marks of their verdicts."""
    if found is None:
        return []
    rows = [
        [name, *(f"{_cell(one['mean'])} {one['mark']}".rstrip() for one in cells)]
        for name, cells in found["cells"].items()
    ]
    return [(found["heading"], [["", *found["metrics"]], *rows])]


def _cell(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"
