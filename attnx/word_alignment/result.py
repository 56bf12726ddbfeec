"""The result of `alignment`: which source word each target word is aligned to, in one pair of sentences or in many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from attnx.arguments import path_of
from attnx.errors import AttnxError, ChoiceError, InputError, whole_number
from attnx.registry import unknown
from attnx.results import PROVENANCE, Array, Between, Filled, Result, Rules, check
from attnx.similarity import Similarity, alignment_data
from attnx.statistics import RESAMPLES
from attnx.views import VERBATIM, Shown, TextBlock, axes_or_new, draw_heat_map, printable, table_data
from attnx.word_alignment.links import CHOICES, Choice, Gold, LinkCounts, Links, in_order, pharaoh, read_links

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Aligned:
    """A source and its target as words between spaces, and links (source, target) between them, from 0."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    links: Links

    def pairs(self) -> tuple[tuple[str, str], ...]:
        """The linked words, in the order of the target."""
        return tuple((self.source[source], self.target[target]) for source, target in self.links)


def _in_its_words(sentence: Aligned, _: Any) -> str | None:
    size = len(sentence.source), len(sentence.target)
    fits = all(0 <= source < size[0] and 0 <= target < size[1] for source, target in sentence.links)
    return None if fits else f"links between {size[0]} source and {size[1]} target words"


def _a_matrix_each(scores: Sequence[Array], result: Any) -> str | None:
    sizes = [(len(sentence.target), len(sentence.source)) for sentence in result.whole.sentences]
    fits = [np.shape(score) for score in scores] == sizes and all(np.isfinite(score).all() for score in scores)
    return None if fits else "finite numbers, target × source, for each pair of sentences"


def _one_each(counts: Sequence[LinkCounts], result: Any) -> str | None:
    return None if len(counts) in (0, len(result.whole.sentences)) else "one for each pair of sentences, or none"


@dataclass(frozen=True, eq=False)
class Alignment(Result):
    """Links between words. `a.pairs()` names them, `a.to_pharaoh()` writes them, `a.against(gold)` counts errors.

    >>> from attnx.demo_models.dates import load_demo
    >>> model, tokenizer = load_demo()
    >>> links = align(model, tokenizer, ["the third of march 1998"], ["1998 03 03"], progress=False)
    >>> links.to_pharaoh().split()[0]
    '4-0'
    """

    kind: ClassVar[str] = "word alignment"
    rules: ClassVar[Rules] = {
        "sentences": Filled(),
        "sentences.*": _in_its_words,
        "scores": _a_matrix_each,
        "counts": _one_each,
        **{f"counts.*.{name}": Between(0) for name in ("found", "sure", "found_sure", "found_possible")},
        **PROVENANCE,
    }

    sentences: tuple[Aligned, ...]
    scores: tuple[Array, ...]
    """For each pair of sentences target × source: the scores that links were chosen from."""
    method: str
    layer: str
    """The attention block of the scores, such as "cross 2"; empty where they are of the whole model."""
    choice: Choice = "argmax"
    row: str = "predicts"
    """Which position stands for a target word: the one that "predicts" it, or the one that "reads" it."""
    counts: tuple[LinkCounts, ...] = ()
    """For each pair of sentences how its links agree with gold links, where there are some."""
    notes: tuple[str, ...] = ()
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check(self)

    @classmethod
    def choose(
        cls,
        words: Sequence[tuple[Sequence[str], Sequence[str]]],
        scores: Sequence[Array],
        choice: Choice,
        **options: Any,
    ) -> Alignment:
        """Choose links from scores, for pairs of (source words, target words); a last column may stand for no word."""
        if choice not in CHOICES:
            raise AttnxError(unknown("choice", choice, CHOICES))
        sentences = []
        for (source, target), matrix in zip(words, scores, strict=True):
            links = (link for link in CHOICES[choice](matrix) if link[0] < len(source))
            sentences.append(Aligned(tuple(source), tuple(target), tuple(in_order(links))))
        kept = tuple(matrix[:, : len(source)].copy() for (source, _), matrix in zip(words, scores, strict=True))
        return cls(tuple(sentences), kept, choice=choice, **options)

    def __len__(self) -> int:
        return len(self.sentences)

    def pairs(self, sentence: int = 0) -> tuple[tuple[str, str], ...]:
        """(source word, target word) of each link."""
        return self.sentences[sentence].pairs()

    def swapped(self) -> Alignment:
        """Exchange source and target, to combine a model of the other direction with this one."""
        sentences = [
            Aligned(sentence.target, sentence.source, tuple(in_order((b, a) for a, b in sentence.links)))
            for sentence in self.sentences
        ]
        return replace(
            self, sentences=tuple(sentences), scores=tuple(score.T.copy() for score in self.scores), counts=()
        )

    def __and__(self, other: Alignment) -> Alignment:
        """The links that both have, as of two models: `forward & backward.swapped()`."""
        if [(len(sentence.source), len(sentence.target)) for sentence in self.sentences] != [
            (len(sentence.source), len(sentence.target)) for sentence in other.sentences
        ]:
            raise InputError("the two alignments are not of the same sentences; for the other direction use .swapped()")
        sentences = [
            replace(sentence, links=tuple(link for link in sentence.links if link in set(second.links)))
            for sentence, second in zip(self.sentences, other.sentences, strict=True)
        ]
        return replace(self, sentences=tuple(sentences), counts=())

    def to_pharaoh(self, path: str | PathLike[str] | None = None) -> str:
        """Pharaoh format: a line of source-target links from 0 for each pair of sentences, such as `0-0 2-1`.

        Args:
            path: a file to write the text to as well.
        """
        text = pharaoh(sentence.links for sentence in self.sentences)
        if path is not None:
            try:
                Path(path_of(path)).write_text(text, encoding="utf-8")
            except OSError as error:
                raise AttnxError(f"cannot write {path}: {error}") from error
        return text

    def against(self, gold: str | PathLike[str] | Sequence[Gold], *, first: int | None = None) -> Alignment:
        """Count how links agree with gold links.

        Args:
            gold: a file of links, or the links that `read_links` read from one.
            first: the number of the first word in that file.

        Returns:
            The same alignment with `counts` and an `error_rate`.
        """
        golds = list(gold) if isinstance(gold, (list, tuple)) else read_links(gold, first=first)  # type: ignore[arg-type]
        if len(golds) != len(self):
            raise InputError(f"the gold has {len(golds)} lines, but {len(self)} pairs of sentences were aligned")
        for number, (sentence, right) in enumerate(zip(self.sentences, golds, strict=True), start=1):
            for source, target in right.possible:
                if source >= len(sentence.source) or target >= len(sentence.target):
                    raise InputError(
                        f"line {number} of the gold links word {source} to {target}, from 0; there are "
                        f"{len(sentence.source)} source and {len(sentence.target)} target words between spaces"
                        " (does the gold count from 1? first=1)"
                    )
        pairs = zip(self.sentences, golds, strict=True)
        return replace(self, counts=tuple(LinkCounts.of(sentence.links, right) for sentence, right in pairs))

    @property
    def total(self) -> LinkCounts:
        """Over all pairs of sentences."""
        return sum(self.counts, LinkCounts())

    @property
    def error_rate(self) -> float | None:
        """The alignment error rate over all sentences; None without a gold."""
        return self.total.error_rate

    def error_interval(self, seed: int = 0) -> tuple[float, float] | None:
        """The 95 % interval of the error rate, from resampled sentences; None without a gold."""
        if self.error_rate is None:
            return None
        totals = np.array(
            [(count.found + count.sure, count.found_sure + count.found_possible) for count in self.counts]
        )
        samples = totals[np.random.default_rng(seed).integers(len(totals), size=(RESAMPLES, len(totals)))].sum(1)
        low, high = np.quantile(1 - samples[:, 1] / np.maximum(samples[:, 0], 1), (0.025, 0.975))
        return float(low), float(high)

    @property
    def headline(self) -> str:
        """How links were chosen, in a line."""
        choice = "the source word with the highest score" if self.choice == "argmax" else "highest in both directions"
        return f"{self.scored_by}, {choice}; the position that {self.row} a word stands for it"

    @property
    def scored_by(self) -> str:
        """The method with its attention block, if it has one."""
        return f"{self.method} at {self.layer}" if self.layer else self.method

    def plot(self, sentence: int = 0, *, ax: Axes | None = None) -> Axes:
        """Draw the grid of one pair of sentences: a row for each target word, its links framed."""
        axes: Axes = self._view.plot(self, sentence, ax=ax)
        return axes

    def __repr__(self) -> str:
        links = sum(len(sentence.links) for sentence in self.sentences)
        return f"Alignment({len(self)} pair{'s' * (len(self) != 1)} of sentences, {links} links)"


_CELL = 0.42
"""Inches for one word."""
_SENTENCES = 10
"""The most pairs of sentences in a text."""
_PAGE_SCORES = 100_000
"""The most scores in a page, at about ten bytes each; it says how many sentences were left out."""


def blocks(alignment: Alignment) -> list[TextBlock]:
    """The error rate where it is known, and the source words that each target word is linked to."""
    lead = (*error_lines(alignment), *alignment.notes)
    text_blocks = [TextBlock(f"Word alignment: {alignment.headline}", lead)]
    pairs = list(zip(alignment.sentences, alignment.scores, strict=True))
    for number, (sentence, scores) in enumerate(pairs[:_SENTENCES], start=1):
        lines = [["target", "source", "score"]]
        for target, word in enumerate(sentence.target):
            sources = [source for source, other in sentence.links if other == target]
            linked = " ".join(sentence.source[source] for source in sources) or "–"
            lines.append([word, linked, " ".join(f"{scores[target, source]:.3f}" for source in sources)])
        text_blocks.append(TextBlock(f"pair {number} of {len(pairs)}" if len(pairs) > 1 else "", lines=lines))
    if len(pairs) > _SENTENCES:
        text_blocks.append(TextBlock(foot=(f"… and {len(pairs) - _SENTENCES:,} more; to_pharaoh() has all",)))
    return text_blocks


def error_lines(alignment: Alignment) -> list[str]:
    """Error rate, precision and recall; nothing without a gold."""
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
            "target_word": sentence.target[target],
            "source": source,
            "source_word": sentence.source[source],
            "score": float(alignment.scores[number][target, source]),
            "linked": (source, target) in set(sentence.links),
        }
        for number, sentence in enumerate(alignment.sentences)
        for target in range(len(sentence.target))
        for source in range(len(sentence.source))
    ]


def grid(alignment: Alignment, sentence: int = 0, *, ax: Axes | None = None) -> Axes:
    """Target words from the top down, source words across; links are framed."""
    from matplotlib.patches import Rectangle

    if not 0 <= whole_number("sentence", sentence) < len(alignment):
        raise ChoiceError(
            f"sentence {sentence} was requested, but the alignment has {len(alignment)} (0 to {len(alignment) - 1})"
        )
    pair, scores = alignment.sentences[sentence], alignment.scores[sentence]
    axes = axes_or_new(ax, 2.2 + _CELL * len(pair.source), 1.6 + _CELL * len(pair.target))
    draw_heat_map(axes, scores, pair.source, pair.target, origin="upper", rotation=60, colour_bar=False)
    for source, target in pair.links:
        axes.add_patch(Rectangle((source - 0.5, target - 0.5), 1, 1, fill=False, linewidth=1.6, edgecolor="0.15"))
    axes.set_xlabel("source", fontsize=9)
    axes.set_ylabel("target", fontsize=9)
    axes.set_title(printable(alignment.scored_by), fontsize=9, **VERBATIM)
    return axes


def alignment_section(shown: Shown) -> dict[str, Any] | None:
    """The words, links and scores of each pair of sentences, or of the two sides of a similarity."""
    alignment, similarity = shown.only(Alignment), shown.only(Similarity)
    if alignment is None:
        return None if similarity is None or similarity.grid is None else alignment_data(similarity)
    kept, room = 0, _PAGE_SCORES
    while kept < len(alignment) and (kept == 0 or alignment.scores[kept].size <= room):
        room -= alignment.scores[kept].size
        kept += 1
    notes = [*error_lines(alignment), *alignment.notes]
    if kept < len(alignment):
        notes.append(f"{kept:,} of {len(alignment):,} pairs of sentences are in this page")
    return {
        "title": "Source and target",
        "names": {"source": "Source", "target": "Target"},
        "verbs": {"target": "is aligned to", "source": "is aligned to"},
        "arrow": "←",
        "all": "All pairs; links are framed",
        "start": 0,
        "headline": alignment.headline,
        "notes": notes,
        "sentences": [
            {
                "source": list(sentence.source),
                "target": list(sentence.target),
                "links": [list(link) for link in sentence.links],
                "scores": np.round(scores.astype(float), 6).tolist(),
            }
            for sentence, scores in zip(alignment.sentences[:kept], alignment.scores[:kept], strict=True)
        ],
        "tables": table_data(blocks(alignment)),
    }
