"""The patches that matter most, as lines of text: hundreds of them would say nothing one by one."""

from __future__ import annotations

from attnx.explanation import Explanation


def patch_table(explanation: Explanation, method: str | None = None, layer: int | None = None, count: int = 10) -> str:
    """A headline, and the best patches with their place in the image, their score and a bar."""
    name = method or explanation.default_method
    scores = explanation.scores(name, layer)
    patches = [one for one in explanation.positions if not one.special]
    best = sorted(patches, key=lambda one: -abs(round(float(scores[one.index]), 9)))[:count]
    most = max((abs(float(scores[one.index])) for one in best), default=0.0)
    at = "" if name in explanation.references else f" at layer {explanation.layers[-1] if layer is None else layer}"
    answer = f"prediction: {explanation.prediction} · " if explanation.prediction else ""
    explained = explanation.positions[explanation.position].token
    lines = [f"{answer}{name}{at} · explained position {explanation.position} {explained}"]
    lines.append(f"best {len(best)} of {len(patches)} patches; r0c0 is at the top left, places are in pixels")
    for one in best:
        place = "not in the image" if one.box is None else "{:.0f}, {:.0f} to {:.0f}, {:.0f}".format(*one.box)
        score = float(scores[one.index])
        bar = "█" * round(24 * abs(score) / most) if most > 0 else ""
        lines.append(f"{one.token:<8}{place:<26}{score:>8.4f}  {bar}".rstrip())
    return "\n".join(lines)
