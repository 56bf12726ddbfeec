"""The result: explanations of one text by several models, or of a text before and after a change, word by word."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from attnx.errors import ChoiceError, InputError
from attnx.registry import unknown
from attnx.results import PROVENANCE, Array, Change, Explanation, Matched, OfExplanations, Rules, aligned, extent_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LONGEST = 28
"""Characters of a title: it heads a column of numbers."""


def _words_of_each(rows: Sequence[Matched], result: Any) -> str | None:
    """In every row a place in the words of each explanation, or none."""
    sizes = [len(explanation.words) for explanation in result.whole.explanations]
    fits = all(
        len(row) == len(sizes)
        and all(0 <= place < size for places, size in zip(row, sizes, strict=True) for place in places)
        for row in rows
    )
    return None if fits else f"rows of {len(sizes)}, each with places in the words of its explanation"


def _a_stretch(change: Change, result: Any) -> str | None:
    return None if 0 <= change.start <= change.end else "a stretch of the text, its end not before its start"


@dataclass(frozen=True, eq=False)
class SideBySide(OfExplanations):
    """`s.scores()[row, 0]` is the score of a word in the first explanation, `[row, 1]` what it is in the second.

    >>> model, tokenizer = attnx.load_demo()
    >>> e = explain(model, tokenizer, "the key to the cabinets")
    >>> counterfactual(model, tokenizer, e, {"key": "keys"}).titles
    ('before', 'after')
    """

    kind: ClassVar[str] = "side by side"
    rules: ClassVar[Rules] = {"rows": _words_of_each, "changes.*": _a_stretch, **PROVENANCE}

    explanations: tuple[Explanation, ...]
    titles: tuple[str, ...]
    """What each is called: a model, or before and after."""
    rows: tuple[Matched, ...]
    """For each row and each explanation, the words that stand for each other, by index."""
    changes: tuple[Change, ...] = ()
    """What was changed in the text of the first; nothing where the text is the same."""
    provenance: Mapping[str, Any] = field(default_factory=dict)
    """What is to be known of the whole; each explanation has its own."""

    def __post_init__(self) -> None:
        if len(self.explanations) < 2 or len(self.titles) != len(self.explanations):
            raise InputError(
                f"side by side stand two or more explanations, each with a title; found {len(self.titles)}"
            )
        if any(explanation.image_size is not None for explanation in self.explanations):
            raise InputError("words stand side by side; images have patches: give a page both, attnx.to_html([…])")
        if not self.names:
            name = "; ".join(", ".join(explanation.names) for explanation in self.explanations)
            raise InputError(f"the explanations share no method and no reference ({name}); ask the same of each")

    @property
    def names(self) -> tuple[str, ...]:
        """The methods and references that all have; in front the one that the first explanation shows by itself."""
        first, *others = self.explanations
        main = first.row_name()
        shared = [name for name in first.names if all(name in other.names for other in others)]
        return tuple(sorted(shared, key=lambda name: name != main))

    def words(self, row: int) -> tuple[str, ...]:
        """The words of a row as each text has them; empty where a text has none."""
        return tuple(
            _written(explanation, places) for explanation, places in zip(self.explanations, self.rows[row], strict=True)
        )

    def scores(self, name: str | None = None) -> Array:
        """Row × explanation: the sum over the words of a row, at the last layer; NaN where a text has none."""
        chosen = self.names[0] if name is None else name
        if chosen not in self.names:
            raise ChoiceError(unknown("method", chosen, self.names) + " (of those that all explanations have)")
        sums = [[word.score for word in explanation.by_word(chosen)] for explanation in self.explanations]
        found = [
            [sum(own[place] for place in places) if places else np.nan for own, places in zip(sums, row, strict=True)]
            for row in self.rows
        ]
        return np.array(found, dtype=np.float64).reshape(-1, len(self.explanations))

    def changed(self, name: str | None = None) -> Array:
        """Row → by how much the score of the last explanation is above that of the first; NaN where one has none."""
        scores = self.scores(name)
        difference: Array = scores[:, -1] - scores[:, 0]
        return difference

    def plot(self, name: str | None = None, *, ax: Axes | None = None) -> Axes:
        """Bars in matplotlib, a row each, those of the explanations beside one another."""
        drawn: Axes = self._view.plot(self, name, ax=ax)
        return drawn

    def __repr__(self) -> str:
        return f"SideBySide({', '.join(self.titles)}; {len(self.rows)} rows, by {', '.join(self.names)})"


def side_by_side(explanations: Sequence[Explanation], titles: Sequence[str] | None = None) -> SideBySide:
    """Explanations of one text, word by word: of two models, or of one model with other settings or another text.

    Positions are aligned by characters, so that it does not matter how each tokenizer cuts the text. `titles` are by
    default what tells the explanations apart: their models, or their texts.

    >>> model, tokenizer = attnx.load_demo()
    >>> first = explain(model, tokenizer, "the key to the cabinets", layer=1)
    >>> last = explain(model, tokenizer, "the key to the cabinets", layer=6)
    >>> side_by_side([first, last], ["layer 1", "layer 6"]).scores("rollout").shape
    (5, 2)
    """
    several: list[Any] = list(explanations) if isinstance(explanations, (list, tuple)) else [explanations]
    if len(several) < 2 or not all(isinstance(one, Explanation) for one in several):
        name = ", ".join(type(one).__name__ for one in several) or "none"
        raise InputError(f"side_by_side takes a list of two or more explanations, found {name}")
    if any(one.image_size is not None for one in several):
        raise InputError("words stand side by side; images have patches: give a page both, attnx.to_html([…])")
    named = _titles(several) if titles is None else tuple(map(str, titles))
    return SideBySide(tuple(several), named, aligned(several))


def _titles(explanations: Sequence[Explanation]) -> tuple[str, ...]:
    """What differs, and a number where nothing does."""
    models = [
        str(explanation.provenance.get("model", "")).rstrip("/").rpartition("/")[2] for explanation in explanations
    ]
    for names in (models, [_short(explanation.title) for explanation in explanations]):
        if len(set(names)) == len(names) and all(names):
            return tuple(names)
    return tuple(f"{number}. {model}".rstrip(". ") for number, model in enumerate(models, start=1))


def _short(title: str) -> str:
    return title if len(title) <= _LONGEST else f"{title[: _LONGEST - 1]}…"


def _written(explanation: Explanation, places: Sequence[int]) -> str:
    if not places:
        return ""
    spans = [extent_of(explanation, explanation.words[place]) for place in places]
    known = [span for span in spans if span is not None]
    if len(known) < len(spans) or len({span.segment for span in known}) > 1:
        return " ".join(explanation.words[place].text for place in places)
    return explanation.texts[known[0].segment][
        min(extent.start for extent in known) : max(extent.end for extent in known)
    ]
