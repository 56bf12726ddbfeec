"""Behind Tables 1 to 3: each sentence's relevance against its reference, then the mean over sentences."""

from __future__ import annotations

import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from torch import nn

from attnx.agreement.spearman import dense_rank_correlation, spearman
from attnx.agreement.summary import Summary
from attnx.inputs.adapter import Prepared
from attnx.inputs.families import adapter_for
from attnx.methods.flow.saturation import tied_share
from attnx.methods.registry import PAPER_METHODS
from attnx.references.case import cases
from attnx.references.gradient import gradient
from attnx.reproduce.explained import Rows, relevance_rows
from attnx.reproduce.protocols import gradient_case, positions
from attnx.results.provenance import provenance
from attnx.results.table import ByProtocol, Protocol, Published, Reference, Table

Array = np.ndarray[Any, np.dtype[np.float64]]


class Labelled(typing.Protocol):
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
    references: Mapping[Protocol, Sequence[Array]],
    *,
    title: str,
    reference: Reference,
    published: Published,
    methods: Sequence[str] = PAPER_METHODS,
    seed: int,
    progress: bool,
) -> Table:
    """The table of a reference: under each protocol, one array of scores for each sentence."""
    kinds = dict.fromkeys(protocol.rows for protocol in references)
    rows = {
        kind: relevance_rows(model, tokenizer, sentences.prepared, kind, methods=methods, progress=progress)
        for kind in kinds
    }
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
        majority=_majority(sentences.labels),
    )


def correlate(
    prepared: Sequence[Prepared],
    rows: Sequence[Rows],
    references: Sequence[Array],
    protocol: Protocol,
    *,
    seed: int,
) -> ByProtocol:
    """The cells of a table under one protocol, from the relevance and the reference of each sentence."""
    correlation = spearman if protocol.ranks == "average" else dense_rank_correlation
    found: dict[str, list[Array]] = {method: [] for method in rows[0].relevance}
    tied: list[Array] = []
    for one, row, reference in zip(prepared, rows, references, strict=True):
        ranked = positions(one, protocol.ranked)
        for method, values in found.items():
            values.append(correlation(row.ranked(method)[:, ranked], reference[ranked]))
        tied.append(tied_share(row.relevance["flow"][:, ranked]))
    cells = {
        method: tuple(Summary.of(layer, undefined=protocol.undefined, seed=seed) for layer in np.stack(values).T)
        for method, values in found.items()
    }
    return ByProtocol(protocol, cells, tuple(np.stack(tied).mean(0).tolist()))


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
