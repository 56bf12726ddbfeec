"""The chain of a picture and a text: a vision tower, the projector, and a decoder that reads both in one sequence.

The decoder's positions, image tokens among them, stand first in the count, as the model itself counts them; those of
the tower stand behind. A tower's layer may run in several calls or tiles; their positions stand one behind the other.
What of the tower the decoder does not read, as a last layer that LLaVA leaves out, is no level.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from attnx.capturing.record import Record
from attnx.inputs.projection import Projection


@dataclass(frozen=True, eq=False)
class Pictured:
    """The calls of both, from the pixels up."""

    tower: tuple[tuple[Record, ...], ...]
    """A layer each, in one or more calls."""
    decoder: tuple[Record, ...]
    projection: Projection

    @property
    def records(self) -> list[Record]:
        return [*(record for layer in self.tower for record in layer), *self.decoder]


def pictured(records: Sequence[Record], projection: Projection | None) -> Pictured | None:
    """The chain that these calls make through the projector; None where they make none."""
    if projection is None:
        return None
    inside = [record for record in records if record.module.startswith(projection.decoder + ".")]
    if not inside or any(not _is_whole(record, len(projection.reads)) for record in inside):
        return None
    if any(not above.follows(below) for below, above in pairwise(inside)):
        return None
    layers: list[list[Record]] = []
    for record in records:
        if record.number >= inside[0].number or not inside[0].follows(record):
            continue
        if layers and layers[-1][0].module == record.module:
            layers[-1].append(record)
        else:
            layers.append([record])
    named = tuple(layer[0].module for layer in layers)
    if named != projection.tower or any(not _adds_up(layer, projection.patches) for layer in layers):
        return None
    if any(not any(one.follows(other) for one in above for other in below) for below, above in pairwise(layers)):
        return None
    return Pictured(tuple(tuple(layer) for layer in layers), tuple(inside), projection)


def _is_whole(record: Record, length: int) -> bool:
    return record.shape[0] == 1 and record.shape[-2:] == (length, length)


def _adds_up(layer: Sequence[Record], positions: int) -> bool:
    """Whether the parts of a layer, each over itself, are all of the tower's positions."""
    square = all(record.shape[-2] == record.shape[-1] and record.folded is None for record in layer)
    return square and sum(record.shape[0] * record.shape[-1] for record in layer) == positions
