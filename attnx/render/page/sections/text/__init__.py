"""The answer, and the text as a heat map; of an image its picture under its scores, of sound its wave."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from attnx.render.page.plain import LEVELS, PlainWord, PlainWords
from attnx.render.page.sections.text.picture import picture
from attnx.render.page.sections.text.sounding import sounding
from attnx.render.page.shown import Shown
from attnx.results.explanation import Explanation

PLAIN_RESULTS = 50
"""So many are shown where no script runs."""


def data(shown: Shown) -> dict[str, Any] | None:
    """The pictures, and the streams; what else is shown here, all sections know."""
    if not shown.explanations:
        return None
    each = [
        {
            "picture": picture(one, len(shown.explanations)) or sounding(one, player=shown.player),
            **_streams(one, content["layers"]),
        }
        for one, content in zip(shown.explanations, shown.contents, strict=True)
    ]
    return {"results": each, "view": "content" if shown.content_only else "words"}


def _streams(explanation: Explanation, layers: list[int]) -> dict[str, Any]:
    """The source of an encoder–decoder, and where the residual alone sets how much is from it."""
    if "output" not in explanation.streams:
        return {"front": None, "split": {}}
    name, length = next(iter(explanation.streams.items()))
    chains = [method for method in explanation.methods if method not in explanation.local]
    split = {method: [explanation.split_by_residual(method, layer) for layer in layers] for method in chains}
    return {"front": {"name": name, "length": length}, "split": split}


def plain(page: dict[str, Any]) -> list[PlainWords]:
    """What is shown first, of a method its last layer, for each of the first results."""
    results = page["results"]
    shown = [plain_words(one) for one in results[:PLAIN_RESULTS]]
    if len(results) > PLAIN_RESULTS:
        more = f"{len(results) - PLAIN_RESULTS} more results are shown where scripts may run."
        shown[-1] = replace(shown[-1], notes=(*shown[-1].notes, more))
    return shown


def plain_words(result: dict[str, Any]) -> PlainWords:
    """One result without scripts."""
    first = result["first"]
    measured = first in result["references"]
    scores = result["references"][first] if measured else result["relevance"][first][-1]
    sums = [sum(scores[place] for place in word["positions"]) for word in result["words"]]
    most = max([0.0, *map(abs, sums)])
    words = tuple(
        PlainWord(
            word["text"],
            word["gap"],
            round(LEVELS * abs(score) / most) if most > 0 else 0,
            f"{score:.6f}",
            against=first in result["signed"] and score < 0,
        )
        for word, score in zip(result["words"], sums, strict=True)
    )
    answer = result["prediction"] or {"predicted": "", "certainty": None}
    last = result["layers"][-1]
    explained = f"explained position {result['position']} {result['explained']}"
    return PlainWords(
        label=answer["predicted"],
        probability=_percent(answer["certainty"]),
        target=_target(answer),
        headline=f"{first}{', measured on the model' if measured else f' at layer {last}'}, " + explained,
        verdict=result["verdict"],
        words=words,
        notes=tuple(result["notes"]),
    )


def _target(answer: dict[str, Any]) -> str:
    """What is explained, where the prediction alone is not."""
    label, against = answer.get("label", answer["predicted"]), answer.get("against")
    chosen = f"{label} {_percent(answer['probability'])}".strip() if label != answer["predicted"] else label
    if against is None:
        return chosen if label != answer["predicted"] else ""
    return f"{chosen} against {against}"


def _percent(probability: float | None) -> str:
    return "" if probability is None else f"{probability:.1%}"
