"""The result: for each generated token, the relevance of every token before it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import exp
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from attnx.adapters import BROKEN, Positions, Span, Word, group_words
from attnx.errors import AttentionError, ChoiceError, InputError
from attnx.registry import unknown
from attnx.results import (
    ANSWER,
    PROVENANCE,
    TEXT,
    Array,
    Attribution,
    Below,
    Between,
    Explanation,
    Filled,
    Result,
    Rising,
    Row,
    Rules,
    Said,
    Shape,
    check,
    line,
    over_steps,
    remarks,
    stripe,
)
from attnx.targets import Prediction

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from PIL.Image import Image

    from attnx.adapters import Audio

_MOST = 700.0
"""The exponential of more is no number. A written token that was ruled out has a logit as low as that."""


def _none_or_one_a_token(several: Sequence[Any], result: Any) -> str | None:
    count = result.size("predictions")
    fits = isinstance(several, (list, tuple)) and len(several) in (0, count)
    return None if fits else f"a list of {count}, one for each generated token, or of none"


def _of_a_token(prediction: Prediction, result: Any) -> str | None:
    if prediction.probability is None or not 0 <= prediction.probability <= 1:
        return "with a probability from 0 to 1"
    return ANSWER(prediction, result)


@dataclass(frozen=True, eq=False)
class GenerationExplanation(Result):
    """What each token that a model wrote drew from. `g["rollout"]` and `g["lrp"]` are generated × source.

    A row is a generated token. The columns are all positions but the last, for which nothing was left to predict; a
    row is 0 from its own token on.

    >>> from attnx.demo_models.recall import load_demo
    >>> model, tokenizer = load_demo()
    >>> g = explain_generation(model, tokenizer, "k3 v7 k1", continuation=" v2", methods="rollout")
    >>> g["rollout"].shape
    (1, 4)
    """

    kind: ClassVar[str] = "explained generation"
    rules: ClassVar[Rules] = {
        **TEXT,
        "prompt_length": Between(1),
        "attributions": Filled(),
        "attributions.*.layers": Rising(),
        "attributions.*.precision": Between(0, 17),
        "contrasts": _none_or_one_a_token,
        "contrasts.*": ANSWER,
        "spans.*.positions": Filled(),
        "spans.*.positions.*": Below("positions"),
        "against.*": Shape("contrasts source"),
        "predictions": Filled(),
        "predictions.*": _of_a_token,
        **PROVENANCE,
    }

    positions: Positions
    """Of the whole text, the prompt's first."""
    words: tuple[Word, ...]
    prompt_length: int
    """How many positions are the prompt's."""
    attributions: Mapping[str, Attribution]
    """Method → its scores, generated × source, or layers × generated × source, in the order shown. Diagnostics have a
    value for each generated token."""
    predictions: tuple[Prediction, ...]
    """One for each generated token: its probability, and the tokens that were likely beside it."""
    text: str | None = None
    """Prompt and continuation; None when the prompt came tokenised."""
    notes: tuple[str, ...] = ()
    """Those of all steps."""
    provenance: Mapping[str, Any] = field(default_factory=dict)
    """As in `Explanation`."""
    spans: tuple[Span, ...] = field(default=())
    """Parts of the prompt that the caller named (`by_span`)."""
    sequences: Mapping[str, int] = field(default_factory=dict)
    """Of an encoder–decoder how many positions its source and its output have; else empty."""
    contrasts: tuple[Prediction, ...] = field(default=())
    """Each token against its runner-up, where that was asked for."""
    against: Mapping[str, Array] = field(default_factory=dict)
    """What knows the answer → generated × source, for each token against its runner-up."""
    image: Image | None = field(default=None, repr=False, compare=False)
    """The picture beside the text, whose patches stand first. It stays in memory and is not saved."""
    image_size: tuple[int, int] | None = field(default=None)
    """Its width and height, in which the boxes of patches are counted; None where there is none."""
    audio: Audio | None = field(default=None, repr=False, compare=False)
    """The sound that was written down. It stays in memory and is not saved, as in `Explanation`."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "positions", Positions(self.positions))
        check(self)
        shape = (len(self.positions) - self.prompt_length, len(self.positions) - 1)
        for name, scores in (*((name, self[name]) for name in self.attributions), *self.against.items()):
            if scores.shape != shape or not np.isfinite(scores).all():
                raise AttentionError(f"{name} must be {shape[0]} generated × {shape[1]} source finite numbers")
        for name, attribution in self.attributions.items():
            layers = len(attribution.layers or ())
            if attribution.scores.shape[:-2] != ((layers,) if layers else ()):
                raise AttentionError(
                    f"{name} must be {layers} layers × {shape[0]} generated × {shape[1]} source numbers"
                )
            for kind, values in attribution.diagnostics.items():
                if not isinstance(values, (list, tuple)) or len(values) != shape[0]:
                    raise AttentionError(f"{kind} of {name} must be a list of {shape[0]}, one for each generated token")
        for scores in self.against.values():
            scores.setflags(write=False)

    @property
    def methods(self) -> tuple[str, ...]:
        """All methods, the default in front."""
        return tuple(self.attributions)

    @property
    def layers(self) -> tuple[int, ...]:
        """The layers of the methods that have any."""
        return next((attribution.layers for attribution in self.attributions.values() if attribution.layers), ())

    @property
    def tokens(self) -> tuple[str, ...]:
        return tuple(position.token for position in self.positions)

    @property
    def generated(self) -> tuple[str, ...]:
        """The new tokens, as the tokenizer writes each by itself."""
        return tuple(prediction.label for prediction in self.predictions)

    @property
    def probabilities(self) -> Array:
        """What the model gave each new token when its turn came."""
        return np.array([prediction.probability for prediction in self.predictions], dtype=np.float64)

    @property
    def front(self) -> tuple[str, int]:
        """What is not the model's own: the prompt or the source, and how many positions it has."""
        return next(iter(self.sequences.items()), ("prompt", self.prompt_length))

    def from_front(self, method: str | None = None) -> Array:
        """For each new token how much is from the prompt, and not from what was written before, from 0 to 1.

        Where scores have a sign, it is of all that speaks for or against; NaN where there is nothing.
        """
        sizes = np.abs(self[method or self.methods[0]])
        whole = sizes.sum(1)
        shares: Array = np.divide(
            sizes[:, : self.front[1]].sum(1), whole, out=np.full(len(sizes), np.nan), where=whole > 0
        )
        return shares

    def alternatives(self, step: int) -> list[tuple[str, float | None]]:
        """The tokens that were likely beside the one that was written, best first, each with its probability.

        That is None where the written one is not among the best that are kept, or was ruled out: it is computed from
        the ratio to that one.
        """
        prediction = self.predictions[step]
        index = prediction.labels.index(prediction.label) if prediction.label in prediction.labels else None
        result: list[tuple[str, float | None]] = []
        for place, (label, logit) in enumerate(zip(prediction.labels, prediction.logits, strict=True)):
            known = index is not None and bool(prediction.probability)
            share = prediction.probability * exp(min(logit - prediction.logits[index], _MOST)) if known else None  # type: ignore[operator,index]
            if place != index:
                result.append((label, share if share is None else min(share, 1.0)))
        return result

    @property
    def parts(self) -> tuple[tuple[str, int, int], ...]:
        """Of a chat, whose words the prompt's positions are: (role, first position, one past the last)."""
        told = self.provenance.get("input", {}).get("parts", ())
        return tuple((str(role), int(start), int(end)) for role, start, end in told)

    @property
    def verdict(self) -> str:
        """In one sentence: what was explained and from where, how it compares with measurements, what to beware of."""
        explained = "1 token" if len(self) == 1 else f"{len(self)} tokens, each"
        return f"{explained} from the one before it, by {self._row(0).what}: {line(self.remarks(), keywords=True)}"

    def remarks(self, method: str | None = None) -> tuple[Said, ...]:
        """All that is to be said of how far to trust the rows of a method, and of how many of them."""
        name = method or self.methods[0]
        each = over_steps([remarks(self._row(number, name)) for number in range(len(self))])
        return tuple(sorted((*each, *self.stripe(name)), key=lambda one: -one.weight))

    def stripe(self, method: str | None = None) -> tuple[Said, ...]:
        """A remark where the rows of all tokens are nearly the same over the prompt, as those of rollout often are."""
        name = method or self.methods[0]
        return stripe(
            name, self[name][:, : self.prompt_length], target_specific=self.attributions[name].target_specific
        )

    def _row(self, number: int, method: str | None = None) -> Row:
        return self.step(number).row(method or self.methods[0])

    def by_span(self, method: str | None = None) -> dict[str, Array]:
        """Name → a number for each generated token: what it drew from that part of the prompt (`spans=`)."""
        if not self.spans:
            raise InputError("no spans were named: explain_generation(…, spans={'doc 1': (0, 812), …}), or 'sentences'")
        rows = self[method or self.methods[0]]
        return {span.name: rows[:, list(span.positions)].sum(1) for span in self.spans}

    def __len__(self) -> int:
        return len(self.predictions)

    def __getitem__(self, method: str) -> Array:
        if not isinstance(method, str) or method not in self.attributions:
            raise ChoiceError(unknown("method", method, self.attributions) + " (of those that were requested)")
        scores = self.attributions[method].scores
        return scores if scores.ndim == 2 else scores[-1]

    def step(self, number: int) -> Explanation:
        """One generated token, counted from 0, as an explanation by itself: with words, `top`, and views."""
        if isinstance(number, bool) or not isinstance(number, (int, np.integer)):
            raise ChoiceError(f"step must be a whole number, found {number!r}")
        if not -len(self) <= number < len(self):
            raise ChoiceError(f"step {number} asked, {len(self)} tokens were generated (0 to {len(self) - 1})")
        number %= len(self)
        seen = self.prompt_length + number
        text = self._text_before(seen)
        positions, words = group_words(self.positions[:seen], None if text is None else [text])
        return Explanation(
            positions=positions,
            words=words,
            position=seen - 1,
            attributions={name: _of_step(self.attributions[name], number, seen) for name in self.attributions},
            spans=self.spans,
            text=text,
            prediction=self.predictions[number],
            causal=not self.sequences,
            sequences=self._streams_before(seen),
            notes=self.notes,
            provenance=self.provenance,
            image=self.image,
            image_size=self.image_size,
            audio=self.audio,
        )

    def _streams_before(self, seen: int) -> dict[str, int]:
        """The streams as they were when so many positions had been read."""
        lengths = dict(self.sequences)
        return {**lengths, list(lengths)[-1]: seen - sum(list(lengths.values())[:-1])} if lengths else {}

    def _text_before(self, end: int) -> str | None:
        """The text as far as it was written before a position. A character whose last bytes were still to come could
        become any, and stands there as broken.
        """
        if self.text is None:
            return None
        written = max((position.end for position in self.positions[:end] if position.end is not None), default=0)
        coming = next((position.start for position in self.positions[end:] if position.start is not None), written)
        if self.text[coming:written].isascii():
            return self.text[:written]
        return self.text[:coming] + BROKEN * (written - coming)

    def plot(self, method: str | None = None, *, ax: Axes | None = None) -> Axes:
        """The matrix as a heat map: a row for each generated token, a column for each token before it."""
        drawn: Axes = self._view.plot(self, method, ax=ax)
        return drawn

    def plot_overlays(
        self, method: str | None = None, layer: int | None = None, *, image: Any = None, **options: Any
    ) -> Figure:
        """Of a text that was written about a picture: one small overlay for each written word, in one figure.

        `image` is the picture where the result has none, because it was loaded from a file; further `options` are those
        of `attnx.generation.view`.
        """
        drawn: Figure = self._view.more["plot_overlays"](self, method, layer, image=image, **options)
        return drawn

    def _saved(self) -> dict[str, Any]:
        return super()._saved() | {"verdict": self.verdict, "remarks": self.remarks()}

    @classmethod
    def _fields_of(cls, data: Mapping[str, Any]) -> dict[str, Any]:
        told = {name: value for name, value in data.items() if name not in ("verdict", "remarks")}
        return super()._fields_of(told)

    def __repr__(self) -> str:
        return (
            f"GenerationExplanation({self.prompt_length} tokens of prompt, {len(self)} generated, "
            f"{', '.join(self.methods)})"
        )


def _of_step(attribution: Attribution, number: int, seen: int) -> Attribution:
    """What one generated token has of it, over the positions before the token."""
    return replace(
        attribution,
        scores=attribution.scores[..., number, :seen].copy(),
        diagnostics={
            name: values[number] for name, values in attribution.diagnostics.items() if values[number] is not None
        },
    )
