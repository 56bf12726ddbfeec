"""The result: for each generated token, the relevance of every token before it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from attnx.errors import AttentionError, AttnxError, ChoiceError
from attnx.explanation import Explanation
from attnx.methods.choices import whole_number
from attnx.positions import Position, Word
from attnx.prediction import Prediction
from attnx.registry import unknown

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

Array = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True, eq=False)
class GenerationExplanation:
    """What the model looked at for each token that it wrote. `g["rollout"]` is generated × source.

    A row is a generated token. The columns are all positions but the last, for which nothing was left to predict; a
    row is 0 from its own token on.
    """

    positions: tuple[Position, ...]
    """Of the whole text, the prompt's first."""
    words: tuple[Word, ...]
    prompt_length: int
    """How many positions are the prompt's."""
    layer: int
    relevance: Mapping[str, Array]
    """Method → generated × source."""
    predictions: tuple[Prediction, ...]
    """One for each generated token: its probability, and the tokens that were likely beside it."""
    text: str | None = None
    """Prompt and continuation; None when the prompt came tokenised."""
    notes: tuple[str, ...] = ()
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        shape = (len(self.positions) - self.prompt_length, len(self.positions) - 1)
        for name, scores in self.relevance.items():
            if scores.shape != shape or not np.isfinite(scores).all():
                raise AttentionError(f"{name} must be {shape[0]} generated × {shape[1]} source finite numbers")
            scores.setflags(write=False)
        if not self.relevance or len(self.predictions) != shape[0] or shape[0] < 1:
            raise AttentionError("an explained generation needs a method, and a prediction for each new token")

    @property
    def methods(self) -> tuple[str, ...]:
        return tuple(self.relevance)

    @property
    def tokens(self) -> tuple[str, ...]:
        return tuple(one.token for one in self.positions)

    @property
    def generated(self) -> tuple[str, ...]:
        """The new tokens, as the tokenizer writes each by itself."""
        return tuple(one.label for one in self.predictions)

    @property
    def probabilities(self) -> Array:
        """What the model gave each new token when its turn came."""
        return np.array([one.probability for one in self.predictions], dtype=np.float64)

    @property
    def default_method(self) -> str:
        return "rollout" if "rollout" in self.relevance else self.methods[0]

    def __len__(self) -> int:
        return len(self.predictions)

    def __getitem__(self, method: str) -> Array:
        if method not in self.relevance:
            raise ChoiceError(unknown("method", method, self.relevance) + " (of those that were asked for)")
        return self.relevance[method]

    def step(self, number: int) -> Explanation:
        """One generated token, counted from 0, as an explanation by itself: with words, `top`, and views."""
        number = whole_number("step", number)
        if not -len(self) <= number < len(self):
            raise ChoiceError(f"step {number} asked, {len(self)} tokens were generated (0 to {len(self) - 1})")
        number %= len(self)
        seen = self.prompt_length + number
        return Explanation(
            positions=self.positions[:seen],
            words=self._words_before(seen),
            position=seen - 1,
            layers=(self.layer,),
            relevance={name: scores[number : number + 1, :seen].copy() for name, scores in self.relevance.items()},
            text=self._text_before(seen),
            prediction=self.predictions[number],
            notes=self.notes,
            provenance=self.provenance,
        )

    def _text_before(self, end: int) -> str | None:
        """The text as far as it was written before a position."""
        ends = [one.end for one in self.positions[:end] if one.end is not None]
        return self.text[: max(ends)] if self.text is not None and ends else self.text

    def _words_before(self, end: int) -> tuple[Word, ...]:
        """The words as far as they were written before a position."""
        words: list[Word] = []
        for word in self.words:
            places = tuple(place for place in word.positions if place < end)
            last = self.positions[places[-1]].end if places else None
            start = self.positions[word.positions[0]].start
            cut = len(places) < len(word.positions) and self.text is not None and last is not None
            text = self.text[start:last].strip() if cut and self.text is not None else word.text
            if places:
                words.append(Word(len(words), text or word.text, places, word.segment))
        return tuple(words)

    def save(self, path: str | PathLike[str]) -> None:
        """Write a safetensors file that `GenerationExplanation.load` reads."""
        from attnx.generation.storage import save

        save(self, path)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> GenerationExplanation:
        """Read what `save` wrote. Nothing in the file is executed."""
        from attnx.generation.storage import load

        return load(path)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain lists, numbers and strings, ready for JSON."""
        return {
            "text": self.text,
            "prompt_length": self.prompt_length,
            "layer": self.layer,
            "positions": [asdict(one) for one in self.positions],
            "words": [asdict(one) | {"positions": list(one.positions)} for one in self.words],
            "predictions": [
                asdict(one) | {"labels": list(one.labels), "logits": list(one.logits)} for one in self.predictions
            ],
            "relevance": {name: scores.tolist() for name, scores in self.relevance.items()},
            "notes": list(self.notes),
            "provenance": dict(self.provenance),
        }

    def to_frame(self) -> pandas.DataFrame:
        """A pandas table with one row for each method, generated token, and token before it."""
        try:
            import pandas
        except ImportError as error:
            raise AttnxError("to_frame needs pandas: pip install pandas") from error
        rows = [
            {
                "method": method,
                "step": step,
                "generated": self.generated[step],
                "probability": self.predictions[step].probability,
                "position": source,
                "token": self.positions[source].token,
                "prompt": source < self.prompt_length,
                "score": float(scores[step, source]),
            }
            for method, scores in self.relevance.items()
            for step in range(len(self))
            for source in range(self.prompt_length + step)
        ]
        return pandas.DataFrame(rows)

    def plot(self, method: str | None = None, *, ax: Axes | None = None) -> Axes:
        """The matrix as a heat map: a row for each generated token, a column for each token before it."""
        from attnx.render.generation import heat_map

        return heat_map(self, method, ax)

    def __repr__(self) -> str:
        return (
            f"GenerationExplanation({self.prompt_length} tokens of prompt, {len(self)} generated, layer {self.layer}, "
            f"methods {', '.join(self.methods)})"
        )

    def __str__(self) -> str:
        from attnx.render.generation import plain

        return plain(self)
