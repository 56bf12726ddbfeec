"""Links between words to look at: a line for each written word, and the grid of a pair of sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attnx.errors import ChoiceError, whole_number
from attnx.render.axes import VERBATIM, given_or_new
from attnx.render.colours import colour_map
from attnx.render.columns import TextBlock
from attnx.render.printable import printable
from attnx.results.word_alignment import Aligned, Alignment

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_CELL = 0.42
"""Inches for one word."""
_SENTENCES = 10
"""Pairs of sentences that are written out."""


def blocks(alignment: Alignment) -> list[TextBlock]:
    """The error rate where it is known, and which source word each written word is linked to."""
    told = [*error_lines(alignment), *alignment.notes]
    found = [TextBlock(f"Word alignment: {alignment.headline}", tuple(told))]
    for number, one in enumerate(alignment.sentences[:_SENTENCES]):
        heading = f"pair {number + 1} of {len(alignment)}" if len(alignment) > 1 else ""
        lines = [["written", "from", "score"], *_lines(one, alignment.scores[number])]
        found.append(TextBlock(heading, lines=lines))
    if len(alignment) > _SENTENCES:
        found.append(TextBlock(foot=(f"… and {len(alignment) - _SENTENCES:,} more; to_pharaoh() has all",)))
    return found


def error_lines(alignment: Alignment) -> list[str]:
    """How far the links are from a gold's; nothing where there was none."""
    total, interval = alignment.total, alignment.error_interval()
    if interval is None or total.error_rate is None:
        return []
    parts = [f"alignment error rate {total.error_rate:.3f} [{interval[0]:.3f}, {interval[1]:.3f}]"]
    parts += [f"precision {total.precision:.3f}"] if total.precision is not None else []
    parts += [f"recall {total.recall:.3f}"] if total.recall is not None else []
    return [f"{', '.join(parts)}: {total.found:,} links found, {total.sure:,} sure"]


def rows(alignment: Alignment) -> list[dict[str, Any]]:
    """A row for each pair of words."""
    return [
        {
            "sentence": number,
            "target": target,
            "written": one.target[target],
            "source": source,
            "word": one.source[source],
            "score": float(alignment.scores[number][target, source]),
            "linked": (source, target) in set(one.links),
        }
        for number, one in enumerate(alignment.sentences)
        for target in range(len(one.target))
        for source in range(len(one.source))
    ]


def grid(alignment: Alignment, sentence: int = 0, *, ax: Axes | None = None) -> Axes:
    """Written words from the top down, source words across; the darker, the more; links are framed."""
    from matplotlib.patches import Rectangle

    if not 0 <= whole_number("sentence", sentence) < len(alignment):
        raise ChoiceError(f"sentence {sentence} asked, there are {len(alignment)} (0 to {len(alignment) - 1})")
    one, scores = alignment.sentences[sentence], alignment.scores[sentence]
    axes = given_or_new(ax, 2.2 + _CELL * len(one.source), 1.6 + _CELL * len(one.target))
    signed = bool((scores < 0).any())
    most = max(float(abs(scores).max(initial=0.0)), 1e-9)
    axes.imshow(scores, aspect="auto", cmap=colour_map(signed=signed), vmin=-most if signed else 0, vmax=most)
    axes.set_xticks(range(len(one.source)), list(map(printable, one.source)), rotation=60, ha="right", fontsize=9)
    axes.set_yticks(range(len(one.target)), list(map(printable, one.target)), fontsize=9)
    for label in (*axes.get_xticklabels(), *axes.get_yticklabels()):
        label.set(**VERBATIM)
    for source, target in one.links:
        axes.add_patch(Rectangle((source - 0.5, target - 0.5), 1, 1, fill=False, linewidth=1.6, edgecolor="0.15"))
    axes.tick_params(length=0)
    axes.set_xlabel("source", fontsize=9)
    axes.set_ylabel("written", fontsize=9)
    axes.set_title(printable(alignment.scored_by), fontsize=9, **VERBATIM)
    return axes


def _lines(one: Aligned, scores: Any) -> list[list[str]]:
    found = []
    for target, word in enumerate(one.target):
        sources = [source for source, other in one.links if other == target]
        named = " ".join(one.source[source] for source in sources) or "–"
        found.append([word, named, " ".join(f"{scores[target, source]:.3f}" for source in sources)])
    return found
