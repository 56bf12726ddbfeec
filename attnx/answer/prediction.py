"""What the model answered, as a result keeps it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

_LATER = {"later": True}
"""Files that were written before these fields came lack them; `results.schema` reads it."""

_NOUNS = {
    "label": "one of {} labels that may all hold",
    "value": "value",
    "span": "answer",
    "choice": "choice",
    "tag": "tag",
    "similarity": "cosine",
}
"""What an answer is called in a headline, where it is no prediction."""


@dataclass(frozen=True)
class Prediction:
    """The answer, and the alternatives that it beat."""

    kind: str
    """The row of `answer.registry.ANSWERS` that read it: class, label, value, token, tag, span, choice, …"""
    label: str
    index: int
    """Of a class, a tag or a choice its number from 0, of a token its id, of a span its number (see `span`)."""
    probability: float | None
    """None for a regression, which has a value and no probability."""
    labels: tuple[str, ...]
    logits: tuple[float, ...]
    """One for each of `labels`: all classes, or the best tokens of the vocabulary, or the best spans."""
    against: str | None = field(default=None, metadata=_LATER)
    """Of a pair, what `label` is set against: the scores of what knows the answer are about the margin."""
    against_index: int | None = field(default=None, metadata=_LATER)
    span: tuple[int, int] | None = field(default=None, metadata=_LATER)
    """Of an answer that stands in the text, its first and its last position."""
    beside: tuple[float, ...] = field(default=(), metadata=_LATER)
    """What its score needs to know beside the model's own numbers: where spans may lie, what other choices have."""

    @property
    def noun(self) -> str:
        """What it is, in a headline."""
        return _NOUNS.get(self.kind, "prediction").format(len(self.labels))

    @property
    def named(self) -> Any:
        """How the same is asked for of another text: as `target` of `explain`."""
        own, rival = (self.index, self.against_index) if self.span is None else (self.label, self.against)
        return own if rival is None else (own, rival)

    @property
    def contrast(self) -> str:
        """What is explained, in a heading: a class or a token, of a pair with what it is set against."""
        own = (self.labels[self.index] if self.kind == "value" else self.label).strip()
        return own if self.against is None else f"{own} against {self.against.strip()}"

    def __str__(self) -> str:
        sure = "" if self.probability is None else f" ({self.probability:.3f})"
        rival = "" if self.against is None else f" against {_inert(self.against).strip()}"
        return f"{_inert(self.label)}{sure}{rival}"


def _inert(label: str) -> str:
    """As it is, unless it may steer a terminal."""
    return label if label.isprintable() else repr(label)[1:-1]
