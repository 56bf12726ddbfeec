"""Explained generations to look at: a line for each new token in the terminal, a heat map on matplotlib's axes."""

from __future__ import annotations

from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from attnx.answer.prediction import visible
from attnx.render.axes import VERBATIM, given_or_new
from attnx.render.colours import colour_map
from attnx.render.columns import TextBlock
from attnx.render.digits import places, written
from attnx.render.printable import printable
from attnx.results.generation import GenerationExplanation
from attnx.results.remarks import line

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_CELL = 0.32
"""Inches for one token."""

_BEST = 4
"""Words that are named for each token."""


def plain(generation: GenerationExplanation, method: str | None = None) -> str:
    """One line for each generated token: its probability, and the words before it that mattered most."""
    from rich.cells import cell_len, set_cell_size

    name = method or generation.shown_first
    labels = [_quoted(label) for label in generation.generated]
    width = max(map(cell_len, labels))
    lines = [_headline(generation, name), _judgement(generation, name)]
    shares = generation.from_front(name)
    for step, label in enumerate(labels):
        probability, share = generation.probabilities[step], _share(shares[step])
        lines.append(
            f"{set_cell_size(label, width)}  p {probability:.3f}  {share:>5}  {_best(generation, step, name)}"
            + (f"  (predicted: {other})" if (other := _predicted(generation, step)) else "")
        )
    lines += (
        [" · ".join([f"{printable(one)} {score}" for one, score in _spans(generation, name)])]
        if generation.spans
        else []
    )
    return "\n".join([*lines, *(f"note: {printable(one)}" for one in generation.notes)])


def blocks(generation: GenerationExplanation) -> list[TextBlock]:
    """The same as a table."""
    name = generation.shown_first
    lines = [["token", "p", f"from the {generation.front[0]}", "drawn most from"]]
    shares = generation.from_front(name)
    predicted = [_predicted(generation, step) for step in range(len(generation))]
    for step, label in enumerate(generation.generated):
        probability = f"{generation.probabilities[step]:.3f}"
        lines.append([_quoted(label), probability, _share(shares[step]), _best(generation, step, name)])
    if any(predicted):
        lines = [[*line, other] for line, other in zip(lines, ["predicted", *predicted], strict=True)]
    found = [TextBlock(_headline(generation, name), (_judgement(generation, name),), lines, generation.notes)]
    if generation.spans:
        sums = [["part of the prompt", "all tokens"], *([part, score] for part, score in _spans(generation, name))]
        found.append(TextBlock(f"parts of the prompt, by {name}", (), sums, ()))
    return found


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
        for method in generation.names
        for scores in (generation[method],)
        for step in range(len(generation))
        for source in range(generation.prompt_length + step)
    ]


def heat_map(generation: GenerationExplanation, method: str | None = None, *, ax: Axes | None = None) -> Axes:
    """Rows from the first generated token down; the line is where the prompt ends."""
    name = method or generation.shown_first
    scores = np.ma.masked_array(generation[name])
    for step in range(len(generation)):
        scores[step, generation.prompt_length + step :] = np.ma.masked
    rows, columns = scores.shape
    axes = given_or_new(ax, 2.2 + _CELL * columns, 1.6 + _CELL * rows)
    most, signed = max(float(abs(scores).max()), 1e-9), name in generation.signed
    image = axes.imshow(scores, aspect="auto", cmap=colour_map(signed=signed), vmin=-most if signed else 0, vmax=most)
    sources = [_source(generation, place) for place in range(scores.shape[1])]
    axes.set_xticks(range(len(sources)), sources, rotation=90, fontsize=8)
    axes.set_yticks(range(len(generation)), [_quoted(label) for label in generation.generated], fontsize=8)
    axes.axvline(generation.prompt_length - 0.5, color="0.3", linewidth=1)
    axes.tick_params(length=0)
    said = fill(_judgement(generation, name), 15 * round(2.2 + _CELL * columns))
    axes.set_xlabel(f"prompt │ earlier output\n{said}", fontsize=9, **VERBATIM)
    axes.set_ylabel("generated", fontsize=9)
    if axes.figure is not None:
        axes.figure.colorbar(image, ax=axes, fraction=0.03, pad=0.02)
    return axes


def _headline(generation: GenerationExplanation, method: str) -> str:
    count = len(generation)
    where = ", measured on the model" if method in generation.references else f" at layer {generation.layer}"
    told = f"p is the token's probability, % what is from the {generation.front[0]}"
    return f"generated tokens: {count} · {method}{where} · {told}"


def _judgement(generation: GenerationExplanation, method: str) -> str:
    return printable(f"{method}: {line(generation.remarks(method))}")


def _best(generation: GenerationExplanation, step: int, method: str) -> str:
    words = generation.step(step).top(_BEST, method)
    decimals = places([word.score for word in words], generation.digits.get(method))
    return ", ".join(f"{printable(word.text)} {written(word.score, decimals)}" for word in words)


def _predicted(generation: GenerationExplanation, step: int) -> str:
    """What the model predicts with its probability, where another token was written; else nothing."""
    one = generation.predictions[step]
    if one.predicted == one.label:
        return ""
    return _quoted(one.predicted) + ("" if one.certainty is None else f" {one.certainty:.3f}")


def _spans(generation: GenerationExplanation, method: str) -> list[tuple[str, str]]:
    """What all tokens together drew from each part that was named."""
    sums = {name: float(scores.sum()) for name, scores in generation.by_span(method).items()}
    decimals = places(list(sums.values()), generation.digits.get(method))
    return [(name, written(score, decimals)) for name, score in sums.items()]


def _source(generation: GenerationExplanation, place: int) -> str:
    """The token as it stands in the text; the tokenizer's name for it where that is not known."""
    one = generation.positions[place]
    if one.start is None or one.end is None or generation.text is None:
        return printable(one.token)
    return printable(visible(generation.text[one.start : one.end]))


def _share(share: float) -> str:
    return "–" if np.isnan(share) else f"{share:.0%}"


def _quoted(label: str) -> str:
    return f"'{printable(label)}'"
