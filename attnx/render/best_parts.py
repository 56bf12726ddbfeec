"""The best parts of what is no text, as plain text: patches of an image, stretches of a sound."""

from __future__ import annotations

from collections.abc import Sequence

from attnx.inputs.positions import Position
from attnx.render.digits import places, written
from attnx.render.plain_text import AGAINST_BAR, BAR, FOR_BAR, answered, judgement, notes, streams_line
from attnx.render.printable import printable
from attnx.results.explanation import Explanation


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
    sums = {word.index: float(scores[list(word.positions)].sum()) for word in explanation.words}
    stretches = explanation.stretches
    best = sorted(stretches, key=lambda one: -abs(round(sums[one.index], 9)))[:count]
    written_words = [one for one in explanation.words if one not in stretches]
    lines = _headline(explanation, name, layer)
    lines.append(f"best {len(best)} of {len(stretches)} stretches of time, in seconds")
    shown = [*sorted(best, key=lambda one: one.index), *written_words]
    times = [explanation.positions[word.positions[0]].time for word in shown]
    named = [
        f"{printable(word.text):<18}" if time is None else f"{time[0]:7.3f} to {time[1]:7.3f}"
        for word, time in zip(shown, times, strict=True)
    ]
    lines += _bars(explanation, name, named, [sums[one.index] for one in shown])
    return "\n".join([*lines, *notes(explanation)])


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
