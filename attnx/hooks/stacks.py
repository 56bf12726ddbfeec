"""Which records make one stack of layers that read one another, a chain of two sequences, or a part that was named."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from attnx.adapters import Projection
from attnx.attention import KINDS
from attnx.errors import CaptureError
from attnx.hooks.record import Record


@dataclass
class _Sequence:
    length: int
    sources: int = 0
    """The calls that its states descend from by now, as bits."""


@dataclass(frozen=True, eq=False)
class EncoderDecoderChain:
    """The calls of an encoder–decoder from the input up, with their kinds: "encoder", "self" or "cross"."""

    calls: tuple[tuple[Record, str], ...]
    source: int
    output: int
    """Positions of each sequence."""
    copies: int = 1
    """Positions of the output for each of its tokens: more than one where streams of their own predict."""

    @property
    def records(self) -> list[Record]:
        return [record for record, _ in self.calls]

    def of_kind(self, kind: str) -> EncoderDecoderChain:
        return replace(self, calls=tuple(call for call in self.calls if call[1] == kind))

    @property
    def single_sequence(self) -> str:
        """The kind of all calls where one sequence reads itself; empty where both have a part."""
        kinds = {kind for _, kind in self.calls}
        return kinds.pop() if kinds in ({"encoder"}, {"self"}) else ""


def encoder_decoder_chain(records: Sequence[Record]) -> EncoderDecoderChain | None:
    """The chain of two sequences that these calls make; None where they make none."""
    sequences: list[_Sequence] = []
    pairs: list[tuple[_Sequence, _Sequence]] = []
    for record in records:
        pair = _queries_and_keys(record, sequences)
        if pair is None:
            return None
        pair[0].sources = record.sources | 1 << record.number
        pairs.append(pair)
    crossing = [queries for queries, keys in pairs if queries is not keys]
    if len(sequences) != 2 or not crossing or any(queries is not crossing[0] for queries in crossing):
        return None
    output = crossing[0]
    source = next(sequence for sequence in sequences if sequence is not output)
    kinds = ["cross" if queries is not keys else "self" if queries is output else "encoder" for queries, keys in pairs]
    copies = max(record.copies for record in records)
    return EncoderDecoderChain(tuple(zip(records, kinds, strict=True)), source.length, output.length, copies)


def _queries_and_keys(record: Record, sequences: list[_Sequence]) -> tuple[_Sequence, _Sequence] | None:
    """The sequence that a call writes and the one that it reads, which may be new."""
    queries, keys = record.shape[-2:]
    same = record.value_sources == record.sources
    source = next((s for s in sequences if (s.sources, s.length) == (record.value_sources, keys)), None)
    if source is None and record.value_sources == 0:
        source = _Sequence(keys)
        sequences.append(source)
    if source is None or (same and queries == keys):
        return None if source is None else (source, source)
    others = (s for s in sequences if s is not source and s.sources | record.value_sources == record.sources)
    output = next((sequence for sequence in others if sequence.length == queries), None)
    if output is None and same:  # nothing was written of the output before it reads the source
        output = _Sequence(queries)
        sequences.append(output)
    return None if output is None else (output, source)


@dataclass(frozen=True, eq=False)
class VisionLanguageChain:
    """The calls of a vision tower and a decoder, from the pixels up."""

    tower: tuple[tuple[Record, ...], ...]
    """A layer each, in one or more calls."""
    decoder: tuple[Record, ...]
    projection: Projection

    @property
    def records(self) -> list[Record]:
        return [*(record for layer in self.tower for record in layer), *self.decoder]


def vision_language_chain(records: Sequence[Record], projection: Projection | None) -> VisionLanguageChain | None:
    """The chain that these calls make through the projector; None where they make none."""
    if projection is None:
        return None
    length = len(projection.reads)
    decoder = [record for record in records if record.module.startswith(projection.decoder + ".")]
    if not decoder or any(record.shape[0] != 1 or record.shape[-2:] != (length, length) for record in decoder):
        return None
    layers: list[list[Record]] = []
    for record in records:
        if record.number >= decoder[0].number or not decoder[0].follows(record):
            continue
        if layers and layers[-1][0].module == record.module:
            layers[-1].append(record)
        else:
            layers.append([record])
    if tuple(layer[0].module for layer in layers) != projection.tower:
        return None
    linked = all(any(x.follows(y) for x in above for y in below) for below, above in pairwise([*layers]))
    linked = linked and all(above.follows(below) for below, above in pairwise(decoder))
    if not linked or not all(_covers(layer, projection.patches) for layer in layers):
        return None
    return VisionLanguageChain(tuple(map(tuple, layers)), tuple(decoder), projection)


def _covers(layer: Sequence[Record], positions: int) -> bool:
    """Whether the parts of a layer, each over itself, are all of the tower's positions."""
    square = all(record.shape[-2] == record.shape[-1] and record.folded is None for record in layer)
    return square and sum(record.shape[0] * record.shape[-1] for record in layer) == positions


@dataclass(frozen=True)
class RecordedCalls:
    """All attention calls of a run, and how many inputs ran together."""

    records: Sequence[Record]
    batch: int
    model_name: str
    projection: Callable[[], Projection | None] = lambda: None
    """Measures how an image enters the text, where there is one."""

    def stack(self, module: str = "") -> list[Record] | EncoderDecoderChain | VisionLanguageChain:
        """The layers from the input up, of modules whose name begins so, or an error that names what can be chosen.

        Of an encoder–decoder it is a chain of both sequences, or of its "encoder", "self" or "cross" attention, where
        no module is called so. Of an image with a text it is a chain of both, too.
        """
        records = self._layers_of(module)
        try:
            self._check(records, module)
        except CaptureError as error:
            if not module or not records:
                chain = self._chain(module)
                if chain is not None:
                    return chain
            joined = None if module else vision_language_chain(self.records, self.projection())
            if joined is not None:
                return joined
            raise CaptureError(f"{error}. {self._advice(module)}") from None
        return records

    def _layers_of(self, module: str) -> list[Record]:
        return _without_pooling([record for record in self.records if record.module.startswith(module)])

    def _chain(self, kind: str = "") -> EncoderDecoderChain | None:
        """Both sequences together, or their layers of one kind."""
        # An output of one position reads the source as a pooling head does: by one query.
        for records in (self.records, _without_pooling(self.records)):
            if all(_has_layout(record, self.batch) for record in records):
                chain = encoder_decoder_chain(records)
                if chain is not None:
                    chain = chain.of_kind(kind) if kind else chain
                    return chain if chain.calls else None
        return None

    def choices(self) -> dict[str, list[Record]]:
        """Each part of the model that is one stack, by the shortest name that selects it."""
        names = dict.fromkeys(name for record in self.records for name in _prefixes(record.module))
        stacks: dict[tuple[int, ...], tuple[str, list[Record]]] = {}
        for module in sorted(names, key=len):
            records = self._layers_of(module)
            try:
                self._check(records, module)
            except CaptureError:
                continue
            stacks.setdefault(tuple(record.number for record in records), (module, records))
        chain = self._chain()
        for kind in () if chain is None else KINDS:
            records = [] if chain is None else chain.of_kind(kind).records
            if records and not any(name.startswith(kind) for name in names):
                stacks.setdefault(tuple(record.number for record in records), (kind, records))
        return dict(stacks.values())

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
        stacks: dict[tuple[str, int], int] = {}
        for record in records:
            key = (re.sub(r"\d+", "#", record.module), record.shape[-1])
            stacks[key] = stacks.get(key, 0) + 1
        if len(stacks) > 1:  # two towers, or self- and cross-attention in turn
            names = "; ".join(f"{name} ({count} layers of {size} positions)" for (name, size), count in stacks.items())
            raise CaptureError(f"there are several stacks of attention: {names}")
        for below, above in pairwise(records):
            _check_follows(below, above)


def _without_pooling(records: Sequence[Record]) -> list[Record]:
    """Without a pooling head, in which a single learned query reads all positions: it is no layer of the stack."""
    lengths = {keys for _, _, queries, keys in (record.shape for record in records) if queries == keys}
    return [record for record in records if not (record.shape[-2] == 1 and record.shape[-1] in lengths - {1})]


def _has_layout(record: Record, batch: int) -> bool:
    """Whether it is attention of some positions of each input to all positions of a sequence."""
    try:
        _check_layout(record, batch, square=False)
    except CaptureError:
        return False
    return True


def _check_layout(record: Record, batch: int, *, square: bool = True) -> None:
    maps, _, queries, keys = record.shape
    if maps != batch:
        raise CaptureError(
            f"attention in {record.module} is {maps} maps of {queries} × {keys} positions for a batch of {batch}: "
            "windows (such as Swin's), or several images or texts to one input, without an n × n map over all of it"
        )
    if record.folded is not None:
        record.folded.check(record.module, keys)
    if record.positions_kept not in (None, queries):
        raise CaptureError(
            f"attention in {record.module} is over {queries} positions, of which the model goes on with "
            f"{record.positions_kept}: a window that was padded, and not the positions of the input"
        )
    if square and queries != keys:
        raise CaptureError(
            f"attention in {record.module} is {queries} × {keys}, not square: cross-attention, pooling, a banded "
            "layout or a cached step of generation"
        )


def _check_follows(below: Record, above: Record) -> None:
    """A layer reads what the layer before it wrote."""
    if above.follows(below):
        return
    if above.module == below.module and above.same_as(below):
        raise CaptureError(
            f"{above.module} uses the same attention twice in one layer (as DiffLlama does): the layer is more "
            "than a mixture by its weights, and attnx does not follow it"
        )
    raise CaptureError(
        f"{above.module} was run on something else than what {below.module} gave: these are separate passes (two "
        "texts, two images, a second run of the same stack), not layers of one. Give one input at a time"
    )


def _prefixes(module: str) -> list[str]:
    """The names of the modules around this one, up to where layers are counted: "a.b.layers.0.attn" → a, a.b, …"""
    parts = re.split(r"\.\d+(?:\.|$)", module)[0].split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts) + 1)]


def _size(records: Sequence[Record]) -> str:
    return f"{len(records)} layer{'s' if len(records) > 1 else ''} of {records[0].shape[-1]} positions"
