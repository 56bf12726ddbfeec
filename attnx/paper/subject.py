"""Tables 1 and 2, and the subject check, over many trainings: each model's table, side by side.

Rows beyond the paper's are the methods that are about the answer, which it did not have.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, ClassVar

import numpy as np
from torch import nn

from attnx.adapters import PreparedInput, adapter_for
from attnx.attribution import PAPER, blankout, cases, gradient
from attnx.demo_models import Beginning
from attnx.errors import InputError
from attnx.evaluation import FACTS, Gathered, facts, with_left_out
from attnx.graph import check_layer
from attnx.methods import PAPER_METHODS
from attnx.paper.sentences import Sentences
from attnx.paper.table import Shares, SubjectTable
from attnx.paper.tables import relevance_rows, tabulated
from attnx.results import provenance
from attnx.runs import Cells, DatasetTask, RowCallback
from attnx.statistics import Summary

Array = np.ndarray[Any, np.dtype[np.float64]]


def subject(
    model: nn.Module,
    tokenizer: Any,
    sentences: Sentences,
    *,
    layer: int | None = None,
    methods: Sequence[str] = PAPER_METHODS,
    seed: int = 0,
    progress: bool = False,
    run_dir: str | PathLike[str] | None = None,
    **options: Any,
) -> SubjectTable:
    """Where relevance lies at one layer, by default the last. Every sentence must have a known subject.

    With a folder as `run_dir` the work is kept there, as in `table1`.
    """
    unknown = [one.text for one in sentences.beginnings if one.subject is None]
    if unknown:
        raise InputError(
            f"{len(unknown)} of {len(sentences)} sentences of {sentences.source} come without the subject's position; "
            "give a file with the columns label, subject, beginning"
        )
    asking = Sharing(layer, tuple(methods), sentences.source, seed)
    things = list(map(KnownSubject, sentences.beginnings, sentences.prepared))
    table: SubjectTable = tabulated(asking, model, tokenizer, things, run_dir, options, progress=progress)
    return table


@dataclass(frozen=True, eq=False)
class KnownSubject:
    """A sentence of which it is known where its subject stands."""

    beginning: Beginning
    prepared: PreparedInput

    @property
    def digest(self) -> str:
        return f"{self.prepared.digest} {self.beginning}"


@dataclass(frozen=True)
class Sharing(DatasetTask[KnownSubject]):
    """The measurement: the shares of each measure in a sentence."""

    name: ClassVar[str] = "subject"
    layer: int | None
    methods: tuple[str, ...]
    source: str
    """For the table, as is the seed."""
    seed: int

    def settings(self) -> dict[str, Any]:
        return {"layer": self.layer, "methods": list(self.methods)}

    def cells(
        self, model: Any, processor: Any, things: Sequence[KnownSubject], tick: RowCallback, progress: bool
    ) -> Sequence[Cells]:
        prepared = [item.prepared for item in things]
        rows = relevance_rows(model, processor, prepared, "CLS", methods=self.methods, progress=progress)
        layers = len(next(iter(rows[0].relevance.values())))
        layer = layers if self.layer is None else check_layer(self.layer, layers)
        measures: dict[str, Sequence[Array]] = {
            name: [row.ranked(name)[layer - 1] for row in rows] for name in self.methods
        }
        asked = cases(model, processor, prepared)
        measures["blank-out"] = [one.scores for one in blankout(model, processor, asked, progress=progress, **PAPER)]
        measures["gradient norm"] = [one.scores for one in gradient(model, processor, asked, progress=progress)]
        measures["even spread"] = [np.ones(len(one.positions)) for one in prepared]
        told = facts(
            provenance=provenance(model, adapter_for(model).name, layer=layer), layer=layer, measures=tuple(measures)
        )
        return [
            {
                **{name: np.array(shares_of(scores[number], places)) for name, scores in measures.items()},
                "right": int(rows[number].predicted == known_subject.beginning.label),
                "attractors known": int(known_subject.beginning.attractors is not None),
                FACTS: told,
            }
            for number, (known_subject, places) in enumerate(
                (each, Places.of(each.beginning, each.prepared)) for each in things
            )
        ]

    def result(self, cells: Iterable[Cells], left_out: Mapping[str, int]) -> SubjectTable:
        found = Gathered.of(cells)
        shares = {name: found.array(name) for name in found.first["measures"]}
        right = np.array(found.columns["right"], dtype=bool)
        record = found.provenance
        return SubjectTable(
            layer=found.first["layer"],
            source=with_left_out(self.source, left_out),
            shares=tuple(
                _summaries(shares, "right", right, self.seed) + _summaries(shares, "wrong", ~right, self.seed)
            ),
            attractors_known=all(found.columns["attractors known"]),
            provenance={**record, "settings": {**record["settings"], "seed": self.seed}},
        )


@dataclass(frozen=True)
class Places:
    """Positions of one sentence: those of the subject, of the attractors, and of all words."""

    subject: frozenset[int]
    attractors: frozenset[int]
    words: tuple[int, ...]

    @classmethod
    def of(cls, beginning: Beginning, prepared: PreparedInput) -> Places:
        """From word indices to positions: by where a word stands in the text, for a word may have several pieces."""
        starts: list[tuple[int, int]] = []
        end = 0
        for word in beginning.words:
            start = beginning.text.index(word, end)
            end = start + len(word)
            starts.append((start, end))

        def pieces(word: int) -> frozenset[int]:
            start, end = starts[word]
            return frozenset(
                position.index
                for position in prepared.positions
                if position.start is not None and start <= position.start < end
            )

        attractors = frozenset().union(*map(pieces, beginning.attractors or ()))
        return cls(pieces(beginning.subject or 0), attractors, tuple(prepared.positions.content))


def shares_of(scores: Array, places: Places) -> tuple[float, float, float, float]:
    """(subject, attractors, other words, subject is first) of one sentence; first is divided among those that tie.

    NaN where the scores are all zero, for nothing has no shares.
    """
    total = sum(scores[position] for position in places.words)
    if total <= 0:
        return (np.nan,) * 4
    on_subject = sum(scores[position] for position in places.subject) / total
    on_attractors = sum(scores[position] for position in places.attractors) / total
    best = max(scores[position] for position in places.words)
    first = [position for position in places.words if scores[position] == best]
    return (
        on_subject,
        on_attractors,
        1 - on_subject - on_attractors,
        len(places.subject.intersection(first)) / len(first),
    )


def _summaries(shares: Mapping[str, Array], predictions: str, chosen: Array, seed: int) -> list[Shares]:
    if not chosen.any():
        return []
    return [
        Shares(name, predictions, *(Summary.of(column, seed=seed) for column in values[chosen].T))
        for name, values in shares.items()
    ]
