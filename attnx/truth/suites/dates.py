"""Dates: "the third of march 1998" is rewritten as "1998 03 03", and one word of the source decides each field."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

from attnx.explaining.seam import Request
from attnx.inputs.adapter import Prepared
from attnx.inputs.families import adapter_for
from attnx.tasks.dates import generator
from attnx.truth.answers import token_of_each
from attnx.truth.by_rank import by_rank
from attnx.truth.suite import Known, Suite, Trial

_AT_ONCE = 64


def questions(given: Trial) -> Iterator[Known]:
    """Texts without end, each asked for its three fields in one run: what the decoder reads is the right date."""
    tokens = token_of_each(given.processor, (*generator.YEARS, *generator.FIELDS), "dates")
    prepare = adapter_for(given.model).prepare
    for part in count():
        for one in generator.generate(_AT_ONCE, seed=given.seed * 1_000_003 + part):
            fields = one.written.split()
            prepared = prepare(given.model, given.processor, one.text, target_text=" ".join(fields[:-1]))
            start = len(prepared.positions) - len(fields)
            for place, (field, source) in enumerate(zip(fields, one.sources, strict=True)):
                request = Request(prepared, position=start + place, target=tokens[field])
                yield Known(request, _units(prepared, start + place), (source,))


def _units(prepared: Prepared, position: int) -> tuple[tuple[int, ...], ...]:
    """The words of the source, and those that were written before."""
    return tuple(word.positions for word in prepared.words if max(word.positions) <= position)


def _embedded() -> tuple[Any, Any]:
    from attnx.tasks.dates.checkpoint import load_demo

    return load_demo()


DATES = Suite(
    name="dates",
    title="the word that decides each field of a date",
    right="the word of the source that names the year, the month or the day: another word there makes another field",
    source="generated texts, and the embedded encoder–decoder",
    measure=by_rank,
    questions=questions,
    embedded=_embedded,
    heads=("ForConditionalGeneration",),
    rows=60,
)
