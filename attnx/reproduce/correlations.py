"""Behind Tables 1 and 2: each sentence's CLS rows against its reference, then the mean over sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from torch import nn

from attnx.adapters import Prepared, adapter_for
from attnx.agreement import Summary, dense_rank_correlation, rankable, spearman
from attnx.methods.flow import tied_share
from attnx.provenance import provenance
from attnx.reproduce.cls_rows import TABLE_METHODS, ClsRows, cls_rows
from attnx.reproduce.protocols import Protocol, Reference, positions
from attnx.reproduce.sentences import Sentences
from attnx.reproduce.tables import Measured, Published, Table

Array = np.ndarray[Any, np.dtype[np.float64]]


def agreement_table(
    model: nn.Module,
    tokenizer: Any,
    sentences: Sentences,
    references: Mapping[Protocol, Sequence[Array]],
    *,
    title: str,
    reference: Reference,
    published: Published,
    seed: int,
    progress: bool,
) -> Table:
    """The table of a reference: under each protocol, one array of scores for each sentence."""
    rows = cls_rows(model, tokenizer, sentences.prepared, progress=progress)
    right = [row.predicted == one.label for row, one in zip(rows, sentences.beginnings, strict=True)]
    return Table(
        title=title,
        reference=reference,
        published=published,
        measured=tuple(
            correlate(sentences.prepared, rows, scores, protocol, seed=seed) for protocol, scores in references.items()
        ),
        samples=len(sentences),
        source=sentences.source,
        accuracy=sum(right) / len(right),
        provenance=provenance(model, adapter_for(model).name, seed=seed),
    )


def correlate(
    prepared: Sequence[Prepared], rows: Sequence[ClsRows], references: Sequence[Array], protocol: Protocol, *, seed: int
) -> Measured:
    """The cells of a table under one protocol, from the CLS rows and the reference of each sentence."""
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
