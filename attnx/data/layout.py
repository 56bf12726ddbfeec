"""The columns of a run over texts: one row a text, one column a method, each score beside its token.

| column | holds |
|---|---|
| `row`, `id`, `sha256` | the place in the data from 0, its name there, the hash of what was explained |
| `text`, `pair` | the text, and the second of a pair; of an image nothing |
| `gold`, `label`, `right` | the data's label, the target, whether the prediction is the data's label; or null |
| `kind`, `index`, `probability`, `labels`, `logits` | what `prediction` tells |
| `position` | the explained position |
| `tokens`, `special`, `starts`, `ends`, `segments` | what each position is; special tokens have no start |
| `METHOD` or `METHOD@LAYER` | a score for each token; by layer where several were asked for |
| `REFERENCE` | the same, measured on the model |
| `METHOD_DIAGNOSTIC`, `sink` | a number, likewise with `@LAYER` |
| `boxes`, `width`, `height` | of images |
| `notes` | what should be known of how the input was read |
| `extra` | JSON: what is true of this row and not of most |
| `error` | why there is nothing in this row; null for all others |

What is true of all rows, provenance included, stands in the metadata of every file under the key `attnx`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from attnx.data.arrow import arrow
from attnx.errors import FileFormatError, InputError
from attnx.results import schema
from attnx.results.explanation import Explanation

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
    about_answer: tuple[str, ...] = ()
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
                name: tuple(dict.fromkeys(kind for one in seen for kind in one.diagnostics.get(name, ())))
                for name in methods
            },
            signed=_of_any(seen, "signed"),
            local=_of_any(seen, "local"),
            about_answer=_of_any(seen, "about_answer"),
            digits={name: number for one in seen for name, number in one.digits.items()},
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
    return tuple(sorted({name for one in seen for name in getattr(one, field_name)}))
