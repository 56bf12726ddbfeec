"""Words of two sides, source and written or two texts: a click on one colours the other, a grid shows all pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from attnx.errors import ChoiceError, whole_number
from attnx.similarity import Similarity, grid_heading, pair_noun, shortened, sums
from attnx.similarity import blocks as similarity_blocks
from attnx.views import VERBATIM, Shown, TextBlock, colour_map, given_or_new, printable, table_data
from attnx.word_alignment.result import Aligned, Alignment

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_CELL = 0.42
"""Inches for one word."""
_SENTENCES = 10
"""Pairs of sentences that are written out."""


def blocks(alignment: Alignment) -> list[TextBlock]:
    """The error rate where it is known, and which source word each written word is linked to."""
    names = [*error_lines(alignment), *alignment.notes]
    text_blocks = [TextBlock(f"Word alignment: {alignment.headline}", tuple(names))]
    for number, sentence in enumerate(alignment.sentences[:_SENTENCES]):
        heading = f"pair {number + 1} of {len(alignment)}" if len(alignment) > 1 else ""
        lines = [["written", "from", "score"], *_lines(sentence, alignment.scores[number])]
        text_blocks.append(TextBlock(heading, lines=lines))
    if len(alignment) > _SENTENCES:
        text_blocks.append(TextBlock(foot=(f"… and {len(alignment) - _SENTENCES:,} more; to_pharaoh() has all",)))
    return text_blocks


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
            "written": sentence.target[target],
            "source": source,
            "word": sentence.source[source],
            "score": float(alignment.scores[number][target, source]),
            "linked": (source, target) in set(sentence.links),
        }
        for number, sentence in enumerate(alignment.sentences)
        for target in range(len(sentence.target))
        for source in range(len(sentence.source))
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
    result = []
    for target, word in enumerate(one.target):
        sources = [source for source, other in one.links if other == target]
        named = " ".join(one.source[source] for source in sources) or "–"
        result.append([word, named, " ".join(f"{scores[target, source]:.3f}" for source in sources)])
    return result


_NUMBERS = 100_000
"""Scores in a page, at about ten bytes each; sentences beyond are not in it, and the page says so."""


def alignment_section(shown: Shown) -> dict[str, Any] | None:
    """The words, links and scores of each pair of sentences, and what is said of all."""
    alignment, similarity = shown.only(Alignment), shown.only(Similarity)
    if alignment is not None:
        return _aligned(alignment)
    return None if similarity is None or similarity.grid is None else _similar(similarity)


def _aligned(alignment: Alignment) -> dict[str, Any]:
    kept, room = 0, _NUMBERS
    while kept < len(alignment) and (kept == 0 or alignment.scores[kept].size <= room):
        room -= alignment.scores[kept].size
        kept += 1
    cut = [f"{kept:,} of {len(alignment):,} pairs of sentences are in this page"] if kept < len(alignment) else []
    return {
        **_WRITTEN,
        "headline": alignment.headline,
        "notes": [*error_lines(alignment), *alignment.notes, *cut],
        "sentences": [
            {
                "source": list(sentence.source),
                "target": list(sentence.target),
                "links": [list(link) for link in sentence.links],
                "scores": [[round(float(score), 6) for score in row] for row in scores],
            }
            for sentence, scores in zip(alignment.sentences[:kept], alignment.scores[:kept], strict=True)
        ],
        "tables": table_data(blocks(alignment)),
    }


def _similar(similarity: Similarity) -> dict[str, Any]:
    """Texts, or a picture's patches, as the two sides, the first on the left and across the grid."""
    across, down, grid = shortened(similarity)
    best = int(np.abs(grid[:-1, :-1]).max(0, initial=0).argmax()) if len(down) > 1 else 0
    return {
        **_SIMILAR,
        "names": dict(zip(("source", "target"), map(str.capitalize, similarity.titles), strict=True)),
        "all": f"All pairs of {pair_noun(similarity)}",
        "headline": f"{similarity.headline}; {grid_heading(similarity)}",
        "start": best,
        "notes": [sums(similarity), *similarity.notes],
        "sentences": [{"source": across, "target": down, "links": [], "scores": np.round(grid.T, 6).tolist()}],
        "tables": table_data(similarity_blocks(similarity)),
    }


_WRITTEN = {
    "title": "Source and what was written",
    "names": {"source": "Source", "target": "Written"},
    "said": {"target": "was written from", "source": "went into"},
    "arrow": "←",
    "all": "All pairs; links are framed",
    "start": 0,
}
_SIMILAR = {
    "title": "What makes both similar",
    "said": {"target": "goes with", "source": "goes with"},
    "arrow": "×",
}
"""What each kind calls its two sides."""
