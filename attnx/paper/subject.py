"""Where relevance lies: on the subject of a sentence, on attractors or elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
from torch import nn

from attnx.adapters import PreparedInput, adapter_for
from attnx.attribution import PAPER, blankout, cases, gradient
from attnx.demo_models import Beginning
from attnx.errors import InputError
from attnx.evaluation import CollectedRows, EvaluationTable, facts, note_blocks
from attnx.graph import check_layer
from attnx.methods import PAPER_METHODS
from attnx.paper.sentences import LabeledSentence, Sentences
from attnx.paper.tables import relevance_rows, run_task
from attnx.results import Array, Between, Rules, provenance
from attnx.runs import FACTS, Cells, DatasetTask, RowCallback
from attnx.statistics import Summary
from attnx.views import LOOKS, TextBlock

PARTS = ("subject", "attractors", "other words", "subject first")
Predictions: TypeAlias = Literal["right", "wrong"]


def _right_rule(right: Sequence[bool], result: Any) -> str | None:
    return None if len(right) == result.whole.count else f"one for each of {result.whole.count} sentences"


@dataclass(frozen=True, eq=False, kw_only=True)
class SubjectTable(EvaluationTable):
    """Shares of each measure: `table.share("rollout", "subject", "right")` is that of right predictions."""

    kind: ClassVar[str] = "subject table"
    rules: ClassVar[Rules] = {**EvaluationTable.rules, "layer": Between(1), "right": _right_rule}

    columns: tuple[str, ...] = PARTS
    right: tuple[bool, ...]
    """Whether each sentence was predicted right."""
    layer: int
    source: str
    attractors_known: bool

    @property
    def predictions(self) -> tuple[Predictions, ...]:
        """Right and wrong, as far as there are any."""
        kinds: dict[Predictions, bool] = {"right": any(self.right), "wrong": not all(self.right)}
        return tuple(kind for kind, there in kinds.items() if there)

    def share(self, method: str, part: str, predictions: Predictions) -> Summary:
        """The mean over the sentences that were predicted right, or wrong."""
        chosen = np.array(self.right) == (predictions == "right")
        return Summary.of(self.array(method, part)[chosen], seed=self.seed)

    def blocks(self) -> list[TextBlock]:
        foot = "Mean shares of what falls on words, special tokens aside. Even spread is what chance gives."
        if not self.attractors_known:
            foot += " Attractors are not marked in this data: they are among other words."
        heading = f"Relevance of words for CLS at layer {self.layer}: sentences of {self.source}"
        table = TextBlock(heading=heading, lines=self._lines(), foot=(foot,))
        return [table, *note_blocks(self.notes, self.count)]

    def rows(self) -> list[dict[str, Any]]:
        """A record for each measure, kind of prediction and part of the sentence."""
        return [
            {"predictions": kind, "measure": name, "part": part, **vars(self.share(name, part, kind))}
            for kind in self.predictions
            for name in self.methods
            for part in self.columns
        ]

    def draw(self, ax: Any = None) -> Any:
        """A panel for right and one for wrong predictions: the share of the subject by each measure."""
        from matplotlib.figure import Figure

        kinds = self.predictions
        figure = Figure(figsize=(4.4 * len(kinds), 3.2), layout="constrained")
        for panel, kind in zip(figure.subplots(1, len(kinds), sharex=True, squeeze=False)[0], kinds, strict=True):
            shares = {name: self.share(name, self.columns[0], kind) for name in reversed(self.methods)}
            known = {name: share for name, share in shares.items() if share.mean is not None}
            for height, share in enumerate(known.values()):
                mean, low, high = (100 * (getattr(share, end) or 0.0) for end in ("mean", "low", "high"))
                panel.barh(height, mean, xerr=[[max(0.0, mean - low)], [max(0.0, high - mean)]], color=LOOKS[0][0])
            panel.set_yticks(range(len(known)), list(known))
            panel.set_title(f"{kind} predictions", fontsize=10)
            panel.set_xlabel("% of relevance on the subject")
            panel.spines[["top", "right"]].set_visible(False)
        return figure

    def _lines(self) -> list[list[str]]:
        lines = [["predictions", "measure", "subject", "95 % of mean", *self.columns[1:]]]
        for kind in self.predictions:
            title = f"{kind} ({self.right.count(kind == 'right'):,})"
            for name in self.methods:
                shares = [self.share(name, part, kind) for part in self.columns]
                subject, *others = (_percent(share.mean) for share in shares)
                interval = f"{_percent(shares[0].low)} to {_percent(shares[0].high)}"
                if not self.attractors_known:
                    others[0] = "–"
                lines.append([title, name, subject, interval, *others])
                title = ""
        return lines


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"


def subject(
    model: nn.Module,
    tokenizer: Any,
    sentences: Sentences,
    *,
    layer: int | None = None,
    methods: Sequence[str] = PAPER_METHODS,
    seed: int = 0,
    **options: Any,
) -> SubjectTable:
    """Where relevance lies at one layer, by default the last. Every sentence must have a known subject.

    `options` are those of `table1`.
    """
    beginnings = [item.beginning for item in sentences.items]
    unknown = sum(beginning is None or beginning.subject is None for beginning in beginnings)
    if unknown:
        raise InputError(
            f"{unknown} of {len(sentences)} sentences of {sentences.source} come without the subject's position; "
            "give a file with the columns label, subject, beginning"
        )
    task = SubjectShares(layer, tuple(methods), sentences.source, seed)
    table: SubjectTable = run_task(task, model, tokenizer, sentences, **options)
    return table


@dataclass(frozen=True)
class SubjectShares(DatasetTask[LabeledSentence]):
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
        self, model: Any, processor: Any, things: Sequence[LabeledSentence], tick: RowCallback, progress: bool
    ) -> Sequence[Cells]:
        prepared = [item.prepared for item in things]
        rows = relevance_rows(model, processor, prepared, "CLS", methods=self.methods, progress=progress)
        layers = len(next(iter(rows[0].scores.values())))
        layer = layers if self.layer is None else check_layer(self.layer, layers)
        requests = cases(model, processor, prepared)
        measures: dict[str, Sequence[Array]] = {
            **{name: [row.ranked(name)[layer - 1] for row in rows] for name in self.methods},
            "blank-out": [item.scores for item in blankout(model, processor, requests, progress=progress, **PAPER)],
            "gradient norm": [item.scores for item in gradient(model, processor, requests, progress=progress)],
            "even spread": [np.ones(len(item.positions)) for item in prepared],
        }
        record = provenance(model, adapter_for(model).name, layer=layer)
        shared = facts(provenance=record, layer=layer, measures=tuple(measures))
        result: list[Cells] = []
        for number, item in enumerate(things):
            beginning = item.beginning or Beginning("", 0)
            parts = SentenceParts.of(beginning, item.prepared)
            shares = {name: np.array(shares_of(scores[number], parts)) for name, scores in measures.items()}
            right = int(rows[number].predicted == item.label)
            known = int(beginning.attractors is not None)
            result.append({**shares, "right": right, "attractors known": known, FACTS: shared})
        return result

    def result(self, cells: Iterable[Cells], left_out: Mapping[str, int]) -> SubjectTable:
        collected = CollectedRows.of(cells, left_out)
        record = collected.provenance
        return SubjectTable(
            values={name: collected.array(name) for name in collected.first["measures"]},
            right=tuple(map(bool, collected.columns["right"])),
            layer=collected.first["layer"],
            source=self.source,
            attractors_known=all(collected.columns["attractors known"]),
            seed=self.seed,
            notes=collected.notes,
            provenance={**record, "settings": {**record["settings"], "seed": self.seed}},
        )


@dataclass(frozen=True)
class SentenceParts:
    """Positions of one sentence: those of the subject, of the attractors, and of all words."""

    subject: frozenset[int]
    attractors: frozenset[int]
    words: tuple[int, ...]

    @classmethod
    def of(cls, beginning: Beginning, prepared: PreparedInput) -> SentenceParts:
        """From word indices to positions: by where a word stands in the text, for a word may have several tokens."""
        starts: list[tuple[int, int]] = []
        end = 0
        for word in beginning.words:
            start = beginning.text.index(word, end)
            end = start + len(word)
            starts.append((start, end))

        def tokens(word: int) -> frozenset[int]:
            start, end = starts[word]
            return frozenset(
                position.index
                for position in prepared.positions
                if position.start is not None and start <= position.start < end
            )

        attractors = frozenset().union(*map(tokens, beginning.attractors or ()))
        return cls(tokens(beginning.subject or 0), attractors, tuple(prepared.positions.content))


def shares_of(scores: Array, parts: SentenceParts) -> tuple[float, float, float, float]:
    """(subject, attractors, other words, subject is first) of one sentence; first is divided among those that tie.

    NaN where the scores are all zero, for nothing has no shares.
    """
    total = sum(scores[position] for position in parts.words)
    if total <= 0:
        return (np.nan,) * 4
    on_subject = sum(scores[position] for position in parts.subject) / total
    on_attractors = sum(scores[position] for position in parts.attractors) / total
    best = max(scores[position] for position in parts.words)
    first = [position for position in parts.words if scores[position] == best]
    others = 1 - on_subject - on_attractors
    return on_subject, on_attractors, others, len(parts.subject.intersection(first)) / len(first)
