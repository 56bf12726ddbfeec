"""The task of `explain_dataset`: explanations as rows of a table, and back.

What people filter and plot has a column: text, prediction, tokens, words, the scores of each method. All else is in the
column `facts`, of which a row stores only what differs from the first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

import numpy as np

from attnx.adapters import Word
from attnx.errors import AttnxError, FileFormatError
from attnx.methods import PAPER_METHODS
from attnx.pipeline import Choices, Request
from attnx.results import Attribution, Explanation, layered, plain, unlayered
from attnx.results import storage as schema
from attnx.runs.folder import as_setting
from attnx.runs.sources import DataRow
from attnx.runs.task import FACTS, Cells, DatasetTask, Layout, RowCallback, cells_of, unique_columns

_PREDICTION = {
    "label": "text",
    "kind": "text",
    "index": "whole",
    "probability": "number",
    "labels": "texts",
    "logits": "numbers",
}
_POSITION = {
    "tokens": ("token", "texts"),
    "special": ("special", "flags"),
    "starts": ("start", "wholes"),
    "ends": ("end", "wholes"),
    "segments": ("segment", "wholes"),
    "word": ("word", "wholes"),
}
"""Column → the field of a position, and the kind of the column."""
_IMAGE = {"boxes": "grid", "width": "whole", "height": "whole"}
_SCORES = ("scores", "layers", "diagnostics", "matrices")
"""Fields of an attribution that are in columns, or in none."""
_DIGITS = 18
"""Of the number of a class; Python refuses to read numbers of thousands of digits."""


def column(name: str, layer: int, layers: Sequence[int]) -> str:
    """The column of a method, or of its diagnostic."""
    return name if len(layers) == 1 else f"{name}@{layer}"


@dataclass(frozen=True)
class ExplanationTask(DatasetTask[Request]):
    """Explanations with these options of `explain`."""

    name: ClassVar[str] = "explanations"
    merge_equal: ClassVar[bool] = True
    options: Mapping[str, Any] = field(default_factory=dict)

    def settings(self) -> dict[str, Any]:
        return {name: as_setting(value) for name, value in sorted(self.options.items()) if value is not None}

    def check(self, model: Any) -> None:
        Choices.of(model, **self.options)

    def read(self, model: Any, processor: Any, data: Any) -> Sequence[Request]:
        return Choices.of(model, **self.options).requests(processor, data)[0]

    def cells(
        self, model: Any, processor: Any, things: Sequence[Request], tick: RowCallback, progress: bool
    ) -> Sequence[Cells]:
        rows: dict[int, Cells] = {}
        for number, explanation in Choices.of(model, **self.options).call(processor, things).explanations():
            rows[number] = explanation_cells(explanation)
            tick()
        return [rows[number] for number in range(len(things))]

    def columns(self, model: Any, rows: Sequence[Cells]) -> dict[str, str]:
        facts, choices = rows[0][FACTS], Choices.of(model, **self.options)
        methods, layers = choices.settings.methods, facts["layers"]
        names = PAPER_METHODS if methods is None else [method.name for method in methods]
        diagnostics = {
            f"{name}_{kind}": "number"
            for name in names
            for row in rows
            for kind in row[FACTS]["diagnostics"].get(name, ())
        }
        by_layer = {**dict.fromkeys(names, "numbers"), **diagnostics, **({"sink": "number"} if facts["causal"] else {})}
        return unique_columns(
            [
                *dict.fromkeys(("text", "pair", "gold"), "text").items(),
                *_PREDICTION.items(),
                *[("right", "flag"), ("position", "whole")],
                *((name, kind) for name, (_, kind) in _POSITION.items()),
                ("words", "texts"),
                *((column(name, layer, layers), kind) for name, kind in by_layer.items() for layer in layers),
                *((name, "numbers") for name in choices.references),
                *(_IMAGE.items() if "width" in rows[0] else ()),
                *[("notes", "texts"), (FACTS, "json")],
            ]
        )

    def stored(self, row: DataRow, cells: Cells | None, columns: Mapping[str, str]) -> Cells:
        texts = row.input if isinstance(row.input, tuple) else (row.input,)
        text, pair = (text if isinstance(text, str) and _is_utf8(text) else None for text in (*texts, None)[:2])
        known = {"text": text, "pair": pair, "gold": row.gold}
        if cells is None:
            return known
        more = {name: value for name, value in cells.items() if name not in columns}
        if more:
            cells = {**cells, FACTS: {**cells[FACTS], "more": plain(more)}}
        return {**known, **cells, "right": is_right(row.gold, cells)}


def explanation_cells(explanation: Explanation) -> Cells:
    """All of an explanation that counts for equality."""
    rest = {field.name: getattr(explanation, field.name) for field in fields(explanation) if field.compare}
    positions, words, prediction = rest.pop("positions"), rest.pop("words"), rest.pop("prediction")
    layers, sink, size = explanation.layers, rest.pop("sink"), rest["image_size"]
    attributions: Mapping[str, Attribution] = rest.pop("attributions")
    diagnostics = {
        name: {kind: values for kind, values in scores.diagnostics.items() if kind not in scores.facts}
        for name, scores in attributions.items()
    }
    cells: Cells = {
        **dict(zip(("text", "pair"), explanation.texts, strict=False)),
        **{name: getattr(prediction, name, None) for name in _PREDICTION},
        **{name: [getattr(position, field) for position in positions] for name, (field, _) in _POSITION.items()},
        "position": rest.pop("position"),
        "words": [word.text for word in words],
        "notes": list(rest.pop("notes")),
        **{name: explanation[name] for name in unlayered(explanation)},
    }
    if size is not None:
        cells |= {"boxes": [position.box for position in positions], "width": size[0], "height": size[1]}
    for row, layer in enumerate(layers):
        cells |= {column(name, layer, layers): explanation[name][row] for name in layered(explanation)}
        cells |= {
            column(f"{name}_{kind}", layer, layers): numbers[row]
            for name, by_kind in diagnostics.items()
            for kind, numbers in by_kind.items()
        }
        cells |= {} if sink is None else {column("sink", layer, layers): sink[row]}
    rest |= {
        "layers": layers,
        "attributions": {
            name: {
                **{field.name: getattr(scores, field.name) for field in fields(scores) if field.name not in _SCORES},
                "layered": scores.layers is not None,
                "facts": scores.facts,
            }
            for name, scores in attributions.items()
        },
        "diagnostics": {name: list(by_kind) for name, by_kind in diagnostics.items() if by_kind},
        "has_sink": sink is not None,
        "texts": len(explanation.texts),
    }
    if prediction is not None:
        rest["prediction"] = {
            field.name: getattr(prediction, field.name) for field in fields(prediction) if field.name not in _PREDICTION
        }
    if list(words) != _words(cells, Word):
        rest["words"] = words
    for name in ("time", "band"):
        if any(getattr(position, name) for position in positions):
            rest[f"position {name}"] = [getattr(position, name) for position in positions]
    return {**cells, FACTS: plain({name: value for name, value in rest.items() if name != "text"})}


def explanation_of(row: Mapping[str, Any], layout: Layout) -> Explanation:
    """The explanation that a row without an error holds; it is checked as one from a file is."""
    try:
        cells = cells_of(row, layout)
        facts = cells.pop(FACTS)
        return Explanation.from_dict(_fields({**cells, **facts.pop("more", {})}, facts))
    except Exception as error:  # whatever cells that were tampered with can lead to
        reason = str(error) if isinstance(error, AttnxError) else schema.one_line(error)
        raise FileFormatError(f"row {row.get('row')} of the run is not what attnx wrote: {reason}") from error


def _fields(cells: Cells, facts: dict[str, Any]) -> dict[str, Any]:
    """Those of an explanation, as `Explanation.to_dict` has them."""
    layers = facts["layers"]
    columns = [cells[name] for name in _POSITION]
    count = len(columns[0])
    by_name = {field: values for (field, _), values in zip(_POSITION.values(), columns, strict=True)}
    by_name |= {"box": cells["boxes"] if facts["image_size"] is not None else [None] * count}
    by_name |= {name: facts.pop(f"position {name}", [None] * count) for name in ("time", "band")}
    prediction, has_sink = facts.pop("prediction", None), facts.pop("has_sink")
    texts = [cells[name] for name in ("text", "pair")][: facts.pop("texts")]

    def by_layer(name: str) -> list[Any]:
        return [cells[column(name, layer, layers)] for layer in layers]

    def attribution(name: str, known: Mapping[str, Any]) -> dict[str, Any]:
        kinds = by_kind.get(name, ())
        return {
            **{key: value for key, value in known.items() if key not in ("layered", "facts")},
            "scores": np.array(by_layer(name) if known["layered"] else cells[name], dtype=np.float64),
            "layers": layers if known["layered"] else None,
            "diagnostics": {**{kind: by_layer(f"{name}_{kind}") for kind in kinds}, **known["facts"]},
            "matrices": None,
        }

    by_kind, attributions = facts.pop("diagnostics"), facts.pop("attributions")
    return {
        **{name: value for name, value in facts.items() if name != "layers"},
        "positions": [
            {"index": index, **dict(zip(by_name, values, strict=True))}
            for index, values in enumerate(zip(*by_name.values(), strict=True))
        ],
        "words": facts.get("words") or _words(cells, dict),
        "position": cells["position"],
        "attributions": {name: attribution(name, known) for name, known in attributions.items()},
        "text": None if not texts else texts[0] if len(texts) == 1 else texts,
        "prediction": None if prediction is None else {**prediction, **{name: cells[name] for name in _PREDICTION}},
        "sink": by_layer("sink") if has_sink else None,
        "notes": cells["notes"],
    }


def _words(cells: Cells, kind: Any) -> list[Any]:
    """The words whose positions say so themselves; nearly all are."""
    positions: list[list[int]] = [[] for _ in cells["words"]]
    for index, word in enumerate(cells["word"]):
        if word is not None:
            positions[word].append(index)
    segments = [cells["segments"][indices[0] if indices else 0] for indices in positions]
    return [
        kind(index=index, text=text, positions=tuple(indices), segment=segment)
        for index, (text, indices, segment) in enumerate(zip(cells["words"], positions, segments, strict=True))
    ]


def is_right(gold: str | None, cells: Mapping[str, Any]) -> bool | None:
    """Whether the data's label is the prediction, by its name in any case or by its number; None where neither fits.

    The column `label` has the target, which a caller may have chosen.
    """
    labels, logits = cells.get("labels"), cells.get("logits")
    if gold is None or labels is None or logits is None or cells.get("kind") != "class":
        return None
    names, predicted = [label.casefold() for label in labels], int(np.argmax(logits))
    if gold.casefold() in names:
        return bool(gold.casefold() == names[predicted])
    if gold.isdecimal() and len(gold) <= _DIGITS and int(gold) < len(names):
        return int(gold) == predicted
    return None


def _is_utf8(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)
