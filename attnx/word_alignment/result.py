"""The result of `alignment`: which source word each written word is from, of one pair of sentences or of many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from attnx.adapters import CHOICES, Choice, Gold, LinkCounts, Links, in_order, pharaoh, read_links
from attnx.arguments import path_of
from attnx.errors import AttnxError, InputError
from attnx.registry import unknown
from attnx.results import PROVENANCE, Array, Between, Filled, Result, Rules, check
from attnx.statistics import RESAMPLES

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Aligned:
    """A source and what was written, as words between spaces, and links (source, target) between them, from 0."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    links: Links

    def pairs(self) -> tuple[tuple[str, str], ...]:
        """The words that are linked, in the order of what was written."""
        return tuple((self.source[source], self.target[target]) for source, target in self.links)


def _in_its_words(one: Aligned, _: Any) -> str | None:
    fits = all(0 <= a < len(one.source) and 0 <= b < len(one.target) for a, b in one.links)
    return None if fits else f"links between {len(one.source)} source and {len(one.target)} target words"


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
    """For each pair of sentences target × source: what links were chosen from."""
    method: str
    layer: str
    """The level that the scores are of: "cross 2", or where a chain ends; empty where they are of the whole model."""
    choice: Choice = "argmax"
    row: str = "predicts"
    """Whose row stands for a written word: the position that predicts it, or the one that reads it."""
    counts: tuple[LinkCounts, ...] = ()
    """For each pair of sentences how its links agree with those of a gold file, where there was one."""
    notes: tuple[str, ...] = ()
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check(self)

    @classmethod
    def choose(
        cls, words: Sequence[tuple[Sequence[str], Sequence[str]]], scores: Sequence[Array], choice: Choice, **told: Any
    ) -> Alignment:
        """Links from scores, of (source words, target words) each; a column more than words is what is no word."""
        if choice not in CHOICES:
            raise AttnxError(unknown("choice", choice, CHOICES))
        sentences = []
        for (source, target), matrix in zip(words, scores, strict=True):
            links = (link for link in CHOICES[choice](matrix) if link[0] < len(source))
            sentences.append(Aligned(tuple(source), tuple(target), tuple(in_order(links))))
        kept = tuple(matrix[:, : len(source)].copy() for (source, _), matrix in zip(words, scores, strict=True))
        return cls(tuple(sentences), kept, choice=choice, **told)

    def __len__(self) -> int:
        return len(self.sentences)

    def pairs(self, sentence: int = 0) -> tuple[tuple[str, str], ...]:
        """(source word, written word) of each link."""
        return self.sentences[sentence].pairs()

    def swapped(self) -> Alignment:
        """Source and target in each other's place: what a model of the other direction says of this one."""
        turned = [
            Aligned(sentence.target, sentence.source, tuple(in_order((b, a) for a, b in sentence.links)))
            for sentence in self.sentences
        ]
        return replace(self, sentences=tuple(turned), scores=tuple(score.T.copy() for score in self.scores), counts=())

    def __and__(self, other: Alignment) -> Alignment:
        """The links that both have: of a model of each direction, `forward & backward.swapped()`."""
        if [(len(sentence.source), len(sentence.target)) for sentence in self.sentences] != [
            (len(sentence.source), len(sentence.target)) for sentence in other.sentences
        ]:
            raise InputError("the two alignments are not of the same sentences; of the other direction take .swapped()")
        both = [
            replace(sentence, links=tuple(link for link in sentence.links if link in set(two.links)))
            for sentence, two in zip(self.sentences, other.sentences, strict=True)
        ]
        return replace(self, sentences=tuple(both), counts=())

    def to_pharaoh(self, path: str | PathLike[str] | None = None) -> str:
        """A line for each pair of sentences, source-target from 0, as `0-0 2-1`; `path` is a file to write, too."""
        text = pharaoh(sentence.links for sentence in self.sentences)
        if path is not None:
            try:
                Path(path_of(path)).write_text(text, encoding="utf-8")
            except OSError as error:
                raise AttnxError(f"cannot write {path}: {error}") from error
        return text

    def against(self, gold: str | PathLike[str] | Sequence[Gold], *, first: int | None = None) -> Alignment:
        """The same with its agreement with a gold: a file (`first`: the number of its first word), or its links."""
        wanted = list(gold) if isinstance(gold, (list, tuple)) else read_links(gold, first=first)  # type: ignore[arg-type]
        if len(wanted) != len(self):
            raise InputError(f"the gold has {len(wanted)} lines, and {len(self)} pairs of sentences were aligned")
        for number, (one, right) in enumerate(zip(self.sentences, wanted, strict=True), start=1):
            for source, target in right.possible:
                if source >= len(one.source) or target >= len(one.target):
                    raise InputError(
                        f"line {number} of the gold links word {source} to {target}, from 0; there are "
                        f"{len(one.source)} source and {len(one.target)} target words between spaces"
                        " (does the gold count from 1? first=1)"
                    )
        return replace(
            self,
            counts=tuple(
                LinkCounts.of(sentence.links, right) for sentence, right in zip(self.sentences, wanted, strict=True)
            ),
        )

    @property
    def total(self) -> LinkCounts:
        """Over all pairs of sentences."""
        return sum(self.counts, LinkCounts())

    @property
    def error_rate(self) -> float | None:
        """The alignment error rate over all sentences; None without a gold."""
        return self.total.error_rate

    def error_interval(self, seed: int = 0) -> tuple[float, float] | None:
        """The 95 % interval of the error rate, sentences drawn anew; None without a gold."""
        if self.error_rate is None:
            return None
        table = np.array([(count.found + count.sure, count.found_sure + count.found_possible) for count in self.counts])
        drawn = table[np.random.default_rng(seed).integers(len(table), size=(RESAMPLES, len(table)))].sum(1)
        low, high = np.quantile(1 - drawn[:, 1] / np.maximum(drawn[:, 0], 1), (0.025, 0.975))
        return float(low), float(high)

    @property
    def headline(self) -> str:
        """What links were chosen from, in a line."""
        how = "the source word with the highest score" if self.choice == "argmax" else "highest in both directions"
        return f"{self.scored_by}, {how}; the position that {self.row} a word stands for it"

    @property
    def scored_by(self) -> str:
        """The method with its level, or what was measured on the whole model."""
        return f"{self.method} at {self.layer}" if self.layer else self.method

    def plot(self, sentence: int = 0, *, ax: Axes | None = None) -> Axes:
        """The grid of one pair of sentences: a row for each written word, its links framed."""
        drawn: Axes = self._view.plot(self, sentence, ax=ax)
        return drawn

    def __repr__(self) -> str:
        links = sum(len(sentence.links) for sentence in self.sentences)
        return f"Alignment({len(self)} pair{'s' * (len(self) != 1)} of sentences, {links} links)"
