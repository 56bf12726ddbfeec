"""Explained audio: its spectrum, plots over time, and tables of its strongest segments, or of an image's patches."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from attnx.adapters import Audio, Position, Word
from attnx.results import Explanation, chosen_method, layered_method
from attnx.views.escaping import printable
from attnx.views.plots import VERBATIM, axes_or_new, figure_caption, without_frame
from attnx.views.terminal import AGAINST, FOR, colour_map
from attnx.views.text import answered, bar_lines, judgement, notes, row_name, sequence_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = np.ndarray[Any, np.dtype[Any]]

_WINDOW, _HOP = 0.025, 0.01
"""Seconds of a window, and from one column to the next."""
_RANGE = 60.0
"""Decibels from the loudest to black."""


def spectrum(audio: Audio, rows: int = 96) -> Array:
    """row × column from 0 to 1, the lowest pitch first."""
    window, hop = max(8, round(_WINDOW * audio.rate)), max(1, round(_HOP * audio.rate))
    samples = np.pad(audio.samples.astype(np.float64), (window // 2, window))
    starts = np.arange(0, max(1, len(audio.samples)), hop)
    frames = np.stack([samples[start : start + window] for start in starts]) * np.hanning(window)
    power = np.abs(np.fft.rfft(frames, n=max(window, 4 * rows))) ** 2
    frequencies = np.linspace(0, audio.rate / 2, power.shape[1])
    edges = np.searchsorted(_mel(frequencies), np.linspace(0, _mel(audio.rate / 2), rows + 1))
    bands = [power[:, low : max(high, low + 1)].mean(1) for low, high in pairwise(edges)]
    loudness = 10 * np.log10(np.stack(bands) + 1e-12)
    shades: Array = np.clip(1 + (loudness - loudness.max()) / _RANGE, 0, 1)
    return shades


def _mel(hertz: Any) -> Any:
    return 1127 * np.log1p(np.asarray(hertz) / 700)


_WIDTH, _STRIP = 8.0, 0.8
"""Inches of a figure, and of one strip in it."""
_GRAY = "#8b8e96"


def plot_sound(
    explanation: Explanation,
    method: str | None = None,
    layer: int | None = None,
    *,
    head: int | None = None,
    ax: Axes | None = None,
) -> Axes | Figure:
    """One row over the audio in some axes; without method and axes a strip for every method."""
    if method is None and ax is None:
        return time_strips(explanation, layer=layer, head=head)
    name = chosen_method(explanation, method, layer, head)
    axes = axes_or_new(ax, _WIDTH, 2.4)
    _draw_sound(axes, explanation)
    _shade(axes, explanation, explanation.scores(name, layer, head))
    title = answered(explanation) + row_name(explanation, name, layer, head)
    axes.set_title(title, fontsize=9, loc="left", **VERBATIM)
    axes.set_xlabel("seconds", fontsize=8)
    return axes


def time_strips(
    explanation: Explanation,
    methods: Sequence[str] | None = None,
    layer: int | None = None,
    *,
    head: int | None = None,
) -> Figure:
    """The audio, and below it a strip for each method on its own scale; blue opposes the target."""
    from matplotlib.figure import Figure

    names = list(explanation.methods) if methods is None else list(methods)
    figure = Figure(figsize=(_WIDTH, 1.6 + (_STRIP + 0.3) * len(names)), layout="constrained")
    top, *strips = figure.subplots(len(names) + 1, 1, sharex=True, height_ratios=[1.4, *[1] * len(names)])
    _draw_sound(top, explanation)
    top.set_title(str(explanation.prediction or "audio"), fontsize=9, loc="left", **VERBATIM)
    for axes, name in zip(strips, names, strict=True):
        scores = explanation.scores(name, layer, head)
        _draw_row(axes, explanation, scores)
        most = np.abs(sums(explanation, scores)).max(initial=0.0)
        what = row_name(explanation, name, layer, head)
        axes.set_title(f"{what} · largest {most:.2g}", fontsize=8, loc="left", **VERBATIM)
    (strips[-1] if strips else top).set_xlabel("seconds", fontsize=8)
    figure_caption(figure, judgement(explanation, explanation.methods[0], None))
    return figure


def plot_sound_layers(explanation: Explanation, method: str | None = None, *, head: int | None = None) -> Figure:
    """One method at every layer over time, the last on top, on one scale."""
    from matplotlib.figure import Figure

    name = layered_method(explanation, method)
    rows = np.stack([sums(explanation, explanation.scores(name, layer, head)) for layer in explanation.layers])
    figure = Figure(figsize=(_WIDTH, 1.8 + 0.3 * len(rows)), layout="constrained")
    top, below = figure.subplots(2, 1, sharex=True, height_ratios=[1, 0.3 * len(rows)])
    _draw_sound(top, explanation)
    signed = explanation.attributions[name].signed
    most = np.abs(rows).max(initial=0.0) or 1.0
    edges = times(explanation)
    mesh = below.pcolormesh([edges[0][0], *[end for _, end in edges]], np.arange(len(rows) + 1) + 0.5, rows,
                            cmap=colour_map(signed=signed), vmin=-most if signed else 0, vmax=most)  # fmt: skip
    below.set_yticks(range(1, len(rows) + 1), [str(layer) for layer in explanation.layers], fontsize=8)
    below.set_ylabel("layer", fontsize=8)
    below.set_xlabel("seconds", fontsize=8)
    top.set_title(f"{name}, layer by layer", fontsize=9, loc="left", **VERBATIM)
    figure.colorbar(mesh, ax=below, fraction=0.03, pad=0.02)
    return figure


def times(explanation: Explanation) -> list[tuple[float, float]]:
    """Start and end of each segment in seconds."""
    times = (explanation.positions.when(word.positions) for word in explanation.time_segments)
    return [time for time in times if time is not None]


def transcribed_words(explanation: Explanation) -> list[Word]:
    """The transcription: words that are neither segments nor pauses."""
    time_segments = {(word.text, word.positions) for word in explanation.time_segments}
    others = [word for word in explanation.words if (word.text, word.positions) not in time_segments]
    return [other for other in others if not (other.is_punctuation and explanation.positions.when(other.positions))]


def sums(explanation: Explanation, scores: Array) -> Array:
    """The score of each segment over all its bands."""
    return np.array([float(scores[list(word.positions)].sum()) for word in explanation.time_segments])


def _draw_sound(axes: Axes, explanation: Explanation) -> None:
    """The waveform, or the spectrum for a model with frequency bands."""
    audio = explanation.audio
    end = explanation.seconds or 1.0
    if audio is not None and banded(explanation):
        axes.imshow(spectrum(audio), aspect="auto", origin="lower", cmap="gray_r", extent=(0, audio.seconds, 0, 1))
    elif audio is not None:
        low, high = envelope(audio, 1_000)
        axes.fill_between(np.linspace(0, audio.seconds, len(low)), low, high, color=_GRAY, linewidth=0)
    axes.set_xlim(0, end)
    axes.set_yticks([])
    axes.tick_params(labelsize=8)
    without_frame(axes)
    _draw_words(axes, explanation)


def _draw_words(axes: Axes, explanation: Explanation) -> None:
    """The transcription of a frame-by-frame model, each word over its own time."""
    below = axes.get_xaxis_transform()
    for word in transcribed_words(explanation):
        when = explanation.positions.when(word.positions)
        if when is None:
            continue
        for edge in when:
            axes.axvline(edge, color=_GRAY, linewidth=0.6, linestyle=":")
        axes.text(sum(when) / 2, 0.02, printable(word.text), transform=below, ha="center", va="bottom", fontsize=8,
                  **VERBATIM)  # fmt: skip


def _shade(axes: Axes, explanation: Explanation, scores: Array) -> None:
    """Each position's box in the colour of its sign, denser for larger scores."""
    timed = [position for position in explanation.positions if position.time is not None]
    array = np.array([scores[position.index] for position in timed])
    most = np.abs(array).max(initial=0.0)
    channels = max((position.band[1] for position in timed if position.band is not None), default=1)
    for position, score in zip(timed, array, strict=True):
        if most > 0 and position.time is not None:
            low, high = (0, 1) if position.band is None else (position.band[0] / channels, position.band[1] / channels)
            alpha, colour = 0.75 * abs(score) / most, FOR if score >= 0 else AGAINST
            axes.axvspan(*position.time, low, high, color=colour, alpha=alpha, linewidth=0)


def _draw_row(axes: Axes, explanation: Explanation, scores: Array) -> None:
    array, edges = sums(explanation, scores), times(explanation)
    starts, widths = [start for start, _ in edges], [end - start for start, end in edges]
    axes.bar(
        starts, array, widths, align="edge", color=[FOR if score >= 0 else AGAINST for score in array], linewidth=0
    )
    axes.axhline(0, color=_GRAY, linewidth=0.6)
    axes.set_yticks([])
    axes.tick_params(labelsize=8)
    without_frame(axes)


def banded(explanation: Explanation) -> bool:
    return any(position.band is not None for position in explanation.positions)


def envelope(audio: Audio, columns: int) -> tuple[Array, Array]:
    """The lowest and the highest sample of each of so many parts."""
    parts = np.array_split(audio.samples, min(columns, len(audio.samples)))
    return np.array([part.min() for part in parts]), np.array([part.max() for part in parts])


def patch_table(explanation: Explanation, method: str | None = None, layer: int | None = None, count: int = 10) -> str:
    """A headline, and the strongest patches with their boxes, scores and bars."""
    name = chosen_method(explanation, method, layer)
    scores = explanation.scores(name, layer)
    patches = explanation.positions.named
    best = sorted(patches, key=lambda position: -abs(round(float(scores[position.index]), 9)))[:count]
    lines = _headline(explanation, name, layer)
    lines += [sequence_line(explanation, name, layer)] if explanation.sequences else []
    what = "patches" if explanation.text is None else "patches and tokens"
    lines.append(f"strongest {len(best)} of {len(patches)} {what}; r0c0 is at the top left, boxes are in pixels")
    labels = [f"{printable(position.token):<8}{place_text(position):<24}" for position in best]
    lines += bar_lines(labels, [float(scores[position.index]) for position in best], _precision(explanation, name))
    return "\n".join([*lines, *notes(explanation)])


def segment_table(
    explanation: Explanation, method: str | None = None, layer: int | None = None, count: int = 10
) -> str:
    """A headline, and the strongest segments with their times, scores and bars; then the transcription."""
    name = chosen_method(explanation, method, layer)
    scores = explanation.scores(name, layer)
    time_segments, transcription = explanation.time_segments, transcribed_words(explanation)
    sums = {word.positions: float(scores[list(word.positions)].sum()) for word in (*time_segments, *transcription)}
    best = sorted(time_segments, key=lambda word: -abs(round(sums[word.positions], 9)))[:count]
    lines = _headline(explanation, name, layer)
    lines.append(f"strongest {len(best)} of {len(time_segments)} segments, in seconds")
    shown = [*sorted(best, key=lambda word: word.index), *transcription]
    labels = [
        *(_time(explanation, word) for word in shown[: len(best)]),
        *(_time(explanation, word, f" {printable(word.text)}") or printable(word.text) for word in transcription),
    ]
    lines += bar_lines(labels, [sums[word.positions] for word in shown], _precision(explanation, name))
    return "\n".join([*lines, *notes(explanation)])


def _time(explanation: Explanation, word: Word, suffix: str = "") -> str:
    """Start and end; empty for a word without time."""
    when = explanation.positions.when(word.positions)
    return "" if when is None else f"{when[0]:7.3f} to {when[1]:7.3f}{suffix}"


def _headline(explanation: Explanation, name: str, layer: int | None) -> list[str]:
    at = (
        ""
        if explanation.attributions[name].layers is None
        else f" at layer {explanation.layers[-1] if layer is None else layer}"
    )
    averaged = explanation.provenance.get("input", {}).get("averaged", False)
    token = printable(explanation.positions[explanation.position].token)
    whose = explanation.explained if averaged else f"explained position {explanation.position} {token}"
    return [f"{answered(explanation)}{name}{at} · {whose}", judgement(explanation, name, layer)]


def _precision(explanation: Explanation, name: str) -> int | None:
    return explanation.attributions[name].precision


def place_text(position: Position) -> str:
    """The box of a patch in the image, or where else the position is."""
    if position.box is None:
        return "not in the image" if position.start is None else "in the text"
    return "{:.0f}, {:.0f} to {:.0f}, {:.0f}".format(*position.box)
