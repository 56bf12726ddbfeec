"""An explanation as a row of a table, and back: what comes out equals what went in."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

import numpy as np

from attnx.answer.prediction import Prediction
from attnx.data.layout import Layout
from attnx.data.row import DataRow
from attnx.errors import AttnxError, FileFormatError
from attnx.inputs.positions import Position, Positions, Span, Word, group_words
from attnx.results import fit, schema
from attnx.results.explanation import Explanation
from attnx.results.storage import plain

_FACTS = ("signed", "local", "about_answer", "digits", "first", "causal")
"""Fields that are the same for nearly all rows: what a row has in common with the layout is not written again."""

_HEARD = ("time", "band")
"""Of the positions of a sound."""

_DIGITS = 18
"""Of the number of a class; Python refuses to read numbers of thousands of digits."""

_ANSWER = ("label", "kind", "index", "probability", "labels", "logits")
"""Columns of a prediction."""


def named_cells(row: DataRow, error: str | None = None) -> dict[str, Any]:
    """What is known of a row before it is explained; all other columns are null."""
    texts = row.given if isinstance(row.given, tuple) else (row.given,)
    text, pair = (one if isinstance(one, str) and _whole(one) else None for one in (*texts, None)[:2])
    told = {"row": row.number, "id": row.id, "sha256": row.sha256, "text": text, "pair": pair, "gold": row.gold}
    return told if error is None else {**told, "error": error}


def explained_cells(explanation: Explanation, layout: Layout) -> dict[str, Any]:
    """What was found out, for all rows that have this input."""
    positions, answer = explanation.positions, explanation.prediction
    cells: dict[str, Any] = {
        "position": explanation.position,
        "tokens": [one.token for one in positions],
        "special": [one.special for one in positions],
        "starts": [one.start for one in positions],
        "ends": [one.end for one in positions],
        "segments": [one.segment for one in positions],
        "notes": list(explanation.notes),
    }
    cells |= dict(zip(("text", "pair"), explanation.texts, strict=False))
    if answer is not None:
        cells |= {name: getattr(answer, name) for name in _ANSWER}
    for place, layer in enumerate(explanation.layers):
        cells |= {layout.column(name, layer): scores[place] for name, scores in explanation.relevance.items()}
        cells |= {
            layout.column(f"{name}_{kind}", layer): numbers[place]
            for name, found in explanation.diagnostics.items()
            for kind, numbers in found.items()
        }
        if layout.causal and explanation.sink is not None:
            cells[layout.column("sink", layer)] = explanation.sink[place]
    cells |= explanation.references
    if explanation.image_size is not None:
        cells["width"], cells["height"] = explanation.image_size
        cells["boxes"] = [None if one.box is None else list(one.box) for one in positions]
    extra = _extra(explanation, layout)
    return {**cells, "extra": json.dumps(extra, ensure_ascii=False) if extra else None}


def is_right(cells: Mapping[str, Any]) -> bool | None:
    """Whether the data's label is the prediction, by its name in any case or by its number; None where neither fits.

    The column `label` has the target, which a caller may have chosen.
    """
    gold, labels, logits = cells.get("gold"), cells.get("labels"), cells.get("logits")
    if gold is None or labels is None or logits is None or cells.get("kind") != "class":
        return None
    names, predicted = [one.casefold() for one in labels], int(np.argmax(logits))
    if gold.casefold() in names:
        return bool(gold.casefold() == names[predicted])
    if gold.isdecimal() and len(gold) <= _DIGITS and int(gold) < len(names):
        return bool(int(gold) == predicted)
    return None


def explanation_of(cells: Mapping[str, Any], layout: Layout) -> Explanation:
    """The explanation that a row without an error tells; it is checked as one from a file is."""
    try:
        made = _explanation(cells, layout)
        fit.check(made)
    except Exception as error:  # whatever cells that were tampered with can lead to
        said = str(error) if isinstance(error, AttnxError) else schema.one_line(error)
        raise FileFormatError(f"row {cells.get('row')} of the run is not what attnx wrote: {said}") from error
    return made


def _explanation(cells: Mapping[str, Any], layout: Layout) -> Explanation:
    extra = json.loads(cells["extra"]) if cells["extra"] else {}
    texts = tuple(one for one in (cells["text"], cells["pair"]) if one is not None)
    positions, words = _named(_positions(cells, extra), texts, extra)
    relevance = {
        name: np.array([cells[layout.column(name, layer)] for layer in layout.layers], dtype=np.float64)
        for name in layout.methods
        if cells[layout.column(name, layout.layers[0])] is not None
    }
    references = {name: np.array(cells[name]) for name in layout.references if cells[name] is not None}
    names = {*relevance, *references}
    facts = {**_facts(layout, names), **{name: extra[name] for name in _FACTS if name in extra}}
    return Explanation(
        positions=positions,
        words=words,
        position=cells["position"],
        layers=layout.layers,
        relevance=relevance,
        references=references,
        text=None if not texts else texts[0] if len(texts) == 1 else (texts[0], texts[1]),
        prediction=_prediction(cells, extra),
        diagnostics=_diagnostics(cells, layout, relevance, extra),
        spans=tuple(schema.read(Span, one) for one in extra.get("spans", ())),
        streams=extra.get("streams", {}),
        sink=tuple(extra["sink"]) if "sink" in extra else _sink(cells, layout),
        notes=tuple(cells["notes"]),
        provenance={name: value for name, value in layout.provenance.items() if name not in extra.get("without", ())}
        | extra.get("provenance", {}),
        image_size=(cells["width"], cells["height"]) if layout.images else None,
        signed=frozenset(facts["signed"]),
        local=frozenset(facts["local"]),
        about_answer=frozenset(facts["about_answer"]),
        digits=facts["digits"],
        first=facts["first"],
        causal=facts["causal"],
    )


def _extra(explanation: Explanation, layout: Layout) -> dict[str, Any]:
    """What the columns and the layout do not tell."""
    usual = _facts(layout, {*explanation.relevance, *explanation.references})
    own = plain({name: getattr(explanation, name) for name in _FACTS})
    extra = {name: own[name] for name in _FACTS if own[name] != plain(usual[name])}
    told = explanation.provenance
    provenance = {name: value for name, value in told.items() if layout.provenance.get(name) != value}
    without = [name for name in layout.provenance if name not in told]
    odd = {
        name: dict(found)
        for name, found in explanation.diagnostics.items()
        if not set(found) <= set(layout.diagnostics.get(name, ()))
    }
    positions, words = explanation.positions, explanation.words
    parts = {
        "provenance": provenance,
        "without": without,
        "diagnostics": odd,
        "prediction": _more(explanation),
        "spans": explanation.spans,
        "streams": explanation.streams,
        "sink": None if layout.causal else explanation.sink,
        "words": () if explanation.texts or group_words(positions, None)[1] == words else words,
        "heard": {name: numbers for name in _HEARD if any(numbers := [getattr(one, name) for one in positions])},
    }
    return extra | {name: plain(value) for name, value in parts.items() if value}


def _facts(layout: Layout, names: set[str]) -> dict[str, Any]:
    """What holds of a row with these methods and references, where it says nothing else."""
    return {
        **{name: frozenset(names & {*getattr(layout, name)}) for name in ("signed", "local", "about_answer")},
        "digits": {name: number for name, number in layout.digits.items() if name in names},
        "first": layout.first if layout.first in names else None,
        "causal": layout.causal,
    }


def _positions(cells: Mapping[str, Any], extra: Mapping[str, Any]) -> list[Position]:
    columns = [cells[name] for name in ("tokens", "special", "starts", "ends", "segments")]
    boxes = cells.get("boxes") or [None] * len(columns[0])
    heard = [extra.get("heard", {}).get(name, [None] * len(boxes)) for name in _HEARD]
    places = ([None if one is None else tuple(one) for one in column] for column in (boxes, *heard))
    return [
        Position(index, token, special, start, end, segment, box=box, time=time, band=band)
        for index, (token, special, start, end, segment, box, time, band) in enumerate(
            zip(*columns, *places, strict=True)
        )
    ]


def _named(
    positions: list[Position], texts: tuple[str, ...], extra: Mapping[str, Any]
) -> tuple[Positions, tuple[Word, ...]]:
    """Positions with their words: found in the text, or what stands for words where there is none."""
    if "words" not in extra:
        return group_words(positions, texts or None)
    words = tuple(schema.read(Word, one) for one in extra["words"])
    owner = {place: word.index for word in words for place in word.positions}
    return Positions(replace(one, word=owner.get(one.index)) for one in positions), words


def _more(explanation: Explanation) -> dict[str, Any]:
    """What a prediction tells beyond its columns, such as a rival, or where in the text it stands."""
    answer = explanation.prediction
    if answer is None:
        return {}
    told = {one.name: getattr(answer, one.name) for one in fields(answer) if one.name not in _ANSWER}
    return {name: value for name, value in told.items() if value not in (None, ())}


def _prediction(cells: Mapping[str, Any], extra: Mapping[str, Any]) -> Prediction | None:
    if cells["label"] is None:
        return None
    told = {**{name: cells[name] for name in _ANSWER}, **extra.get("prediction", {})}
    return schema.read(Prediction, told, older=True)  # what has a default is not written


def _diagnostics(
    cells: Mapping[str, Any], layout: Layout, methods: Mapping[str, Any], extra: Mapping[str, Any]
) -> dict[str, dict[str, tuple[float, ...]]]:
    found: dict[str, dict[str, tuple[float, ...]]] = {}
    for name in methods:
        for kind in layout.diagnostics.get(name, ()):
            numbers = [cells[layout.column(f"{name}_{kind}", layer)] for layer in layout.layers]
            if None not in numbers:
                found.setdefault(name, {})[kind] = tuple(numbers)
    odd = extra.get("diagnostics", {})
    return found | {name: {kind: tuple(numbers) for kind, numbers in of.items()} for name, of in odd.items()}


def _sink(cells: Mapping[str, Any], layout: Layout) -> tuple[float, ...] | None:
    numbers = [cells.get(layout.column("sink", layer)) for layer in layout.layers]
    return None if None in numbers else tuple(float(one) for one in numbers if one is not None)


def _whole(text: str) -> bool:
    """Whether it can be written as UTF-8."""
    return not any("\ud800" <= one <= "\udfff" for one in text)
