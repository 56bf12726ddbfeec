"""Which calls make a chain of two streams: a source that is read, and an output that reads itself and the source.

No family is known by name. Values tell what a call reads, queries what it writes: where the values descend from all
that the queries descend from, a stream attends to itself; where queries know of more, theirs is the stream that is
written, and the values are another's. A level must read what its streams are at that moment, and nothing older, for it
is laid upon the levels before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from attnx.capturing.record import Record


@dataclass
class _Stream:
    length: int
    tip: int = 0
    """The calls that its states descend from by now, as bits."""


@dataclass(frozen=True, eq=False)
class AttentionCall:
    """One call of the chain."""

    record: Record
    kind: str
    """"encoder", "self" or "cross"."""


@dataclass(frozen=True, eq=False)
class Chain:
    """The calls from the input up, and how many positions each stream has."""

    calls: tuple[AttentionCall, ...]
    source: int
    output: int
    copies: int = 1
    """How many positions of the output there are for each of its tokens: more than one where streams of their own
    predict (`predicting`)."""

    @property
    def records(self) -> list[Record]:
        return [call.record for call in self.calls]

    def of_kind(self, kind: str) -> Chain:
        """Its levels of a kind alone."""
        return replace(self, calls=tuple(call for call in self.calls if call.kind == kind))

    @property
    def alone(self) -> str:
        """The one stream that is written and read, by the kind of its levels; empty where both have a part."""
        kinds = {call.kind for call in self.calls}
        return kinds.pop() if kinds in ({"encoder"}, {"self"}) else ""


def chain(records: Sequence[Record]) -> Chain | None:
    """The chain of two streams that these calls make; None where they make none."""
    streams: list[_Stream] = []
    places: list[tuple[_Stream, _Stream]] = []
    for record in records:
        place = _place(record, streams)
        if place is None:
            return None
        place[0].tip = record.before | 1 << record.number
        places.append(place)
    crossing = [own for own, over in places if own is not over]
    if len(streams) != 2 or not crossing or any(own is not crossing[0] for own in crossing):
        return None
    output = crossing[0]
    source = next(one for one in streams if one is not output)
    kinds = ["cross" if own is not over else "self" if own is output else "encoder" for own, over in places]
    calls = tuple(AttentionCall(record, kind) for record, kind in zip(records, kinds, strict=True))
    return Chain(calls, source.length, output.length, max(record.copies for record in records))


def _place(record: Record, streams: list[_Stream]) -> tuple[_Stream, _Stream] | None:
    """The stream that a call writes and the one that it reads, which may be new."""
    queries, keys = record.shape[-2:]
    if record.handed == record.before and queries == keys:
        found = _at(streams, record.handed, keys)
        return None if found is None else (found, found)
    over = _at(streams, record.handed, keys)
    if over is None:
        return None
    written = (one for one in streams if one is not over and one.tip | record.handed == record.before)
    own = next((one for one in written if one.length == queries), None)
    if own is None and record.handed == record.before:  # nothing was written of the output before it reads the source
        own = _Stream(queries)
        streams.append(own)
    return None if own is None else (own, over)


def _at(streams: list[_Stream], tip: int, length: int) -> _Stream | None:
    """The stream whose states are these by now; a new one where they descend from no call."""
    found = next((one for one in streams if one.tip == tip and one.length == length), None)
    if found is None and tip == 0:
        found = _Stream(length)
        streams.append(found)
    return found
