"""The planted tone: of 25 stretches of a sound two have the tone whose pitch is the class, and six another tone."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

from attnx.explaining.seam import Request
from attnx.inputs.families import adapter_for
from attnx.tasks.planted_tone import generator
from attnx.tasks.planted_tone.checkpoint import load_demo
from attnx.truth.answers import check_labels
from attnx.truth.by_rank import by_rank
from attnx.truth.suite import Known, Suite, Trial

_AT_ONCE = 64


def questions(given: Trial) -> Iterator[Known]:
    """Sounds without end."""
    model = given.model
    labels = check_labels(model, generator.LABELS, "tone")
    prepare = adapter_for(model).prepare
    for part in count():
        for one in generator.generate(_AT_ONCE, seed=1 + given.seed * 1_000_003 + part):
            sound = {"array": one.sound, "sampling_rate": generator.RATE}
            prepared = prepare(model, given.processor, sound)
            times = [prepared.positions[word.positions[0]].time or (0.0, 0.0) for word in prepared.words]
            units = tuple(word.positions for word in prepared.words)
            yield Known(Request(prepared, target=labels.index(one.label)), units, one.filled(times))


def _embedded() -> tuple[Any, Any]:
    return load_demo()


TONE = Suite(
    name="tone",
    title="the stretch of time whose tone is the class",
    right="the stretches that the planted tone fills by half or more: no other tone depends on the class",
    source="generated sounds, and the embedded audio spectrogram transformer",
    measure=by_rank,
    questions=questions,
    unit="stretch",
    embedded=_embedded,
    by_name=True,
    heads=("ForSequenceClassification", "ForAudioClassification"),
    rows=60,
)
