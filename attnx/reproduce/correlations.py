"""Behind Tables 1 to 3: each sentence's relevance against its reference, then the mean over sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from torch import nn

from attnx.adapters import Prepared, adapter_for
from attnx.agreement import Summary, dense_rank_correlation, rankable, spearman
from attnx.methods.flow import tied_share
from attnx.provenance import provenance
from attnx.reproduce import protocols
from attnx.reproduce.protocols import Reference, positions
from attnx.reproduce.relevance_rows import TABLE_METHODS, Rows, relevance_rows
from attnx.reproduce.tables import Measured, Published, Table

Array = np.ndarray[Any, np.dtype[np.float64]]


class Labelled(Protocol):
    """What a table is made from."""

    @property
    def prepared(self) -> Sequence[Prepared]: ...
    @property
    def labels(self) -> Sequence[int | None]: ...
    @property
    def source(self) -> str: ...
    def __len__(self) -> int: ...


def agreement_table(
    model: nn.Module,
    tokenizer: Any,
    sentences: Labelled,
    references: Mapping[protocols.Protocol, Sequence[Array]],
    *,
    title: str,
    reference: Reference,
    published: Published,
    seed: int,
    progress: bool,
) -> Table:
    """The table of a reference: under each protocol, one array of scores for each sentence."""
    kinds = dict.fromkeys(protocol.rows for protocol in references)
    rows = {kind: relevance_rows(model, tokenizer, sentences.prepared, kind, progress=progress) for kind in kinds}
    predicted = [row.predicted for row in next(iter(rows.values()))]
    return Table(
        title=title,
        reference=reference,
        published=published,
        measured=tuple(
            correlate(sentences.prepared, rows[protocol.rows], scores, protocol, seed=seed)
            for protocol, scores in references.items()
        ),
        samples=len(sentences),
        source=sentences.source,
        accuracy=_accuracy(predicted, sentences.labels),
        provenance=provenance(model, adapter_for(model).name, seed=seed),
    )


def correlate(
    prepared: Sequence[Prepared],
    rows: Sequence[Rows],
    references: Sequence[Array],
    protocol: protocols.Protocol,
    *,
    seed: int,
) -> Measured:
    """The cells of a table under one protocol, from the relevance and the reference of each sentence."""
    correlation = spearman if protocol.ranks == "average" else dense_rank_correlation
    found: dict[str, list[Array]] = {method: [] for method in TABLE_METHODS}
    tied: list[Array] = []
    for one, row, reference in zip(prepared, rows, references, strict=True):
        ranked = positions(one, protocol.ranked)
        for method, values in found.items():
            scores = rankable(row.relevance[method][:, ranked], method)
            values.append(correlation(scores, reference[ranked]))
        tied.append(tied_share(row.relevance["flow"][:, ranked]))
    cells = {
        method: tuple(Summary.of(layer, undefined=protocol.undefined, seed=seed) for layer in np.stack(values).T)
        for method, values in found.items()
    }
    return Measured(protocol, cells, tuple(np.stack(tied).mean(0).tolist()))


def _accuracy(predicted: Sequence[int], labels: Sequence[int | None]) -> float | None:
    known = [(one, label) for one, label in zip(predicted, labels, strict=True) if label is not None]
    return sum(one == label for one, label in known) / len(known) if known else None
