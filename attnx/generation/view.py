"""Text that was written: each of its tokens, and what it drew from in the prompt and in what was written before."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from attnx.adapters import Word
from attnx.errors import ChoiceError, InputError
from attnx.generation.result import GenerationExplanation
from attnx.results import Explanation, line
from attnx.targets import visible
from attnx.views import (
    ROW_BYTES,
    VERBATIM,
    Shown,
    TextBlock,
    axes_or_new,
    colour_map,
    extent,
    highest_score,
    lit,
    packed,
    picture,
    picture_of,
    places,
    printable,
    sheet,
    small,
    sounding,
    spread,
    table_data,
    verbatim,
    written,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_CELL = 0.32
"""Inches for one token."""

_BEST = 4
"""Words that are named for each token."""


def plain(generation: GenerationExplanation, method: str | None = None) -> str:
    """One line for each generated token: its probability, and the words before it that mattered most."""
    from rich.cells import cell_len, set_cell_size

    name = method or generation.methods[0]
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
    return "\n".join([*lines, *(f"note: {printable(note)}" for note in generation.notes)])


def blocks(generation: GenerationExplanation) -> list[TextBlock]:
    """The same as a table."""
    name = generation.methods[0]
    lines = [["token", "p", f"from the {generation.front[0]}", "drawn most from"]]
    shares = generation.from_front(name)
    predicted = [_predicted(generation, step) for step in range(len(generation))]
    for step, label in enumerate(generation.generated):
        probability = f"{generation.probabilities[step]:.3f}"
        lines.append([_quoted(label), probability, _share(shares[step]), _best(generation, step, name)])
    if any(predicted):
        lines = [[*line, other] for line, other in zip(lines, ["predicted", *predicted], strict=True)]
    text_blocks = [TextBlock(_headline(generation, name), (_judgement(generation, name),), lines, generation.notes)]
    if generation.spans:
        sums = [["part of the prompt", "all tokens"], *([part, score] for part, score in _spans(generation, name))]
        text_blocks.append(TextBlock(f"parts of the prompt, by {name}", (), sums, ()))
    return text_blocks


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
    scores = np.ma.masked_array(generation[name])
    for step in range(len(generation)):
        scores[step, generation.prompt_length + step :] = np.ma.masked
    rows, columns = scores.shape
    axes = axes_or_new(ax, 2.2 + _CELL * columns, 1.6 + _CELL * rows)
    most, signed = max(float(abs(scores).max()), 1e-9), generation.attributions[name].signed
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
    where = (
        ", measured on the model"
        if generation.attributions[method].layers is None
        else f" at layer {generation.layers[-1]}"
    )
    name = f"p is the token's probability, % what is from the {generation.front[0]}"
    return f"generated tokens: {count} · {method}{where} · {name}"


def _judgement(generation: GenerationExplanation, method: str) -> str:
    return printable(f"{method}: {line(generation.remarks(method))}")


def _best(generation: GenerationExplanation, step: int, method: str) -> str:
    words = generation.step(step).top(_BEST, method)
    decimals = places([word.score for word in words], generation.attributions[method].precision)
    return ", ".join(f"{printable(word.text)} {written(word.score, decimals)}" for word in words)


def _predicted(generation: GenerationExplanation, step: int) -> str:
    """What the model predicts with its probability, where another token was written; else nothing."""
    prediction = generation.predictions[step]
    if prediction.predicted == prediction.label:
        return ""
    return _quoted(prediction.predicted) + ("" if prediction.certainty is None else f" {prediction.certainty:.3f}")


def _spans(generation: GenerationExplanation, method: str) -> list[tuple[str, str]]:
    """What all tokens together drew from each part that was named."""
    sums = {name: float(scores.sum()) for name, scores in generation.by_span(method).items()}
    decimals = places(list(sums.values()), generation.attributions[method].precision)
    return [(name, written(score, decimals)) for name, score in sums.items()]


def _source(generation: GenerationExplanation, place: int) -> str:
    """The token as it stands in the text; the tokenizer's name for it where that is not known."""
    position = generation.positions[place]
    if position.start is None or position.end is None or generation.text is None:
        return printable(position.token)
    return printable(visible(generation.text[position.start : position.end]))


def _share(share: float) -> str:
    return "–" if np.isnan(share) else f"{share:.0%}"


def _quoted(label: str) -> str:
    return f"'{printable(label)}'"


Array = np.ndarray[Any, np.dtype[Any]]

_MOST = 36
"""Words of one sheet: more are not told apart at the size that is left for each."""


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
    """One small overlay a word, in the order of the text, each on its own scale from 0 to its highest score.

    A word of several tokens shows the mean of their rows. Of a longer text the first 36 words are drawn, or those that
    `words` names by their numbers, counted from 0.
    """
    if generation.image_size is None:
        raise InputError("this text was not written about a picture: there is nothing to lay it over; plot() draws it")
    name = method or generation.methods[0]
    written = written_words(generation)
    kept = _chosen(words, len(written))
    each = [of_word(generation, written[number], name, layer) for number in kept]
    picture = small(picture_of(each[0][0], image))
    signed = generation.attributions[name].signed
    highest = [highest_score(step, scores) for step, scores in each]
    pictures = [
        lit(step, scores, picture, colours, most, smooth=smooth, signed=signed)
        for (step, scores), most in zip(each, highest, strict=True)
    ]
    captions = [
        f"{printable(written[number].text)}\n{_from_picture(*one):.0%} from the picture\n{extent(most, signed=signed)}"
        for number, most, one in zip(kept, highest, each, strict=True)
    ]
    figure = sheet(pictures, captions, colours, None, signed=[signed], columns=min(len(kept), 4))
    at = (generation.layers or (0,))[-1] if layer is None else layer
    figure.suptitle(
        name if generation.attributions[name].layers is None else f"{name} at layer {at}", fontsize=10, **VERBATIM
    )
    cut = f" (words {kept[0]} to {kept[-1]} of {len(written)})" if words is None and len(kept) < len(written) else ""
    said = printable(f"{name}{cut}: {line(generation.remarks(name))}")
    width = figure.get_size_inches()[0]
    figure.supxlabel(fill(said, round(14 * width)), fontsize=8, color="#55585f", **VERBATIM)
    return figure


def written_words(generation: GenerationExplanation) -> list[Word]:
    """The words that the model wrote, or went on with; special tokens, as that of the end, are none."""
    return [word for word in generation.words if max(word.positions) >= generation.prompt_length]


def _chosen(words: Sequence[int] | None, count: int) -> list[int]:
    if not count:
        raise InputError("nothing was written but special tokens: there is no word to draw")
    if words is None:
        return list(range(min(count, _MOST)))
    wrong = [word for word in words if not 0 <= word < count]
    if wrong or not words:
        raise ChoiceError(f"words {list(words)} asked, {count} were written: give numbers from 0 to {count - 1}")
    return list(words)


def of_word(generation: GenerationExplanation, word: Word, method: str, layer: int | None) -> tuple[Explanation, Array]:
    """The step of its last token, and the mean of the rows of all its tokens over what that has read."""
    tokens = [place - generation.prompt_length for place in word.positions if place >= generation.prompt_length]
    steps = [generation.step(number) for number in tokens]
    measured = generation.attributions[method].layers is None
    rows = np.zeros((len(steps), len(steps[-1].positions)))
    for row, step in zip(rows, steps, strict=True):
        scores = step.scores(method, None if measured else layer)
        row[: len(scores)] = scores
    return steps[-1], rows.mean(0)


def _from_picture(step: Explanation, scores: Array) -> float:
    """How much of a row is on the patches, and on the image tokens that read them."""
    sizes = np.abs(scores)
    seen = [position.box is not None for position in step.positions]
    whole = float(sizes.sum())
    return float(sizes[seen].sum()) / whole if whole > 0 else 0.0


_TITLE = 80
_BYTES_A_NUMBER = 4 * 4 / 3
_ALTERNATIVES = 5
"""Runners-up that are shown of each token."""


def generation_section(shown: Shown) -> dict[str, Any] | None:
    """The texts with their tokens, and for each method layer × generated × source in single precision."""
    generations = [result for result in shown.results if isinstance(result, GenerationExplanation)]
    if not generations:
        return None
    return {
        "texts": [_text(generation, len(generations), player=shown.player) for generation in generations],
        "tables": table_data(block for generation in generations for block in blocks(generation)),
    }


def _text(written: GenerationExplanation, texts: int, *, player: bool = False) -> dict[str, Any]:
    kept, layers = _layers(written, texts)
    left_out = len(written.layers) - len(kept) if kept else 0
    notes = [f"{len(kept)} of {len(kept) + left_out} layers are in this page"] if left_out > 0 else []
    return {
        "title": _title(written),
        "picture": picture(written, texts) or sounding(written.step(0), player=player),
        "prompt": written.prompt_length,
        "front": dict(zip(("name", "length"), written.front, strict=True)),
        "tokens": _tokens(written),
        "spans": [[span.name, list(span.positions)] for span in written.spans],
        "split": [name for name in written.methods if written.step(0).split_by_residual(name)],
        "parts": [list(part) for part in written.parts],
        "answers": [_answer(written, step) for step in range(len(written))],
        "names": list(written.methods),
        "measured": [name for name, scores in written.attributions.items() if scores.layers is None],
        "signed": sorted(name for name, scores in written.attributions.items() if scores.signed),
        "digits": {
            name: scores.precision for name, scores in written.attributions.items() if scores.precision is not None
        },
        "layers": layers,
        "scores": {name: packed(_scores(written, name, kept), "<f4") for name in written.methods},
        "against": {name: packed(scores, "<f4") for name, scores in written.against.items()},
        "rivals": [contrast.against for contrast in written.contrasts],
        "remarks": _remarks(written),
        "stripes": {name: [one.sentence for one in written.stripe(name)] for name in written.methods},
        "notes": [*written.notes, *notes],
    }


def _layers(written: GenerationExplanation, texts: int) -> tuple[list[int], list[int]]:
    """Which of the layers there is room for, by their place and by their number."""
    if len(written.layers) <= 1:
        return [], list(written.layers) or [1]
    names = [name for name in written.methods if written.attributions[name].layers]
    room = ROW_BYTES / texts / (len(names) * written[written.methods[0]].size * _BYTES_A_NUMBER)
    kept = spread(len(written.layers), min(len(written.layers), max(int(room), 2)))
    return kept, [written.layers[place] for place in kept]


def _scores(written: GenerationExplanation, name: str, kept: list[int]) -> Array:
    """layer × generated × source; a reference has no layers, and stands as one."""
    if kept and written.attributions[name].layers:
        rows: Array = written.attributions[name].scores[kept]
        return rows
    return written[name][None]


def _title(written: GenerationExplanation) -> str:
    whole = " ".join((written.text or " ".join(written.tokens)).split())
    return whole if len(whole) <= _TITLE else whole[: _TITLE - 1] + "…"


def _tokens(written: GenerationExplanation) -> list[dict[str, Any]]:
    """Each token as it stands in the text, with the white space before it; of sound, what is padding behind it."""
    audio_input = written.front[1] if any(one.time is not None for one in written.positions) else 0
    result: list[dict[str, Any]] = []
    end = 0
    for position in written.positions:
        if written.text is None or position.start is None or position.end is None or position.special:
            gap, end = _before_special(written.text, end, position.token)
            result.append({"text": position.token, "gap": gap if result else "", "special": position.special})
            if position.special and position.index < audio_input:
                result[-1]["padding"] = True
            continue
        piece = written.text[max(end, position.start) : position.end]
        inked = piece.lstrip()
        space = piece[: len(piece) - len(inked)] if inked else ""
        # A token that is white space alone, or some bytes of a character that another shows, is named.
        named = {"text": inked or piece or position.token, "special": not (inked or piece)}
        result.append({"gap": written.text[end : position.start] + space, **named})
        end = max(end, position.end)
    return result


def _before_special(text: str | None, end: int, token: str) -> tuple[str, int]:
    """What stands before a special token, and where it ends: a template writes it into the text, others do not."""
    if text is None:
        return " ", end
    start = text.find(token, end)
    return (text[end:start], start + len(token)) if start >= 0 and not text[end:start].strip() else (" ", end)


def _remarks(written: GenerationExplanation) -> dict[str, list[str]]:
    """Name → what is to be said of each token's row."""
    steps = [written.step(number) for number in range(len(written))]
    return {name: [line(step.remarks(name)) for step in steps] for name in written.methods}


def _answer(written: GenerationExplanation, step: int) -> dict[str, Any]:
    prediction = written.predictions[step]
    others = [[label, share] for label, share in written.alternatives(step)][:_ALTERNATIVES]
    told = ("label", "probability", "predicted", "certainty")
    return {**{name: getattr(prediction, name) for name in told}, "others": others}
