"""What all sections of a page know of a result: plain values, ready for JSON, reduced where they are many."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from attnx.attention.naming import level_name
from attnx.inputs.positions import Position
from attnx.render.page.reduction import MAP_BYTES, kept_edges, kept_layers, packed, share_of_strongest, strongest
from attnx.render.time_strip import written_words
from attnx.results.alignment import extent_of
from attnx.results.explanation import Explanation
from attnx.results.result import Array

_TITLE = 80
_BYTES_A_NUMBER, _BYTES_A_PACKED = 12, 5.4


def content(explanations: Sequence[Explanation]) -> list[dict[str, Any]]:
    """What the scripts of the page read of each result."""
    return [_result(one, len(explanations)) for one in explanations]


def _result(explanation: Explanation, results: int) -> dict[str, Any]:
    heads = max(scores.shape[1] if scores.ndim == 3 else 0 for scores in explanation.relevance.values())
    length, count = len(explanation.positions), len(explanation.layers)
    numbers = length * len(explanation.methods)
    kept = kept_layers(count, numbers * (_BYTES_A_NUMBER + heads * _BYTES_A_PACKED), results)
    layers = [explanation.layers[index] for index in kept]
    notes = list(explanation.notes)
    if len(kept) < count:
        notes.append(f"{len(kept)} of {count} layers are in this page: {', '.join(map(str, layers))}")
    maps = _maps(explanation, kept, results, notes)
    if explanation.image_size is not None and explanation.image is None:
        notes.append("the picture is not in this page: files do not keep it; explain it again to see it")
    if explanation.seconds is not None and explanation.sound is None:
        notes.append("the sound is not in this page: files do not keep it; explain it again to see its wave")
    return {
        "title": _title(explanation),
        "verdict": explanation._verdict(keywords=False),
        "explained": explanation.explained,
        "position": explanation.position,
        "positions": _positions(explanation),
        "words": _words(explanation),
        "layers": layers,
        "levels": _levels(explanation, layers),
        "first": explanation.row_name(),
        "method": explanation.default_method,
        "relevance": {
            name: [_rounded(explanation.scores(name, layer)) for layer in layers] for name in explanation.methods
        },
        "heads": None if not heads else _heads(explanation, kept, heads),
        "maps": maps,
        "prediction": _prediction(explanation),
        "references": {name: [float(one) for one in scores] for name, scores in explanation.references.items()},
        "causal": explanation.causal,
        "signed": sorted(explanation.signed),
        "digits": dict(explanation.digits),
        "local": sorted(explanation.local),
        "notes": notes,
    }


def _levels(explanation: Explanation, layers: Sequence[int]) -> list[str] | None:
    """What the layers of an encoder–decoder are called; None where they have numbers alone."""
    kinds = explanation.provenance.get("settings", {}).get("levels", ())
    return [level_name(kinds, layer) for layer in layers] if explanation.streams and kinds else None


def _title(explanation: Explanation) -> str:
    if explanation.image_size is not None and explanation.text is None:
        return "image of {} × {} pixels".format(*explanation.image_size)
    if explanation.seconds is not None:
        written = " ".join(one.text for one in written_words(explanation))
        return f"sound of {explanation.seconds:.2f} s{f': {written}' if written else ''}"
    whole = " ".join((explanation.title or " ".join(one.text for one in explanation.words)).split())
    return whole if len(whole) <= _TITLE else whole[: _TITLE - 1] + "…"


def _positions(explanation: Explanation) -> list[dict[str, Any]]:
    return [
        {"token": one.token, "label": _label(one, explanation.texts), "special": one.special, "word": one.word}
        | ({} if one.time is None else {"timed": True})
        for one in explanation.positions
    ]


def _label(position: Position, texts: Sequence[str]) -> str:
    """The slice of the text, which may be all white space; the tokenizer's name where there is none."""
    piece = position.piece(texts)
    return piece.strip() or piece or position.token


def _words(explanation: Explanation) -> list[dict[str, Any]]:
    """Each word with what stands between it and the word before, so that the text reads as it was written."""
    words: list[dict[str, Any]] = []
    stretches = {(one.text, one.positions) for one in explanation.stretches}
    segment, end = 0, 0
    for word in explanation.words:
        gap = " " if words else ""
        if word.segment != segment:
            segment, end, gap = word.segment, 0, "\n\n"
        span = extent_of(explanation, word)
        if span is not None:
            gap = gap if gap == "\n\n" else explanation.texts[word.segment][end : span.start]
            end = max(end, span.end)
        mark = {"punctuation": True} if word.is_punctuation else {}
        mark |= {"timed": True} if (word.text, word.positions) in stretches else {}
        words.append({"text": word.text, "gap": gap, "positions": list(word.positions), **mark})
    return words


def _heads(explanation: Explanation, kept: list[int], heads: int) -> dict[str, Any]:
    each = {name: scores[kept] for name, scores in explanation.relevance.items() if scores.ndim == 3}
    return {"count": heads, "relevance": {name: packed(scores, "<f4") for name, scores in each.items()}}


def _maps(explanation: Explanation, kept: list[int], results: int, notes: list[str]) -> dict[str, Any] | None:
    if not explanation.maps:
        return None
    # Where every head was kept, a row that is clicked on is their mean.
    maps = {name: (one.mean(1) if one.ndim == 4 else one)[kept] for name, one in explanation.maps.items()}
    length = len(explanation.positions)
    edges = kept_edges(len(maps) * len(kept) * length, length, MAP_BYTES / results)
    if edges == 0:
        notes.append("the page has no room for the rows of all positions; give a page to fewer results")
        return None
    if edges < length:
        share = np.mean([share_of_strongest(scores, edges) for scores in maps.values()])
        notes.append(
            f"of each row but the explained one the {edges} strongest of {length} weights are in this page: "
            f"{share:.0%} of the whole"
        )
    return {"edges": edges, "relevance": {name: strongest(scores, edges) for name, scores in maps.items()}}


def _prediction(explanation: Explanation) -> dict[str, Any] | None:
    answer = explanation.prediction
    if answer is None:
        return None
    told = ("kind", "noun", "predicted", "certainty", "label", "probability", "against")
    return {name: getattr(answer, name) for name in told}


def _rounded(scores: Array) -> list[float]:
    """To the 1e-9 to which flow is exact and at which ties are told."""
    return [float(one) for one in np.round(scores, 9) + 0.0]
