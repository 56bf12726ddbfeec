"""What the model answered, as a result keeps it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

_LATER = {"later": True}
"""Files that were written before these fields came lack them; `results.schema` reads it."""

LINE_BREAK = "⏎"
"""Stands for a line break in every view that shows a text on one line."""
SPACE = "␣"
_JOINERS = "\u200c\u200d"
"""Of which emoji and Persian words are made."""

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
    """What the model predicts, and the target that is explained: `label`, the prediction unless a caller chose.

    >>> labels, logits = ("NEGATIVE", "POSITIVE"), (-3.0, 3.0)
    >>> print(Prediction("class", "POSITIVE", 1, 0.998, labels, logits))
    POSITIVE (0.998)
    >>> print(Prediction("class", "NEGATIVE", 0, 0.002, labels, logits, predicted_probability=0.998))
    POSITIVE (0.998); target NEGATIVE (0.002)
    """

    kind: str
    """The row of `answer.registry.HEAD_KINDS` that read it: class, label, value, token, tag, span, choice, …"""
    label: str
    """The target: the prediction, or what the caller chose to explain."""
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
    predicted_probability: float | None = field(default=None, metadata=_LATER)
    """That of `predicted`, where the caller chose another target; None where the target is the prediction."""

    @property
    def predicted(self) -> str:
        """What the model predicts, whichever target is explained."""
        if self.probability is None or not self.labels:
            return self.label
        highest = max(self.logits)
        best = [label for label, logit in zip(self.labels, self.logits, strict=True) if logit == highest]
        return self.label if not best or self.label in best else best[0]

    @property
    def certainty(self) -> float | None:
        """The probability of what the model predicts; None where it has none, or an older file does not tell it."""
        return self.probability if self.predicted == self.label else self.predicted_probability

    @property
    def answer(self) -> str:
        """The prediction with its probability, on one line."""
        return one_line(self.predicted) + _in_brackets(self.certainty)

    @property
    def target(self) -> str | None:
        """The target with its probability, and what it is set against; None where the prediction alone is explained."""
        if self.predicted == self.label and self.against is None:
            return None
        name = one_line(self.label) + ("" if self.predicted == self.label else _in_brackets(self.probability))
        return name if self.against is None else f"{name} against {one_line(self.against).strip()}"

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
        name = (self.labels[self.index] if self.kind == "value" else self.label).strip()
        return name if self.against is None else f"{name} against {self.against.strip()}"

    def __str__(self) -> str:
        return self.answer if self.target is None else f"{self.answer}; target {self.target}"


def one_line(text: str) -> str:
    """Text of the input or of a model on one line: a line break has its symbol, and nothing steers a terminal.

    >>> one_line("a\\nb\\x1b")
    'a⏎b�'
    """
    return "".join(
        LINE_BREAK if name == "\n" else name if name.isprintable() or name in _JOINERS else "�" for name in text
    )


def visible(text: str) -> str:
    """The same, without space around it; white space alone by its symbols, as on the page.

    >>> visible(" key"), visible("\\n"), visible(" ")
    ('key', '⏎', '␣')
    """
    return one_line(text.strip()) if text.strip() else one_line(text).replace(" ", SPACE)


def _in_brackets(probability: float | None) -> str:
    return "" if probability is None else f" ({probability:.3f})"
