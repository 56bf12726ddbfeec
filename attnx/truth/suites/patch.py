"""The planted patch: one of 64 patches shows the class, and three others are as striking."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

from attnx.explaining.seam import Request
from attnx.inputs.families import adapter_for
from attnx.tasks.planted_patch import generator
from attnx.truth.answers import check_labels
from attnx.truth.by_rank import by_rank
from attnx.truth.suite import Known, Suite, Trial

_AT_ONCE = 64


def questions(given: Trial) -> Iterator[Known]:
    """Pictures without end."""
    model = given.model
    labels = check_labels(model, generator.LABELS, "patch")
    prepare = adapter_for(model).prepare
    for part in count():
        for one in generator.generate(_AT_ONCE, seed=1 + given.seed * 1_000_003 + part):
            prepared = prepare(model, given.processor, one.image)
            patches = prepared.positions.named
            right = next(place for place, patch in enumerate(patches) if patch.token == one.token)
            units = tuple(prepared.units)
            yield Known(Request(prepared, target=labels.index(one.label)), units, (right,))


def _embedded() -> tuple[Any, Any]:
    return generator.load_demo()


PATCH = Suite(
    name="patch",
    title="the patch that shows the class",
    right="the planted patch: no other pixel depends on the class",
    source="generated pictures, and the embedded vision transformer",
    measure=by_rank,
    questions=questions,
    unit="patch",
    embedded=_embedded,
    heads=("ForImageClassification",),
    rows=30,
)
