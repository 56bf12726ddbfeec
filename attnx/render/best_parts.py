"""The best parts of what is no text, as plain text: patches of an image, stretches of a sound."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len, set_cell_size

from attnx.inputs.positions import Position, Word
from attnx.render.digits import places, written
from attnx.render.plain_text import AGAINST_BAR, BAR, FOR_BAR, answered, judgement, notes, streams_line
from attnx.render.printable import printable
from attnx.render.time_strip import written_words
from attnx.results.explanation import Explanation

_TIMED = 18
"""Letters of a time from and to."""


def patch_table(explanation: Explanation, method: str | None = None, layer: int | None = None, count: int = 10) -> str:
    """A headline, and the best patches with their place in the image, their score and a bar."""
    name = explanation.row_name(method, layer)
    scores = explanation.scores(name, layer)
    patches = explanation.positions.named
    best = sorted(patches, key=lambda one: -abs(round(float(scores[one.index]), 9)))[:count]
    lines = _headline(explanation, name, layer)
    lines += [streams_line(explanation, name, layer)] if explanation.streams else []
    what = "patches" if explanation.text is None else "patches and tokens"
    lines.append(f"best {len(best)} of {len(patches)} {what}; r0c0 is at the top left, places are in pixels")
    named = [f"{printable(one.token):<8}{place_text(one):<26}" for one in best]
    lines += _bars(explanation, name, named, [float(scores[one.index]) for one in best])
    return "\n".join([*lines, *notes(explanation)])


def stretch_table(
    explanation: Explanation, method: str | None = None, layer: int | None = None, count: int = 10
) -> str:
    """A headline, and the best stretches with when they begin and end, their score and a bar; then what was written."""
    name = explanation.row_name(method, layer)
    scores = explanation.scores(name, layer)
    stretches, written_down = explanation.stretches, written_words(explanation)
    sums = {one.positions: float(scores[list(one.positions)].sum()) for one in (*stretches, *written_down)}
    best = sorted(stretches, key=lambda one: -abs(round(sums[one.positions], 9)))[:count]
    lines = _headline(explanation, name, layer)
    lines.append(f"best {len(best)} of {len(stretches)} stretches of time, in seconds")
    shown = [*sorted(best, key=lambda one: one.index), *written_down]
    named = [
        *(_time(explanation, one) for one in shown[: len(best)]),
        *(_time(explanation, one, f" {printable(one.text)}") or printable(one.text) for one in written_down),
    ]
    widest = max(_TIMED, *map(cell_len, named))
    named = [set_cell_size(one, widest) for one in named]
    lines += _bars(explanation, name, named, [sums[one.positions] for one in shown])
    return "\n".join([*lines, *notes(explanation)])


def _time(explanation: Explanation, word: Word, behind: str = "") -> str:
    """From and to, with a name behind it; empty for what has no time."""
    when = explanation.positions.when(word.positions)
    return "" if when is None else f"{when[0]:7.3f} to {when[1]:7.3f}{behind}"


def _headline(explanation: Explanation, name: str, layer: int | None) -> list[str]:
    at = "" if name in explanation.references else f" at layer {explanation.layers[-1] if layer is None else layer}"
    averaged = explanation.provenance.get("input", {}).get("averaged", False)
    token = printable(explanation.positions[explanation.position].token)
    whose = explanation.explained if averaged else f"explained position {explanation.position} {token}"
    return [f"{answered(explanation)}{name}{at} · {whose}", judgement(explanation, name, layer)]


def _bars(explanation: Explanation, name: str, named: Sequence[str], scores: Sequence[float]) -> list[str]:
    """A line each; the longest bar is that of the largest score, of another kind where it speaks against."""
    most = max(map(abs, scores), default=0.0)
    decimals = places(scores, explanation.digits.get(name))
    bars = [
        (FOR_BAR if score >= 0 else AGAINST_BAR) * round(BAR * abs(score) / most) if most > 0 else ""
        for score in scores
    ]
    return [
        f"{what}{written(score, decimals):>8}  {bar}".rstrip()
        for what, score, bar in zip(named, scores, bars, strict=True)
    ]


def place_text(position: Position) -> str:
    """The box of a patch in the picture; of what has none, where it is."""
    if position.box is None:
        return "not in the image" if position.start is None else "in the text"
    return "{:.0f}, {:.0f} to {:.0f}, {:.0f}".format(*position.box)
