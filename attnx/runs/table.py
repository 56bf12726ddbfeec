"""A finished shard as a file: rows of cells become a table of Arrow, written as Parquet, and are read again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from io import BytesIO
from typing import Any

import numpy as np

from attnx.adapters import Position, Positions, Span, Word, group_words
from attnx.errors import AttnxError, FileFormatError, InputError
from attnx.results import Explanation, plain
from attnx.results import storage as fit
from attnx.results import storage as schema
from attnx.runs.folder import Part, Place, content_digest
from attnx.runs.question import PartAnswer
from attnx.runs.sources import DataRow, arrow, parquet, parquet_file
from attnx.targets import Prediction

FORMAT = 1
"""Of these columns. It rises when one changes its meaning; a new column is no change."""


@dataclass(frozen=True)
class Layout:
    """What the first rows of a run tell of all of them."""

    methods: tuple[str, ...]
    references: tuple[str, ...]
    layers: tuple[int, ...]
    diagnostics: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Method → the names of what tells how far to trust it."""
    signed: tuple[str, ...] = ()
    local: tuple[str, ...] = ()
    target_specific: tuple[str, ...] = ()
    digits: Mapping[str, int] = field(default_factory=dict)
    first: str | None = None
    causal: bool = False
    images: bool = False
    provenance: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, methods: Sequence[str], references: Sequence[str], seen: Sequence[Explanation]) -> Layout:
        """The layout of these explanations, and of others with the same settings."""
        first = seen[0]
        made = cls(
            methods=tuple(methods),
            references=tuple(references),
            layers=first.layers,
            diagnostics={
                name: tuple(
                    dict.fromkeys(kind for explanation in seen for kind in explanation.diagnostics.get(name, ()))
                )
                for name in methods
            },
            signed=_of_any(seen, "signed"),
            local=_of_any(seen, "local"),
            target_specific=_of_any(seen, "target_specific"),
            digits={name: number for explanation in seen for name, number in explanation.digits.items()},
            first=first.first,
            causal=first.causal,
            images=first.image_size is not None,
            provenance=first.provenance,
        )
        names = made.schema().names
        doubled = sorted({name for name in names if names.count(name) > 1})
        if doubled:
            raise InputError(f"a run has a column {doubled[0]!r} already; a method cannot be called so")
        return made

    @classmethod
    def from_dict(cls, told: Mapping[str, Any]) -> Layout:
        """As JSON has it, with lists for tuples; it may come from a folder that was tampered with."""
        try:
            made = schema.read(cls, told)
            names = made.schema().names
            if not made.layers or not (made.methods or made.references) or len({*names}) < len(names):
                raise FileFormatError("it has no layer, no method, or a column twice")
        except FileFormatError as error:
            raise FileFormatError(f"the layout of the run is not what attnx wrote: {error}") from error
        return made

    def column(self, name: str, layer: int) -> str:
        """What the column of a method, or of its diagnostic, is called."""
        return name if len(self.layers) == 1 else f"{name}@{layer}"

    def schema(self) -> Any:
        """Of Arrow."""
        pa = arrow()
        numbers, whole = pa.list_(pa.float64()), pa.list_(pa.int32())
        scores = [(self.column(name, layer), numbers) for name in self.methods for layer in self.layers]
        trust = [
            (self.column(f"{name}_{kind}", layer), pa.float64())
            for name, kinds in self.diagnostics.items()
            for kind in kinds
            for layer in self.layers
        ]
        sink = [(self.column("sink", layer), pa.float64()) for layer in self.layers] if self.causal else []
        images = [("boxes", pa.list_(numbers)), ("width", pa.int32()), ("height", pa.int32())] if self.images else []
        return pa.schema(
            [
                ("row", pa.int64()),
                ("id", pa.string()),
                ("sha256", pa.string()),
                ("text", pa.string()),
                ("pair", pa.string()),
                ("gold", pa.string()),
                ("label", pa.string()),
                ("right", pa.bool_()),
                ("kind", pa.string()),
                ("index", pa.int32()),
                ("probability", pa.float64()),
                ("labels", pa.list_(pa.string())),
                ("logits", numbers),
                ("position", pa.int32()),
                ("tokens", pa.list_(pa.string())),
                ("special", pa.list_(pa.bool_())),
                ("starts", whole),
                ("ends", whole),
                ("segments", whole),
                *scores,
                *((name, numbers) for name in self.references),
                *trust,
                *sink,
                *images,
                ("notes", pa.list_(pa.string())),
                ("extra", pa.string()),
                ("error", pa.string()),
            ]
        )


def _of_any(seen: Sequence[Explanation], field_name: str) -> tuple[str, ...]:
    return tuple(sorted({name for explanation in seen for name in getattr(explanation, field_name)}))


_FACTS = ("signed", "local", "target_specific", "digits", "first", "causal")
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
    text, pair = (text if isinstance(text, str) and _whole(text) else None for text in (*texts, None)[:2])
    told = {"row": row.number, "id": row.id, "sha256": row.sha256, "text": text, "pair": pair, "gold": row.gold}
    return told if error is None else {**told, "error": error}


def explained_cells(explanation: Explanation, layout: Layout) -> dict[str, Any]:
    """What was found out, for all rows that have this input."""
    positions, answer = explanation.positions, explanation.prediction
    cells: dict[str, Any] = {
        "position": explanation.position,
        "tokens": [position.token for position in positions],
        "special": [position.special for position in positions],
        "starts": [position.start for position in positions],
        "ends": [position.end for position in positions],
        "segments": [position.segment for position in positions],
        "notes": list(explanation.notes),
    }
    cells |= dict(zip(("text", "pair"), explanation.texts, strict=False))
    if answer is not None:
        cells |= {name: getattr(answer, name) for name in _ANSWER}
    for place, layer in enumerate(explanation.layers):
        cells |= {layout.column(name, layer): scores[place] for name, scores in explanation.relevance.items()}
        cells |= {
            layout.column(f"{name}_{kind}", layer): numbers[place]
            for name, diagnostic in explanation.diagnostics.items()
            for kind, numbers in diagnostic.items()
        }
        if layout.causal and explanation.sink is not None:
            cells[layout.column("sink", layer)] = explanation.sink[place]
    cells |= explanation.references
    if explanation.image_size is not None:
        cells["width"], cells["height"] = explanation.image_size
        cells["boxes"] = [None if position.box is None else list(position.box) for position in positions]
    extra = _extra(explanation, layout)
    return {**cells, "extra": json.dumps(extra, ensure_ascii=False) if extra else None}


def is_right(cells: Mapping[str, Any]) -> bool | None:
    """Whether the data's label is the prediction, by its name in any case or by its number; None where neither fits.

    The column `label` has the target, which a caller may have chosen.
    """
    gold, labels, logits = cells.get("gold"), cells.get("labels"), cells.get("logits")
    if gold is None or labels is None or logits is None or cells.get("kind") != "class":
        return None
    names, predicted = [label.casefold() for label in labels], int(np.argmax(logits))
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
        sequences=extra.get("sequences", {}),
        sink=tuple(extra["sink"]) if "sink" in extra else _sink(cells, layout),
        notes=tuple(cells["notes"]),
        provenance={name: value for name, value in layout.provenance.items() if name not in extra.get("without", ())}
        | extra.get("provenance", {}),
        image_size=(cells["width"], cells["height"]) if layout.images else None,
        signed=frozenset(facts["signed"]),
        local=frozenset(facts["local"]),
        target_specific=frozenset(facts["target_specific"]),
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
        name: dict(diagnostic)
        for name, diagnostic in explanation.diagnostics.items()
        if not set(diagnostic) <= set(layout.diagnostics.get(name, ()))
    }
    positions, words = explanation.positions, explanation.words
    parts = {
        "provenance": provenance,
        "without": without,
        "diagnostics": odd,
        "prediction": _more(explanation),
        "spans": explanation.spans,
        "sequences": explanation.sequences,
        "sink": None if layout.causal else explanation.sink,
        "words": () if explanation.texts or group_words(positions, None)[1] == words else words,
        "audio_input": {
            name: numbers for name in _HEARD if any(numbers := [getattr(position, name) for position in positions])
        },
    }
    return extra | {name: plain(value) for name, value in parts.items() if value}


def _facts(layout: Layout, names: set[str]) -> dict[str, Any]:
    """What holds of a row with these methods and references, where it says nothing else."""
    return {
        **{name: frozenset(names & {*getattr(layout, name)}) for name in ("signed", "local", "target_specific")},
        "digits": {name: number for name, number in layout.digits.items() if name in names},
        "first": layout.first if layout.first in names else None,
        "causal": layout.causal,
    }


def _positions(cells: Mapping[str, Any], extra: Mapping[str, Any]) -> list[Position]:
    columns = [cells[name] for name in ("tokens", "special", "starts", "ends", "segments")]
    boxes = cells.get("boxes") or [None] * len(columns[0])
    audio_input = [extra.get("audio_input", {}).get(name, [None] * len(boxes)) for name in _HEARD]
    places = ([None if one is None else tuple(one) for one in column] for column in (boxes, *audio_input))
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
    return Positions(replace(position, word=owner.get(position.index)) for position in positions), words


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
    return None if None in numbers else tuple(float(number) for number in numbers if number is not None)


def _whole(text: str) -> bool:
    """Whether it can be written as UTF-8."""
    return not any("\ud800" <= name <= "\udfff" for name in text)


def as_part(cells: Sequence[Mapping[str, Any]], schema: Any, told: Mapping[str, Any]) -> PartAnswer:
    """Rows with these columns; one that lacks a cell has nothing there. What is `told` of all is in the metadata."""
    pa, file = arrow(), BytesIO()
    whole = schema.with_metadata({"attnx": json.dumps(told)})
    columns = [pa.array([cell.get(name) for cell in cells], type=whole.field(name).type) for name in whole.names]
    table = pa.Table.from_arrays(columns, schema=whole)
    parquet().write_table(table, file, compression="zstd", write_page_checksum=True)
    failed = sum(cell.get("error") is not None for cell in cells)
    return PartAnswer(file.getvalue(), failed, len(cells), table.nbytes)


def intact(place: Place, part: Part) -> bool:
    """Whether the file is the one that was written under this name."""
    return content_digest(place.read(part.name)) == part.content


def read_part(
    place: Place, part: Part, shard_rows: int, *, schema: Any = None, columns: Sequence[str] | None = None
) -> Any:
    """The table of a part, all columns or these.

    It must be the file that was written, hold the rows that its name says, and have the columns of a given `schema`.
    """
    content = place.read(part.name)
    try:
        if content_digest(content) != part.content:
            raise ValueError("its content is not what was written")
        file = parquet_file(arrow().BufferReader(content))
        if schema is not None and not file.schema_arrow.equals(schema):
            raise ValueError("it has other columns than the run")
        names = file.schema_arrow.names if columns is None else list(columns)
        table = file.read(columns=list({"row": None, **dict.fromkeys(names)}), use_threads=False)
        table.validate(full=True)
        rows = table["row"].to_pylist()
        if len(rows) != part.rows or any(row is None or row // shard_rows != part.number for row in rows):
            raise ValueError("its rows are those of another part")
        return table.select(names)
    except (OSError, ValueError, KeyError) as error:
        raise FileFormatError(
            f"{part.name} in {place.name} is damaged ({error!s:.80}); the same command runs its rows again"
        ) from error
