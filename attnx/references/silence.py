"""Stretches of a sound made silent: its samples are 0 there, and the processor reads it again.

So what stands for nothing is what the model would hear if nothing were said. Where a position is a band of the
spectrum and others of its stretch stay, silence is copied into its own part; where only a spectrum was given, the
least that each channel has anywhere stands for silence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from torch import Tensor

from attnx.inputs.adapter import Prepared
from attnx.inputs.heard import Heard
from attnx.inputs.waves import Samples

SILENCE = "silence"


def silenced(prepared: Prepared, places: Sequence[int]) -> Prepared:
    """Nothing to be heard at these positions."""
    heard = prepared.heard
    assert heard is not None
    whole, parts = _by_stretch(prepared, places)
    values = prepared.inputs[heard.entry]
    if heard.process is None or heard.sound is None:
        quiet, values = heard.quiet(values), values.clone()
        _copy(heard, quiet, values, places)
    else:
        samples = heard.sound.samples
        values = _read(heard, _quieted(prepared, samples, whole), values) if whole else values.clone()
        if parts:
            _copy(heard, _read(heard, _quieted(prepared, samples, [*whole, *parts]), values), values, parts)
    return replace(prepared, inputs={**prepared.inputs, heard.entry: values})


def stretch_groups(prepared: Prepared, size: int) -> list[tuple[int, ...]]:
    """The stretches of the sound, each with all its bands, so many neighbours together."""
    each = prepared.positions.stretches
    return [tuple(place for one in each[start : start + size] for place in one) for start in range(0, len(each), size)]


def _by_stretch(prepared: Prepared, places: Sequence[int]) -> tuple[list[int], list[int]]:
    """Places whose whole stretch is asked for, and those that are one band of it."""
    asked = set(places)
    whole = {place for one in prepared.positions.stretches if asked.issuperset(one) for place in one}
    return sorted(whole), sorted(asked - whole)


def _quieted(prepared: Prepared, samples: Samples, places: Sequence[int]) -> Samples:
    assert prepared.heard is not None
    assert prepared.heard.sound is not None
    quiet, rate = samples.copy(), prepared.heard.sound.rate
    for place in places:
        start, end = prepared.positions[place].time or (0.0, 0.0)
        quiet[round(start * rate) : round(end * rate)] = 0
    return quiet


def _read(heard: Heard, samples: Samples, like: Tensor) -> Tensor:
    assert heard.process is not None
    return heard.process(samples).to(like)


def _copy(heard: Heard, source: Tensor, values: Tensor, places: Sequence[int]) -> None:
    for place in places:
        cell = heard.cells[place]
        if cell is not None:
            values[cell] = source[cell]
