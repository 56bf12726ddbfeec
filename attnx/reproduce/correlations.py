"""Behind Tables 1 to 3: each sentence's relevance against its reference, then the mean over sentences."""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from os import PathLike
from typing import Any, ClassVar

import numpy as np
from torch import nn

from attnx.agreement.spearman import dense_rank_correlation, spearman
from attnx.agreement.summary import Summary
from attnx.data.keeping import Keeping
from attnx.data.measurement import Measurement
from attnx.data.question import Tick
from attnx.errors import ArgumentError
from attnx.inputs.adapter import Prepared
from attnx.inputs.families import adapter_for
from attnx.methods.flow.saturation import tied_share
from attnx.references.case import cases
from attnx.references.gradient import gradient
from attnx.reproduce.explained import Rows, relevance_rows
from attnx.reproduce.protocols import gradient_case, positions
from attnx.results.gathered import FACTS, Cells, Gathered, facts, with_left_out
from attnx.results.provenance import provenance
from attnx.results.table import ByProtocol, Protocol, Published, Reference, Table
from attnx.running.given_model import given_model

Array = np.ndarray[Any, np.dtype[np.float64]]

_UNKNOWN = -1
"""In the column of labels, where one is not public."""


class Labelled(typing.Protocol):
    """What a table is made from."""

    @property
    def prepared(self) -> Sequence[Prepared]: ...
    @property
    def labels(self) -> Sequence[int | None]: ...
    @property
    def source(self) -> str: ...
    def __len__(self) -> int: ...


@dataclass(frozen=True, eq=False)
class Sample:
    """One sentence of a table, and its label where that is public."""

    prepared: Prepared
    label: int | None

    @property
    def digest(self) -> str:
        return f"{self.prepared.digest} {self.label}"

    @classmethod
    def of_each(cls, sentences: Labelled) -> list[Sample]:
        return list(map(cls, sentences.prepared, sentences.labels))


@dataclass(frozen=True)
class Correlating(Measurement[Sample]):
    """The measurement behind a table: of each sentence the correlation of methods with a reference, by protocol."""

    name: ClassVar[str] = "table"
    title: str
    reference: Reference
    published: Published
    scores: Callable[..., Mapping[Protocol, Sequence[Array]]]
    """(model, tokenizer, prepared, protocols) → the reference's scores of each sentence under each protocol."""
    protocols: tuple[Protocol, ...]
    methods: tuple[str, ...]
    source: str
    """For the table, as is the seed: no sentence depends on them."""
    seed: int

    def settings(self) -> dict[str, Any]:
        return {
            "table": self.title,
            "methods": list(self.methods),
            "protocols": [asdict(one) for one in self.protocols],
        }

    def cells(
        self, model: Any, processor: Any, things: Sequence[Sample], tick: Tick, progress: bool
    ) -> Sequence[Cells]:
        prepared = [one.prepared for one in things]
        references = self.scores(model, processor, prepared, self.protocols, progress=progress)
        rows = {
            kind: relevance_rows(model, processor, prepared, kind, methods=self.methods, progress=progress)
            for kind in dict.fromkeys(protocol.rows for protocol in self.protocols)
        }
        predicted = [row.predicted for row in next(iter(rows.values()))]
        told = facts(provenance=provenance(model, adapter_for(model).name))
        found: list[Cells] = [
            {"predicted": predicted[number], "label": _UNKNOWN if one.label is None else one.label, FACTS: told}
            for number, one in enumerate(things)
        ]
        for protocol, scores in references.items():
            for cells, one, row, reference in zip(found, prepared, rows[protocol.rows], scores, strict=True):
                cells |= correlated(one, row, reference, protocol)
        return found

    def result(self, cells: Iterable[Cells], left_out: Mapping[str, int]) -> Table:
        found = Gathered.of(cells)
        labels = [None if one == _UNKNOWN else one for one in found.columns["label"]]
        return Table(
            title=self.title,
            reference=self.reference,
            published=self.published,
            measured=tuple(self._by_protocol(found, protocol) for protocol in self.protocols),
            samples=len(labels),
            source=with_left_out(self.source, left_out),
            accuracy=_accuracy(found.columns["predicted"], labels),
            provenance={**found.provenance, "settings": {"seed": self.seed}},
            majority=_majority(labels),
        )

    def _by_protocol(self, found: Gathered, protocol: Protocol) -> ByProtocol:
        by_layer = {method: found.array(f"{protocol.name}/{method}").T for method in self.methods}
        cells = {
            method: tuple(Summary.of(layer, undefined=protocol.undefined, seed=self.seed) for layer in layers)
            for method, layers in by_layer.items()
        }
        return ByProtocol(protocol, cells, tuple(found.array(f"{protocol.name}//tied").mean(0).tolist()))


def tabulated(
    asking: Any,
    model: nn.Module,
    tokenizer: Any,
    things: Sequence[Any],
    output: str | PathLike[str] | None,
    options: Mapping[str, Any],
    *,
    progress: bool,
) -> Any:
    """The table of a measurement, whose work is kept in the folder if there is one."""
    keeping, strange = Keeping.taken(output, options)
    if strange:
        raise ArgumentError(
            f"a table has no option {next(iter(strange))!r}; there are output, shard_rows, engine, workers"
        )
    return keeping.result(asking, given_model(model, tokenizer), list(things), progress=progress)


def correlated(prepared: Prepared, row: Rows, reference: Array, protocol: Protocol) -> Cells:
    """Method → its correlation with the reference at every layer, and what share of flow ties there."""
    correlation = spearman if protocol.ranks == "average" else dense_rank_correlation
    ranked = positions(prepared, protocol.ranked)
    return {
        **{
            f"{protocol.name}/{method}": correlation(row.ranked(method)[:, ranked], reference[ranked])
            for method in row.relevance
        },
        f"{protocol.name}//tied": tied_share(row.relevance["flow"][:, ranked]),
    }


def _accuracy(predicted: Sequence[int], labels: Sequence[int | None]) -> float | None:
    known = [(one, label) for one, label in zip(predicted, labels, strict=True) if label is not None]
    return sum(one == label for one, label in known) / len(known) if known else None


def _majority(labels: Sequence[int | None]) -> float | None:
    known = [label for label in labels if label is not None]
    return max(map(known.count, set(known))) / len(known) if known else None


def protocol_gradients(
    model: nn.Module,
    tokenizer: Any,
    prepared: Sequence[Prepared],
    protocols: Sequence[Protocol],
    *,
    embed_fully: Callable[..., Any] | None = None,
    progress: bool = False,
) -> dict[Protocol, list[Array]]:
    """Under each protocol, one array of scores for each sentence.

    `embed_fully` is the model's whole embedding layer, positions and LayerNorm included, for a protocol that applies
    it before the model applies it again.
    """
    asked = cases(model, tokenizer, prepared)
    found = {}
    for protocol in protocols:
        pairs = [gradient_case(case, protocol.gradient_of) for case in asked]
        scored = gradient(
            model,
            tokenizer,
            [case for case, _ in pairs],
            score=pairs[0][1],
            reduction=protocol.gradient_reduction,
            embed=embed_fully if protocol.embedded_twice else None,
            progress=progress,
        )
        found[protocol] = [one.scores for one in scored]
    return found
