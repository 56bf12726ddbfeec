"""Which records make one stack: levels that read one another, over the same positions. Or a chain of two streams, or a
part of it that was named; else what to choose instead."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from attnx.adapters import Projection
from attnx.attention import KINDS
from attnx.errors import CaptureError
from attnx.hooks.record import Record, check_heads


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
    sequences: list[_Stream] = []
    places: list[tuple[_Stream, _Stream]] = []
    for record in records:
        place = _place(record, sequences)
        if place is None:
            return None
        place[0].tip = record.before | 1 << record.number
        places.append(place)
    crossing = [own for own, over in places if own is not over]
    if len(sequences) != 2 or not crossing or any(own is not crossing[0] for own in crossing):
        return None
    output = crossing[0]
    source = next(sequence for sequence in sequences if sequence is not output)
    kinds = ["cross" if own is not over else "self" if own is output else "encoder" for own, over in places]
    calls = tuple(AttentionCall(record, kind) for record, kind in zip(records, kinds, strict=True))
    return Chain(calls, source.length, output.length, max(record.copies for record in records))


def _place(record: Record, sequences: list[_Stream]) -> tuple[_Stream, _Stream] | None:
    """The stream that a call writes and the one that it reads, which may be new."""
    queries, keys = record.shape[-2:]
    if record.handed == record.before and queries == keys:
        found = _at(sequences, record.handed, keys)
        return None if found is None else (found, found)
    over = _at(sequences, record.handed, keys)
    if over is None:
        return None
    written = (
        sequence for sequence in sequences if sequence is not over and sequence.tip | record.handed == record.before
    )
    own = next((one for one in written if one.length == queries), None)
    if own is None and record.handed == record.before:  # nothing was written of the output before it reads the source
        own = _Stream(queries)
        sequences.append(own)
    return None if own is None else (own, over)


def _at(sequences: list[_Stream], tip: int, length: int) -> _Stream | None:
    """The stream whose states are these by now; a new one where they descend from no call."""
    result = next((sequence for sequence in sequences if sequence.tip == tip and sequence.length == length), None)
    if result is None and tip == 0:
        result = _Stream(length)
        sequences.append(result)
    return result


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
    if any(not any(record.follows(other) for record in above for other in below) for below, above in pairwise(layers)):
        return None
    return Pictured(tuple(tuple(layer) for layer in layers), tuple(inside), projection)


def _is_whole(record: Record, length: int) -> bool:
    return record.shape[0] == 1 and record.shape[-2:] == (length, length)


def _adds_up(layer: Sequence[Record], positions: int) -> bool:
    """Whether the parts of a layer, each over itself, are all of the tower's positions."""
    square = all(record.shape[-2] == record.shape[-1] and record.folded is None for record in layer)
    return square and sum(record.shape[0] * record.shape[-1] for record in layer) == positions


@dataclass(frozen=True)
class Seen:
    """All attention calls of a run, and how many inputs ran together."""

    records: Sequence[Record]
    batch: int
    model_name: str
    projection: Callable[[], Projection | None] = lambda: None
    """Measures how a picture enters the text, where there is one."""

    def stack(self, module: str = "") -> list[Record] | Chain | Pictured:
        """The levels from the input up, of modules whose name begins so, or an error that names what can be chosen.

        Of an encoder–decoder it is a chain of both streams, or one kind of it: "encoder", "self" or
        "cross", where no module is called so. Of a picture with a text it is a chain of both, too.
        """
        records = _layers([record for record in self.records if record.module.startswith(module)])
        try:
            self._check(records, module)
        except CaptureError as error:
            result = self._chain(module if not records else "")
            if result is not None and (not module or not records):
                return result
            joined = None if module else pictured(self.records, self.projection())
            if joined is not None:
                return joined
            raise CaptureError(f"{error}. {self._advice(module)}") from None
        return records

    def _chain(self, kind: str = "") -> Chain | None:
        """Both streams together, or their levels of one kind."""
        # An output of one position reads the source as a pooling head does: by one query.
        found = self._chain_of(self.records) or self._chain_of(_layers(self.records))
        part = found if found is None or not kind else found.of_kind(kind)
        return part if part is not None and part.calls else None

    def _chain_of(self, records: Sequence[Record]) -> Chain | None:
        return chain(records) if all(_has_layout(record, self.batch) for record in records) else None

    def choices(self) -> dict[str, list[Record]]:
        """Each part of the model that is one stack, by the shortest name that picks it."""
        names = dict.fromkeys(name for record in self.records for name in _beginnings(record.module))
        found: dict[tuple[int, ...], tuple[str, list[Record]]] = {}
        for module in sorted(names, key=len):
            records = _layers([record for record in self.records if record.module.startswith(module)])
            try:
                self._check(records, module)
            except CaptureError:
                continue
            found.setdefault(tuple(record.number for record in records), (module, records))
        whole = self._chain()
        for kind in () if whole is None else KINDS:
            records = [] if whole is None else whole.of_kind(kind).records
            if records and not any(name.startswith(kind) for name in names):
                found.setdefault(tuple(record.number for record in records), (kind, records))
        return dict(found.values())

    def _advice(self, module: str) -> str:
        choices = {name: records for name, records in self.choices().items() if name != module}
        if not choices:
            return (
                f"No part of {self.model_name} that module= could name is one stack over all positions in this run. "
                "Captum, which needs no map, works on it, and attnx on a model of the same task that attends over all "
                "positions (of pictures ViT, DeiT, BEiT, DINOv2)"
            )
        named = [f"module={name!r} ({_size(records)})" for name, records in choices.items()]
        return f"What can be explained of this run: {', '.join(named[:4])}" + (" …" if len(named) > 4 else "")

    def _check(self, records: Sequence[Record], module: str) -> None:
        if not records:
            where = f" below {module!r}" if module else ""
            raise CaptureError(
                f"no attention was seen in {self.model_name}{where}: it has none (a convolution or state-space "
                "model), or has it in blocks or hashes without an n × n map; attnx explains softmax attention over all "
                "positions"
            )
        for record in records:
            _check_layout(record, self.batch)
        _check_names(records)
        _check_descent(records)


def _layers(records: Sequence[Record]) -> list[Record]:
    """Without a pooling head, in which a single learned query reads all positions: it is no layer of the stack."""
    lengths = {keys for _, _, queries, keys in (record.shape for record in records) if queries == keys}
    return [record for record in records if not (record.shape[-2] == 1 and record.shape[-1] in lengths - {1})]


def _has_layout(record: Record, batch: int) -> bool:
    """Whether it is attention of some positions of each input to all positions of a stream."""
    try:
        _check_layout(record, batch, square=False)
    except CaptureError:
        return False
    return True


def _check_layout(record: Record, batch: int, *, square: bool = True) -> None:
    index, _, queries, keys = record.shape
    if index != batch:
        raise CaptureError(
            f"attention in {record.module} is {index} maps of {queries} × {keys} positions for a batch of {batch}: "
            "windows (such as Swin's), or several images or texts to one input, without an n × n map over all of it"
        )
    if record.folded is not None:
        check_heads(record.folded, record.module, keys)
    if record.carried not in (None, queries):
        raise CaptureError(
            f"attention in {record.module} is over {queries} positions, of which the model goes on with "
            f"{record.carried}: a window that was padded, and not the positions of the input"
        )
    if square and queries != keys:
        raise CaptureError(
            f"attention in {record.module} is {queries} × {keys}, not square: cross-attention, pooling, a banded "
            "layout or a cached step of generation"
        )


def _check_names(records: Sequence[Record]) -> None:
    """Two towers, or self- and cross-attention in turn, are not one stack."""
    stacks: dict[tuple[str, int], int] = {}
    for record in records:
        key = (re.sub(r"\d+", "#", record.module), record.shape[-1])
        stacks[key] = stacks.get(key, 0) + 1
    if len(stacks) > 1:
        found = "; ".join(f"{name} ({count} layers of {length} positions)" for (name, length), count in stacks.items())
        raise CaptureError(f"there are several stacks of attention: {found}")


def _check_descent(records: Sequence[Record]) -> None:
    """A level reads what the level before it wrote."""
    for below, above in pairwise(records):
        if above.follows(below):
            continue
        if above.module == below.module and above.same_as(below):
            raise CaptureError(
                f"{above.module} uses the same attention twice in one layer (as DiffLlama does): the layer is more "
                "than a mixture by its weights, and attnx does not follow it"
            )
        raise CaptureError(
            f"{above.module} was run on something else than what {below.module} gave: these are separate passes (two "
            "texts, two images, a second run of the same stack), not layers of one. Give one input at a time"
        )


def _beginnings(module: str) -> list[str]:
    """The names of the modules around this one, up to where layers are counted: "a.b.layers.0.attn" → a, a.b, …"""
    parts = re.split(r"\.\d+(?:\.|$)", module)[0].split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts) + 1)]


def _size(records: Sequence[Record]) -> str:
    return f"{len(records)} layer{'s' if len(records) > 1 else ''} of {records[0].shape[-1]} positions"
