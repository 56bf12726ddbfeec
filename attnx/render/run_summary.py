"""The summary of a run to look at: a line for each label, and under it the words that carry most."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attnx.render.axes import LOOKS
from attnx.render.columns import TextBlock
from attnx.results.run_summary import Group, RunSummary

_PLACES = ("first fifth", "second", "third", "fourth", "last fifth", "special tokens")
_PLOTTED = 8


def blocks(summary: RunSummary) -> list[TextBlock]:
    lead = [f"{summary.rows:,} rows, {summary.failed:,} of them failed"]
    lead += [f"failed: {reason} ({count:,})" for reason, count in summary.errors.items()]
    return [
        TextBlock(f"What carries most, by {summary.explainer}", tuple(lead), _groups(summary.groups)),
        *_words(summary.groups, ""),
        *(
            [TextBlock("Where the data says something else", (), _groups(summary.disagreements))]
            * bool(summary.disagreements)
        ),
        *_words(summary.disagreements, "where the data says "),
    ]


def rows(summary: RunSummary) -> list[dict[str, Any]]:
    """A row for each word of each group."""
    return [
        {
            "label": group.label,
            "gold": group.gold,
            "word": one.text,
            "first": one.first,
            "rows": one.rows,
            "share": one.share,
        }
        for group in (*summary.groups, *summary.disagreements)
        for one in group.words
    ]


def plot(summary: RunSummary, axes: Any = None) -> Any:
    """For each label how often a word carries most."""
    if axes is None:
        from matplotlib import pyplot

        count = max(1, len(summary.groups))
        figure, panels = pyplot.subplots(1, count, figsize=(3.4 * count, 3.0), squeeze=False)
        figure.set_layout_engine("constrained")
        axes = panels[0]
    for ax, group in zip(axes, summary.groups, strict=False):
        words = [one for one in group.words[:_PLOTTED] if one.first][::-1]
        ax.barh([one.text for one in words], [one.first for one in words], color=LOOKS[0][0])
        ax.set_title(f"{group.label} ({group.rows:,} rows)", fontsize=10)
        ax.set_xlabel("rows in which it carries most", fontsize=8)
    return axes


def _groups(groups: Sequence[Group]) -> list[list[str]]:
    apart = any(one.gold is not None for one in groups)
    known = any(one.right or one.wrong for one in groups)
    head = ["label", *(["gold"] if apart else []), "rows", *(["right"] if known and not apart else []), "probability"]
    lines = [[*head, *_PLACES]]
    for one in groups:
        right = f"{one.right / (one.right + one.wrong):.1%}" if one.right + one.wrong else ""
        lines.append(
            [
                one.label,
                *([one.gold or ""] if apart else []),
                f"{one.rows:,}",
                *([right] if known and not apart else []),
                "" if one.probability is None else f"{one.probability:.3f}",
                *(f"{share:.0%}" for share in one.places),
            ]
        )
    return lines


def _words(groups: Sequence[Group], said: str) -> list[TextBlock]:
    found = []
    for group in groups:
        lines = [["word", "carries most in", "occurs in", "mean share", "rows to look at"]]
        lines += [
            [one.text, f"{one.first:,}", f"{one.rows:,}", f"{one.share:.1%}", ", ".join(map(str, one.examples))]
            for one in group.words
        ]
        found.append(TextBlock(f"{group.label}{f', {said}{group.gold}' if group.gold else ''}", (), lines))
    return found
