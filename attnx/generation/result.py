"""The result of `explain_generation`: for each generated token, the scores of every token before it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import exp
from textwrap import fill
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from rich.cells import cell_len, set_cell_size

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
    Rules,
    Said,
    Shape,
    check,
    line,
    over_steps,
    remarks,
    stripe,
)
from attnx.targets import Prediction, visible
from attnx.views import (
    ROW_BYTES,
    VERBATIM,
    Shown,
    TextBlock,
    axes_or_new,
    draw_heat_map,
    extent,
    figure_caption,
    highest_score,
    image_data,
    lit,
    packed,
    picture_of,
    places,
    printable,
    sheet,
    small,
    spread,
    table_data,
    verbatim,
    waveform,
    written,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from PIL.Image import Image

    from attnx.adapters import Audio

_LARGEST_EXPONENT = 700.0
"""A token that was ruled out has so low a logit that the exponential of the difference is no number."""


def _none_or_one_per_token(items: Sequence[Any], result: Any) -> str | None:
    count = result.size("predictions")
    fits = isinstance(items, (list, tuple)) and len(items) in (0, count)
    return None if fits else f"a list of {count}, one for each generated token, or of none"


def _of_a_token(prediction: Prediction, result: Any) -> str | None:
    if prediction.probability is None or not 0 <= prediction.probability <= 1:
        return "with a probability from 0 to 1"
    return ANSWER(prediction, result)


@dataclass(frozen=True, eq=False)
class GenerationExplanation(Result):
    """Scores of every token before each generated token. `g["rollout"]` and `g["lrp"]` are generated × source.

    A row is a generated token. The columns are all positions but the last, which predicts no token; a row is 0 from its
    own token on.

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
        "contrasts": _none_or_one_per_token,
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
    """The number of positions of the prompt."""
    attributions: Mapping[str, Attribution]
    """Method → its scores, generated × source, or layers × generated × source, in the order shown. Diagnostics have a
    value for each generated token."""
    predictions: tuple[Prediction, ...]
    """For each generated token its probability, and its alternatives."""
    text: str | None = None
    """Prompt and continuation; None where the prompt was token ids."""
    notes: tuple[str, ...] = ()
    """Of all steps."""
    provenance: Mapping[str, Any] = field(default_factory=dict)
    """As in `Explanation`."""
    spans: tuple[Span, ...] = field(default=())
    """Named parts of the prompt (`by_span`)."""
    sequences: Mapping[str, int] = field(default_factory=dict)
    """Of an encoder–decoder the numbers of positions of its source and output; else empty."""
    contrasts: tuple[Prediction, ...] = field(default=())
    """Each token against its runner-up, where `contrast=True` was requested."""
    against: Mapping[str, Array] = field(default_factory=dict)
    """Target-specific method → generated × source, for each token against its runner-up."""
    image: Image | None = field(default=None, repr=False, compare=False)
    """The image of the prompt, whose patches come first. It stays in memory and is not saved."""
    image_size: tuple[int, int] | None = field(default=None)
    """Its width and height in the pixels of the patches' boxes; None without an image."""
    audio: Audio | None = field(default=None, repr=False, compare=False)
    """The transcribed audio. It stays in memory and is not saved, as in `Explanation`."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "positions", Positions(self.positions))
        check(self)
        steps, sources = shape = (len(self.positions) - self.prompt_length, len(self.positions) - 1)
        for name, scores in (*((name, self[name]) for name in self.attributions), *self.against.items()):
            if scores.shape != shape or not np.isfinite(scores).all():
                raise AttentionError(f"{name} must be {steps} generated × {sources} source finite numbers")
        for name, attribution in self.attributions.items():
            layers = len(attribution.layers or ())
            if attribution.scores.shape[:-2] != ((layers,) if layers else ()):
                raise AttentionError(f"{name} must be {layers} layers × {steps} generated × {sources} source numbers")
            for kind, values in attribution.diagnostics.items():
                if not isinstance(values, (list, tuple)) or len(values) != steps:
                    raise AttentionError(f"{kind} of {name} must be a list of {steps}, one for each generated token")
        for scores in self.against.values():
            scores.setflags(write=False)

    @property
    def methods(self) -> tuple[str, ...]:
        """All methods, the default first."""
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
        """The new tokens, each decoded alone."""
        return tuple(prediction.label for prediction in self.predictions)

    @property
    def generated_words(self) -> list[Word]:
        """The words that the model generated or completed, without special tokens."""
        return [word for word in self.words if max(word.positions) >= self.prompt_length]

    @property
    def probabilities(self) -> Array:
        """The probability of each new token at its step."""
        return np.array([prediction.probability for prediction in self.predictions], dtype=np.float64)

    @property
    def front(self) -> tuple[str, int]:
        """The prompt, or the source of an encoder–decoder, and its number of positions."""
        return next(iter(self.sequences.items()), ("prompt", self.prompt_length))

    def from_front(self, method: str | None = None) -> Array:
        """The share of the prompt in each row, from 0 to 1; the rest is of earlier output.

        Args:
            method: by default the first. Signed scores count by their size.

        Returns:
            A number for each generated token; NaN where a row is 0.
        """
        sizes = np.abs(self[method or self.methods[0]])
        total = sizes.sum(1)
        shares: Array = np.divide(
            sizes[:, : self.front[1]].sum(1), total, out=np.full(len(sizes), np.nan), where=total > 0
        )
        return shares

    def alternatives(self, step: int) -> list[tuple[str, float | None]]:
        """The most probable other tokens at a step, best first.

        Returns:
            (token, probability). The probability is computed from that of the generated token; it is None where that
            token is not among the best that are kept, or was ruled out.
        """
        prediction = self.predictions[step]
        index = prediction.labels.index(prediction.label) if prediction.label in prediction.labels else None
        result: list[tuple[str, float | None]] = []
        for number, (label, logit) in enumerate(zip(prediction.labels, prediction.logits, strict=True)):
            if number != index:
                share = None
                if index is not None and prediction.probability:
                    ratio = exp(min(logit - prediction.logits[index], _LARGEST_EXPONENT))
                    share = min(prediction.probability * ratio, 1.0)
                result.append((label, share))
        return result

    @property
    def parts(self) -> tuple[tuple[str, int, int], ...]:
        """Of a chat the positions of each message: (role, first position, one past the last)."""
        parts = self.provenance.get("input", {}).get("parts", ())
        return tuple((str(role), int(start), int(end)) for role, start, end in parts)

    @property
    def verdict(self) -> str:
        """One sentence: what was explained by which method, how it compares with other methods, and warnings."""
        explained = "1 token" if len(self) == 1 else f"{len(self)} tokens, each"
        method = self.step(0).row(self.methods[0]).what
        return f"{explained} from the one before it, by {method}: {line(self.remarks(), keywords=True)}"

    def remarks(self, method: str | None = None) -> tuple[Said, ...]:
        """All warnings on the rows of a method, with how many rows each is about."""
        name = method or self.methods[0]
        rows = over_steps([remarks(self.step(number).row(name)) for number in range(len(self))])
        return tuple(sorted((*rows, *self.stripe(name)), key=lambda warning: -warning.weight))

    def stripe(self, method: str | None = None) -> tuple[Said, ...]:
        """A warning where all rows are nearly the same over the prompt, as those of rollout often are."""
        name = method or self.methods[0]
        rows = self[name][:, : self.prompt_length]
        return stripe(name, rows, target_specific=self.attributions[name].target_specific)

    def by_span(self, method: str | None = None) -> dict[str, Array]:
        """Name of a part of the prompt (`spans=`) → the sum of its scores for each generated token."""
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
        """One generated token, counted from 0, as an `Explanation` with words, `top` and views."""
        if isinstance(number, bool) or not isinstance(number, (int, np.integer)):
            raise ChoiceError(f"step must be a whole number, found {number!r}")
        if not -len(self) <= number < len(self):
            raise ChoiceError(
                f"step {number} was requested, but {len(self)} tokens were generated (0 to {len(self) - 1})"
            )
        number %= len(self)
        end = self.prompt_length + number
        text = self._text_before(end)
        positions, words = group_words(self.positions[:end], None if text is None else [text])
        sequences = dict(self.sequences)
        if sequences:
            *earlier, last = sequences
            sequences[last] = end - sum(sequences[name] for name in earlier)
        return Explanation(
            positions=positions,
            words=words,
            position=end - 1,
            attributions={name: _of_step(attribution, number, end) for name, attribution in self.attributions.items()},
            spans=self.spans,
            text=text,
            prediction=self.predictions[number],
            causal=not self.sequences,
            sequences=sequences,
            notes=self.notes,
            provenance=self.provenance,
            image=self.image,
            image_size=self.image_size,
            audio=self.audio,
        )

    def _text_before(self, end: int) -> str | None:
        """The text before a position. An incomplete character, whose last bytes come later, is shown as broken."""
        if self.text is None:
            return None
        stop = max((position.end for position in self.positions[:end] if position.end is not None), default=0)
        later = next((position.start for position in self.positions[end:] if position.start is not None), stop)
        if self.text[later:stop].isascii():
            return self.text[:stop]
        return self.text[:later] + BROKEN * (stop - later)

    def plot(self, method: str | None = None, *, ax: Axes | None = None) -> Axes:
        """Draw the matrix as a heat map: a row for each generated token, a column for each token before it."""
        axes: Axes = self._view.plot(self, method, ax=ax)
        return axes

    def plot_overlays(
        self, method: str | None = None, layer: int | None = None, *, image: Any = None, **options: Any
    ) -> Figure:
        """Draw one small overlay of the prompt's image for each generated word.

        Args:
            method: by default the first.
            layer: by default the last.
            image: the image where the result has none, because it was loaded from a file.
            options: `words`, the numbers of the words to draw; `colours` and `smooth` as in `Explanation.overlay`.
        """
        figure: Figure = self._view.more["plot_overlays"](self, method, layer, image=image, **options)
        return figure

    def _saved(self) -> dict[str, Any]:
        return super()._saved() | {"verdict": self.verdict, "remarks": self.remarks()}

    @classmethod
    def _fields_of(cls, data: Mapping[str, Any]) -> dict[str, Any]:
        return super()._fields_of({key: value for key, value in data.items() if key not in ("verdict", "remarks")})

    def __repr__(self) -> str:
        return (
            f"GenerationExplanation({self.prompt_length} tokens of prompt, {len(self)} generated, "
            f"{', '.join(self.methods)})"
        )


def _of_step(attribution: Attribution, number: int, end: int) -> Attribution:
    """The row of one generated token over the positions before it."""
    diagnostics = {name: values[number] for name, values in attribution.diagnostics.items()}
    return replace(
        attribution,
        scores=attribution.scores[..., number, :end].copy(),
        diagnostics={name: value for name, value in diagnostics.items() if value is not None},
    )


_CELL = 0.32
"""Inches for one token."""
_BEST = 4
"""Words that are named for each token."""


def plain(generation: GenerationExplanation, method: str | None = None) -> str:
    """One line for each generated token: its probability, and the words before it that contribute most."""
    name = method or generation.methods[0]
    cells = _lines(generation, name)
    width = max(cell_len(label) for label, *_ in cells)
    lines = [_headline(generation, name), _judgement(generation, name)]
    for label, probability, share, best, predicted in cells:
        other = f"  (predicted: {predicted})" if predicted else ""
        lines.append(f"{set_cell_size(label, width)}  p {probability}  {share:>5}  {best}{other}")
    if generation.spans:
        lines.append(" · ".join(f"{printable(part)} {score}" for part, score in _span_sums(generation, name)))
    return "\n".join([*lines, *(f"note: {printable(note)}" for note in generation.notes)])


def blocks(generation: GenerationExplanation) -> list[TextBlock]:
    """The same as a table."""
    name = generation.methods[0]
    head = ["token", "p", f"from the {generation.front[0]}", "attributed most to", "predicted"]
    lines = [head, *_lines(generation, name)]
    if not any(predicted for *_, predicted in lines[1:]):
        lines = [cells[:-1] for cells in lines]
    text_blocks = [TextBlock(_headline(generation, name), (_judgement(generation, name),), lines, generation.notes)]
    if generation.spans:
        sums = [["part of the prompt", "all tokens"], *map(list, _span_sums(generation, name))]
        text_blocks.append(TextBlock(f"parts of the prompt, by {name}", lines=sums))
    return text_blocks


def _lines(generation: GenerationExplanation, method: str) -> list[list[str]]:
    """For each token its probability, the share of the prompt, the best words, and the prediction if it differs."""
    lines = []
    shares, precision = generation.from_front(method), generation.attributions[method].precision
    for number, prediction in enumerate(generation.predictions):
        best = generation.step(number).top(_BEST, method)
        decimals = places([word.score for word in best], precision)
        words = ", ".join(f"{printable(word.text)} {written(word.score, decimals)}" for word in best)
        share = "–" if np.isnan(shares[number]) else f"{shares[number]:.0%}"
        predicted = ""
        if prediction.predicted != prediction.label:
            certainty = "" if prediction.certainty is None else f" {prediction.certainty:.3f}"
            predicted = _quoted(prediction.predicted) + certainty
        lines.append([_quoted(prediction.label), f"{prediction.probability:.3f}", share, words, predicted])
    return lines


def rows(generation: GenerationExplanation) -> list[dict[str, Any]]:
    """A row for each method, generated token, and token before it."""
    return [
        {
            "method": method,
            "step": step,
            "generated": generation.generated[step],
            "probability": generation.predictions[step].probability,
            "position": source,
            "token": generation.positions[source].token,
            "prompt": source < generation.prompt_length,
            "score": float(scores[step, source]),
        }
        for method in generation.methods
        for scores in (generation[method],)
        for step in range(len(generation))
        for source in range(generation.prompt_length + step)
    ]


def heat_map(generation: GenerationExplanation, method: str | None = None, *, ax: Axes | None = None) -> Axes:
    """Rows from the first generated token down; the line is where the prompt ends."""
    name = method or generation.methods[0]
    scores = generation[name].copy()
    for step, row in enumerate(scores):
        row[generation.prompt_length + step :] = np.nan
    steps, sources = scores.shape
    axes = axes_or_new(ax, 2.2 + _CELL * sources, 1.6 + _CELL * steps)
    labels = [_source_label(generation, index) for index in range(sources)]
    generated = [_quoted(label) for label in generation.generated]
    draw_heat_map(axes, scores, labels, generated, signed=generation.attributions[name].signed, origin="upper")
    axes.axvline(generation.prompt_length - 0.5, color="0.3", linewidth=1)
    warning = fill(_judgement(generation, name), 15 * round(2.2 + _CELL * sources))
    axes.set_xlabel(f"prompt │ earlier output\n{warning}", fontsize=9, **VERBATIM)
    axes.set_ylabel("generated", fontsize=9)
    return axes


def _headline(generation: GenerationExplanation, method: str) -> str:
    legend = f"p is the token's probability, % the share of the {generation.front[0]}"
    return f"generated tokens: {len(generation)} · {_method_at(generation, method)} · {legend}"


def _method_at(generation: GenerationExplanation, method: str, layer: int | None = None) -> str:
    layers = generation.attributions[method].layers
    return (
        f"{method}, measured on the model"
        if layers is None
        else f"{method} at layer {layers[-1] if layer is None else layer}"
    )


def _judgement(generation: GenerationExplanation, method: str) -> str:
    return printable(f"{method}: {line(generation.remarks(method))}")


def _span_sums(generation: GenerationExplanation, method: str) -> list[tuple[str, str]]:
    """Each named part with the sum over all generated tokens."""
    sums = {name: float(scores.sum()) for name, scores in generation.by_span(method).items()}
    decimals = places(list(sums.values()), generation.attributions[method].precision)
    return [(name, written(score, decimals)) for name, score in sums.items()]


def _source_label(generation: GenerationExplanation, index: int) -> str:
    """The token as it is in the text, or the tokenizer's name for it."""
    position = generation.positions[index]
    if position.start is None or position.end is None or generation.text is None:
        return position.token
    return visible(generation.text[position.start : position.end])


def _quoted(label: str) -> str:
    return f"'{printable(label)}'"


_MOST_OVERLAYS = 36
"""More words are illegible on one figure."""


@verbatim
def plot_overlays(
    generation: GenerationExplanation,
    method: str | None = None,
    layer: int | None = None,
    *,
    words: Sequence[int] | None = None,
    image: Any = None,
    colours: str = "viridis",
    smooth: bool = True,
) -> Figure:
    """One small overlay for each word, in the order of the text, on its own scale.

    A word of several tokens shows the mean of their rows. By default the first 36 words are drawn.
    """
    if generation.image_size is None:
        raise InputError("the prompt has no image to overlay; plot() draws the matrix")
    name = method or generation.methods[0]
    generated = generation.generated_words
    numbers = _word_numbers(words, len(generated))
    overlays = [word_row(generation, generated[number], name, layer) for number in numbers]
    background, signed = small(picture_of(overlays[0][0], image)), generation.attributions[name].signed
    panels, captions = [], []
    for number, (step, scores) in zip(numbers, overlays, strict=True):
        most = highest_score(step, scores)
        panels.append(lit(step, scores, background, colours, most, smooth=smooth, signed=signed))
        sizes = np.abs(scores)
        on_image = sizes[[position.box is not None for position in step.positions]].sum() / max(sizes.sum(), 1e-300)
        word = printable(generated[number].text)
        captions.append(f"{word}\n{on_image:.0%} from the image\n{extent(most, signed=signed)}")
    figure = sheet(panels, captions, colours, None, signed=[signed], columns=min(len(panels), 4))
    figure.suptitle(_method_at(generation, name, layer), fontsize=10, **VERBATIM)
    cut = ""
    if words is None and len(numbers) < len(generated):
        cut = f" (words {numbers[0]} to {numbers[-1]} of {len(generated)})"
    figure_caption(figure, printable(f"{name}{cut}: {line(generation.remarks(name))}"))
    return figure


def _word_numbers(words: Sequence[int] | None, count: int) -> list[int]:
    if not count:
        raise InputError("only special tokens were generated: there is no word to draw")
    if words is None:
        return list(range(min(count, _MOST_OVERLAYS)))
    if not words or not all(0 <= word < count for word in words):
        raise ChoiceError(f"words {list(words)} were requested, but {count} were generated (0 to {count - 1})")
    return list(words)


def word_row(
    generation: GenerationExplanation, word: Word, method: str, layer: int | None
) -> tuple[Explanation, Array]:
    """The step of a word's last token, and the mean of the rows of all its tokens."""
    numbers = [index - generation.prompt_length for index in word.positions if index >= generation.prompt_length]
    steps = [generation.step(number) for number in numbers]
    if generation.attributions[method].layers is None:
        layer = None
    rows = np.zeros((len(steps), len(steps[-1].positions)))
    for row, step in zip(rows, steps, strict=True):
        scores = step.scores(method, layer)
        row[: len(scores)] = scores
    return steps[-1], rows.mean(0)


_TITLE = 80
_BYTES_PER_NUMBER = 4 * 4 / 3
_ALTERNATIVES = 5
"""Alternatives of each token in a page."""


def generation_section(shown: Shown) -> dict[str, Any] | None:
    """The texts with their tokens, and for each method layer × generated × source in single precision."""
    generations = [result for result in shown.results if isinstance(result, GenerationExplanation)]
    if not generations:
        return None
    return {
        "texts": [_text(generation, len(generations), player=shown.player) for generation in generations],
        "tables": table_data(block for generation in generations for block in blocks(generation)),
    }


def _text(generation: GenerationExplanation, texts: int, *, player: bool = False) -> dict[str, Any]:
    methods, layers = generation.attributions, generation.layers
    scores, notes = {name: generation[name][None] for name in methods}, list(generation.notes)
    if len(layers) > 1:
        layered = [name for name in methods if methods[name].layers]
        room = ROW_BYTES / texts / (len(layered) * generation[layered[0]].size * _BYTES_PER_NUMBER)
        kept = spread(len(layers), min(len(layers), max(int(room), 2)))
        scores |= {name: methods[name].scores[kept] for name in layered}
        if len(kept) < len(layers):
            notes.append(f"{len(kept)} of {len(layers)} layers are in this page")
        layers = tuple(layers[index] for index in kept)
    title = " ".join((generation.text or " ".join(generation.tokens)).split())
    steps = [generation.step(number) for number in range(len(generation))]
    return {
        "title": title if len(title) <= _TITLE else title[: _TITLE - 1] + "…",
        "image": image_data(generation, texts) or waveform(steps[0], player=player),
        "prompt": generation.prompt_length,
        "front": dict(zip(("name", "length"), generation.front, strict=True)),
        "tokens": _tokens(generation),
        "spans": [[span.name, list(span.positions)] for span in generation.spans],
        "split": [name for name in methods if steps[0].split_by_residual(name)],
        "parts": [list(part) for part in generation.parts],
        "predictions": [
            {
                **{key: getattr(prediction, key) for key in ("label", "probability", "predicted", "certainty")},
                "others": [list(alternative) for alternative in generation.alternatives(number)[:_ALTERNATIVES]],
            }
            for number, prediction in enumerate(generation.predictions)
        ],
        "names": list(methods),
        "measured": [name for name in methods if methods[name].layers is None],
        "signed": sorted(name for name in methods if methods[name].signed),
        "digits": {name: methods[name].precision for name in methods if methods[name].precision is not None},
        "layers": list(layers) or [1],
        "scores": {name: packed(scores[name], "<f4") for name in methods},
        "against": {name: packed(rows, "<f4") for name, rows in generation.against.items()},
        "rivals": [contrast.against for contrast in generation.contrasts],
        "remarks": {name: [line(step.remarks(name)) for step in steps] for name in methods},
        "stripes": {name: [warning.sentence for warning in generation.stripe(name)] for name in methods},
        "notes": notes,
    }


def _tokens(generation: GenerationExplanation) -> list[dict[str, Any]]:
    """Each token as it is in the text, with the white space before it, and which tokens pad audio."""
    text, end = generation.text, 0
    audio_end = generation.front[1] if any(position.time is not None for position in generation.positions) else 0
    tokens: list[dict[str, Any]] = []
    for position in generation.positions:
        if text is None or position.start is None or position.end is None or position.special:
            gap = " "
            if text is not None:  # a template has special tokens in the text
                start = text.find(position.token, end)
                if start >= 0 and not text[end:start].strip():
                    gap, end = text[end:start], start + len(position.token)
            token = {"text": position.token, "gap": gap if tokens else "", "special": position.special}
            if position.special and position.index < audio_end:
                token["padding"] = True
        else:
            piece = text[max(end, position.start) : position.end]
            visible_part = piece.lstrip()
            space = piece[: len(piece) - len(visible_part)] if visible_part else ""
            # Tokens of white space alone, or of some bytes of a character that another token shows, have names.
            token = {"text": visible_part or piece or position.token, "special": not (visible_part or piece)}
            token["gap"] = text[end : position.start] + space
            end = max(end, position.end)
        tokens.append(token)
    return tokens
