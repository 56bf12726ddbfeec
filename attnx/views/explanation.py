"""An explanation as other tools take it: `head_view(**e.to_bertviz())`, Captum's `visualize_text([e.to_captum()])`."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from attnx.errors import AttnxError, ChoiceError, InputError
from attnx.registry import unknown
from attnx.results import Array, Bars, Explanation, Unit, chosen_method, layered, unlayered
from attnx.views.audio import patch_table, segment_table
from attnx.views.escaping import printable, token_label
from attnx.views.plots import (
    CELL,
    VERBATIM,
    axes_or_new,
    caption,
    draw_heat_map,
    label_room,
    verbatim,
    without_frame,
)
from attnx.views.table import TextBlock, places, written
from attnx.views.terminal import AGAINST, FOR, coloured
from attnx.views.text import answer, cautions, judgement, notes, plain, reduction_note, row_name, seen_from, strongest

if TYPE_CHECKING:
    from captum.attr._utils.visualization import VisualizationDataRecord
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.console import RenderableType


def text(explanation: Explanation) -> str:
    if explanation.seconds is not None:
        return segment_table(explanation)
    return plain(explanation) if explanation.image_size is None else patch_table(explanation)


def rich(explanation: Explanation) -> RenderableType:
    """The words on coloured backgrounds, as `attnx explain` shows them; of an image or audio its strongest parts."""
    from rich.text import Text

    if explanation.seconds is not None:
        return Text(segment_table(explanation))
    return coloured(explanation) if explanation.image_size is None else Text(patch_table(explanation))


def blocks(explanation: Explanation) -> list[TextBlock]:
    """A line for each word, a column for each method at its last layer."""
    names = explanation.methods
    columns = [explanation.by_word(name) for name in names]
    decimals = [
        places([word_score.score for word_score in column], explanation.attributions[name].precision)
        for name, column in zip(names, columns, strict=True)
    ]
    words = [
        [
            printable(word.text),
            *(written(column[row].score, decimal) for column, decimal in zip(columns, decimals, strict=True)),
        ]
        for row, word in enumerate(explanation.words)
    ]
    prediction = [answer(explanation)] if explanation.prediction else []
    at = [f"layer {explanation.layers[-1]}"] if explanation.layers else []
    heading = ", ".join([*prediction, *at, seen_from(explanation)])
    foot = (*cautions(explanation, names), *notes(explanation))
    lead = (judgement(explanation, explanation.methods[0]),)
    text_blocks = [TextBlock(heading, lead=lead, lines=[["word", *names], *words], foot=foot)]
    return [*text_blocks, _parts(explanation, names)] if explanation.spans else text_blocks


def _parts(explanation: Explanation, names: Sequence[str]) -> TextBlock:
    """A line for each named part, with the sums over its tokens."""
    columns = []
    for name in names:
        sums = [word_score.score for word_score in explanation.by_span(name)]
        decimals = places(sums, explanation.attributions[name].precision)
        columns.append([written(score, decimals) for score in sums])
    lines = [[printable(span.name), *cells] for span, *cells in zip(explanation.spans, *columns, strict=True)]
    return TextBlock("parts of the text, each the sum over its tokens", lines=[["part", *names], *lines])


def rows(explanation: Explanation) -> list[dict[str, Any]]:
    """A row for each method, layer, head (where every head was asked for) and position; references as columns."""
    words = {index: word.text for word in explanation.words for index in word.positions}
    result: list[dict[str, Any]] = []
    measured = {name: explanation[name] for name in unlayered(explanation)}
    for method in layered(explanation) or unlayered(explanation)[:1]:
        attribution = explanation.attributions[method]
        scores = attribution.scores if attribution.layers else attribution.scores[None]
        for index, score in np.ndenumerate(scores):
            position = explanation.positions[index[-1]]
            layer = attribution.layers[index[0]] if attribution.layers else None
            row: dict[str, Any] = {"method": method, "layer": layer}
            row |= {"head": index[1]} if len(index) == 3 else {}
            row |= {
                "position": position.index,
                "token": position.token,
                "word": words.get(position.index),
                "special": position.special,
                "score": float(score),
                **{name: float(values[position.index]) for name, values in measured.items()},
            }
            result.append(row)
    return result


def plot(
    explanation: Explanation,
    method: str | None,
    layer: int | None,
    *,
    head: int | None,
    ax: Axes | None,
    image: Any,
    **looks: Any,
) -> Axes | Figure:
    """Bars or a strip of colours; of an image its overlay, or panels of all methods; of audio strips over time."""
    if explanation.seconds is not None:
        from attnx.views.audio import plot_sound

        return plot_sound(explanation, method, layer, head=head, ax=ax)
    if explanation.image_size is not None:
        from attnx.views.image import plot_image

        return plot_image(explanation, method, layer, head=head, ax=ax, image=image)

    return plot_row(explanation, method, layer, head=head, ax=ax, **looks)


@verbatim
def plot_layers(
    explanation: Explanation,
    method: str | None,
    *,
    special: bool,
    content_only: bool,
    head: int | None,
    ax: Axes | None,
    image: Any,
) -> Axes | Figure:
    """Layers × positions; of an image a strip of overlays, of audio layers × time."""
    if explanation.seconds is not None and ax is None:
        from attnx.views.audio import plot_sound_layers

        return plot_sound_layers(explanation, method, head=head)
    if explanation.image_size is not None and ax is None:
        from attnx.views.image import layer_strip

        return layer_strip(explanation, method, head=head, image=image)
    from attnx.views.plots import plot_heat_map

    return plot_heat_map(explanation, method, special=special, content_only=content_only, head=head, ax=ax)


MOST_BARS = 60
"""More bars are illegible; the strongest are drawn, and the plot says so."""
WEAK = "#e7e2dc"
_BAR_HEIGHT = 0.26
"""Inches for one bar with its word."""
_LEGEND = 22
"""Points between the axes and the title, for the legend between them."""
_ABOVE: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0), "borderaxespad": 0.2, "borderpad": 0.2}
"""Above the axes, where there is no bar."""


def plot_row(
    explanation: Explanation,
    method: str | None = None,
    layer: int | None = None,
    *,
    kind: Bars = "bars",
    by: Unit = "word",
    content_only: bool = False,
    head: int | None = None,
    ax: Axes | None = None,
) -> Axes:
    """The row of `method` at `layer`, by default as in `Explanation.scores`.

    Words leave special tokens out; `by="token"` shows every position. `content_only` leaves punctuation out, too.
    """
    if kind not in ("bars", "heat"):
        raise ChoiceError(unknown("kind", kind, ("bars", "heat")))
    labels, scores = _row(explanation, method, layer, head, by, content_only=content_only)
    if not labels:
        raise InputError('there is no word to draw, only special tokens; by="token" draws those')
    kept = strongest(abs(scores), MOST_BARS)
    labels, shown = [labels[index] for index in kept], scores[kept]
    name = chosen_method(explanation, method, layer, head)
    signed = explanation.attributions[name].signed
    if kind == "bars":
        axes = axes_or_new(ax, 5.2, (0.95 if signed else 0.75) + _BAR_HEIGHT * len(kept))
        _bars(axes, labels, shown, explanation.attributions[name].precision, signed=signed)
    else:
        axes = axes_or_new(ax, CELL * len(kept) + 1.2, CELL + label_room(labels) + 0.5)
        draw_heat_map(axes, shown[None], labels, [""], signed=signed)
    heading = row_name(explanation, method, layer, head)
    notes = [
        reduction_note(len(kept), len(scores), f"{by}s"),
        _left_out(explanation, method, layer, head, content_only),
    ]
    title, pad = "\n".join([heading, *(f"({note})" for note in notes if note)]), _LEGEND if axes.get_legend() else None
    axes.set_title(title, fontsize=9, loc="left", pad=pad, **VERBATIM)
    caption(axes, explanation, method, layer, head)
    return axes


def _row(
    explanation: Explanation, method: str | None, layer: int | None, head: int | None, by: Unit, *, content_only: bool
) -> tuple[list[str], Array]:
    scores = explanation.scores(method, layer, head)
    words = explanation.content_words if content_only else explanation.words
    if by == "token":
        kept = sorted(index for word in words for index in word.positions) if content_only else range(len(scores))
        return [token_label(explanation.positions[index], explanation.texts) for index in kept], scores[list(kept)]
    if by != "word":
        raise ChoiceError(unknown("by", by, ("word", "token")))
    sums = [scores[list(word.positions)].sum() for word in words]
    return [printable(word.text) for word in words], np.array(sums, dtype=float)


def _left_out(
    explanation: Explanation, method: str | None, layer: int | None, head: int | None, content_only: bool
) -> str:
    """The shares of punctuation and special tokens where they are not drawn."""
    row = explanation.row(method, layer, head)
    return f"not drawn: punctuation {row.punctuation_share:.0%}, special tokens {row.special_share:.0%}" * content_only


def _bars(axes: Axes, labels: list[str], scores: Array, precision: int | None, *, signed: bool) -> None:
    """A bar for each score; signed scores have two colours and a legend."""
    rows, decimals = range(len(labels)), places(scores, precision)
    drawn = axes.barh(rows, scores, height=0.72, color=[FOR if score >= 0 else AGAINST for score in scores])
    axes.bar_label(drawn, [written(score, decimals) for score in scores], padding=3, fontsize=8, color="#55585f")
    if signed:
        from matplotlib.patches import Patch

        sides = [Patch(color=FOR, label="supports"), Patch(color=AGAINST, label="opposes")]
        axes.legend(handles=sides, **_ABOVE, ncols=2, fontsize=8, frameon=False)
    axes.set_yticks(rows, labels, fontsize=10, **VERBATIM)
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.margins(x=0.12)
    axes.set_xticks([])
    axes.axvline(0, color=WEAK, linewidth=1, zorder=0)
    without_frame(axes)


def to_bertviz(explanation: Explanation, method: str | None = None) -> dict[str, Any]:
    """The keyword arguments of BertViz's views: `attention`, a tensor of 1 × heads × n × n a layer, and `tokens`.

    By default raw attention, which BertViz shows. Lines of rollout and flow lead to the input position itself. For a
    pair of texts there is `sentence_b_start`, too. Of an encoder–decoder they are `encoder_attention`,
    `decoder_attention`, `cross_attention` and the tokens of both.
    """
    of_one_layer = (name for name in layered(explanation) if explanation.attributions[name].single_layer)
    name = method or next(of_one_layer, explanation.methods[0])
    explanation[name]
    if all(attribution.matrices is None for attribution in explanation.attributions.values()):
        raise InputError(
            'BertViz draws the rows of all positions: explain(..., methods="raw", head="all", all_queries=True)'
        )
    explanation.matrix(name)  # raises where the method has none
    matrices = torch.from_numpy(np.array(explanation.attributions[name].matrices))
    heads = matrices if matrices.ndim == 4 else matrices[:, None]
    if explanation.sequences:
        return _encoder_decoder(explanation, heads)
    arguments: dict[str, Any] = {"attention": tuple(heads[:, None]), "tokens": list(explanation.tokens)}
    second = [position.index for position in explanation.positions if position.segment == 1]
    return arguments | ({"sentence_b_start": second[0]} if second else {})


def _encoder_decoder(explanation: Explanation, heads: torch.Tensor) -> dict[str, Any]:
    """The attention of encoder, decoder and cross-attention, each over its own positions."""
    length = next(iter(explanation.sequences.values()))
    source, output = slice(0, length), slice(length, len(explanation.positions))
    kinds = explanation.provenance["settings"]["layer_kinds"]
    axes = {"encoder": (source, source), "decoder": (output, output), "cross": (output, source)}
    result: dict[str, Any] = {"encoder_tokens": list(explanation.tokens[source])}
    result["decoder_tokens"] = list(explanation.tokens[output])
    for name, (rows, columns) in axes.items():
        kind = "self" if name == "decoder" else name
        layers = [layer for layer, number in zip(heads, explanation.layers, strict=True) if kinds[number - 1] == kind]
        if layers:
            result[f"{name}_attention"] = tuple(layer[None, :, rows, columns] for layer in layers)
    return result


def to_captum(
    explanation: Explanation, method: str | None = None, layer: int | None = None, *, true_class: str = "–"
) -> VisualizationDataRecord:
    """The words with their scores, scaled so that the strongest is 1, the deepest colour that Captum has.

    `attr_score` is the sum of the words before they were scaled. A model without a head has no class, and its
    probability is NaN. Captum writes words and classes into the page as they are, so they come escaped.
    """
    try:
        from captum.attr import visualization
    except ImportError as error:
        raise AttnxError("to_captum needs captum: pip install captum") from error
    words = explanation.by_word(method, layer)
    scores = torch.tensor([word.score for word in words], dtype=torch.float64)
    strongest = float(scores.abs().max()) if words else 0.0
    answer = explanation.prediction
    predicted, target = ("–", "–") if answer is None else (answer.predicted, answer.label)
    return visualization.VisualizationDataRecord(
        word_attributions=scores / strongest if strongest else scores,
        pred_prob=float("nan") if answer is None or answer.certainty is None else answer.certainty,
        pred_class=escape(printable(predicted)),
        true_class=escape(true_class),
        attr_class=escape(printable(target)),
        attr_score=float(scores.sum()),
        raw_input_ids=[escape(printable(word.text)) for word in words],
        convergence_score=0.0,
    )
