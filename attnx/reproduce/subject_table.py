"""The result of the subject check, as text, Markdown or JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from attnx.agreement import Summary
from attnx.render.columns import aligned, piped


@dataclass(frozen=True)
class Shares:
    """Where the relevance of one measure lies, over the sentences that were predicted right, or wrong."""

    measure: str
    predictions: str
    subject: Summary
    attractors: Summary
    other: Summary
    subject_first: Summary
    """How often the subject is the word that matters most."""


@dataclass(frozen=True)
class SubjectTable:
    """Shares of each method and reference, for right and for wrong predictions."""

    layer: int
    source: str
    shares: tuple[Shares, ...]
    attractors_known: bool
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def text(self) -> str:
        return "\n".join([self._heading(), "", aligned(list(self._lines())), "", self._foot()])

    def markdown(self) -> str:
        return "\n".join([f"**{self._heading()}**", "", piped(list(self._lines())), "", self._foot()])

    def to_json(self) -> str:
        return json.dumps(asdict(self), ensure_ascii=False, indent=2)

    def _heading(self) -> str:
        return f"Relevance of words for CLS at layer {self.layer}: sentences of {self.source}"

    def _lines(self) -> Iterator[list[str]]:
        yield ["predictions", "measure", "subject", "95 % of mean", "attractors", "other words", "subject first"]
        for index, one in enumerate(self.shares):
            total = one.subject.count + one.subject.undefined
            is_new = index == 0 or self.shares[index - 1].predictions != one.predictions
            yield [
                f"{one.predictions} ({total:,})" if is_new else "",
                one.measure,
                _percent(one.subject.mean),
                f"{_percent(one.subject.low)} to {_percent(one.subject.high)}",
                _percent(one.attractors.mean) if self.attractors_known else "–",
                _percent(one.other.mean),
                _percent(one.subject_first.mean),
            ]

    def _foot(self) -> str:
        unknown = (
            "" if self.attractors_known else " Attractors are not marked in this data: they are among other words."
        )
        return f"Mean shares of what falls on words, special tokens aside. Even spread is what chance gives.{unknown}"


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"
