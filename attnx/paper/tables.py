"""Table 3: Spearman's correlation of raw attention, rollout and flow with input gradients, DistilBERT on SST-2."""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from os import PathLike
from typing import Any, ClassVar

import numpy as np
from torch import nn

from attnx.adapters import PreparedInput, adapter_for
from attnx.attribution import PAPER, Case, blankout, cases, gradient
from attnx.errors import ArgumentError, InputError
from attnx.evaluation import FACTS, Gathered, facts, with_left_out
from attnx.methods import METHODS, PAPER_METHODS, rounded, tied_share
from attnx.paper import table
from attnx.paper.sentences import Reviews, Sentences
from attnx.paper.table import ByProtocol, GradientOf, Protocol, Published, Reference, Table, Which
from attnx.pipeline import Call, Request, Settings, given_model
from attnx.results import provenance
from attnx.runs import Cells, DatasetTask, OutputOptions, RowCallback
from attnx.statistics import Summary, dense_rank_correlation, spearman
from attnx.targets import Score

Array = np.ndarray[Any, np.dtype[np.float64]]


def answer_aware() -> tuple[str, ...]:
    """The methods of the registry that a target changes, which the paper did not have."""
    return tuple(name for name in METHODS.names() if METHODS[name].target_specific)


_AT_ONCE = 64
"""Sentences in a batch: they are short."""


@dataclass(frozen=True, eq=False)
class Rows:
    """`relevance[method]` is layer × position; `predicted` the class that the model chose."""

    relevance: Mapping[str, Array]
    predicted: int
    digits: Mapping[str, int]
    """Decimals that a method's scores are ranked to."""
    signed: frozenset[str] = frozenset()
    """Methods whose scores are for and against the answer: their sizes are compared with references, which have no
    sign."""

    def ranked(self, method: str) -> Array:
        """What is ranked of a method: layer × position."""
        scores = self.relevance[method]
        return rounded(np.abs(scores) if method in self.signed else scores, self.digits.get(method))


def relevance_rows(
    model: nn.Module,
    tokenizer: Any,
    prepared: Sequence[PreparedInput],
    rows: table.Rows,
    *,
    methods: Sequence[str] = PAPER_METHODS,
    progress: bool = False,
) -> list[Rows]:
    """One entry for each sentence, in their order."""
    over_rows = (lambda relevance: relevance.amax(2)) if rows == "maximum" else None
    settings = Settings.of(methods, normalize=None, over_rows=over_rows)
    requests = [Request(one) for one in prepared]
    call = Call(model, tokenizer, requests, settings, references={}, single=False, batch_size=_AT_ONCE)
    rowses = []
    for explanation in call.in_order("attention", progress):
        if explanation.prediction is None or explanation.prediction.kind != "class":
            raise InputError(f"{type(model).__name__} does not classify whole inputs; load it with such a head")
        rowses.append(Rows(explanation.relevance, explanation.prediction.index, explanation.digits, explanation.signed))
    return rowses


PUBLISHED = Protocol(
    name="published",
    blanked="all but the last",
    gradient_of="probability difference",
    gradient_reduction="absolute sum",
    ranked="all",
    ranks="dense",
    undefined="zero",
)
CORRECTED = Protocol(
    name="corrected",
    blanked="content",
    gradient_of="predicted logit",
    gradient_reduction="norm",
    ranked="content",
    ranks="average",
    undefined="left out",
)
PROTOCOLS = {protocol.name: protocol for protocol in (PUBLISHED, CORRECTED)}

PUBLISHED_TABLE_3 = replace(
    PUBLISHED, gradient_of="positive logit", gradient_reduction="sum", rows="maximum", embedded_twice=True
)
"""For Table 3 the authors' code took other gradients, and not the CLS row."""
PROTOCOLS_TABLE_3 = {protocol.name: protocol for protocol in (PUBLISHED_TABLE_3, CORRECTED)}


def positions(prepared: PreparedInput, which: Which) -> list[int]:
    """The positions that a protocol names; special tokens (CLS, EOS) are no content."""
    if which == "content":
        return prepared.positions.content
    return list(range(len(prepared.positions) - (which == "all but the last")))


def gradient_case(case: Case, of: GradientOf) -> tuple[Case, Score]:
    """The case whose gradient a protocol takes, and of which score. The second of two classes is the positive one."""
    if of == "predicted logit":
        return case, "logit"
    if of == "positive logit":
        return replace(case, target=replace(case.target, index=1)), "logit"
    return replace(case, target=replace(case.target, index=0, against=1)), "probability"


_UNKNOWN = -1
"""In the column of labels, where one is not public."""


class Labelled(typing.Protocol):
    """What a table is made from."""

    @property
    def prepared(self) -> Sequence[PreparedInput]: ...
    @property
    def labels(self) -> Sequence[int | None]: ...
    @property
    def source(self) -> str: ...
    def __len__(self) -> int: ...


@dataclass(frozen=True, eq=False)
class Sample:
    """One sentence of a table, and its label where that is public."""

    prepared: PreparedInput
    label: int | None

    @property
    def digest(self) -> str:
        return f"{self.prepared.digest} {self.label}"

    @classmethod
    def of_each(cls, sentences: Labelled) -> list[Sample]:
        return list(map(cls, sentences.prepared, sentences.labels))


@dataclass(frozen=True)
class Correlating(DatasetTask[Sample]):
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
        self, model: Any, processor: Any, things: Sequence[Sample], tick: RowCallback, progress: bool
    ) -> Sequence[Cells]:
        prepared = [item.prepared for item in things]
        references = self.scores(model, processor, prepared, self.protocols, progress=progress)
        rows = {
            kind: relevance_rows(model, processor, prepared, kind, methods=self.methods, progress=progress)
            for kind in dict.fromkeys(protocol.rows for protocol in self.protocols)
        }
        predicted = [row.predicted for row in next(iter(rows.values()))]
        name = facts(provenance=provenance(model, adapter_for(model).name))
        result: list[Cells] = [
            {"predicted": predicted[number], "label": _UNKNOWN if item.label is None else item.label, FACTS: name}
            for number, item in enumerate(things)
        ]
        for protocol, scores in references.items():
            for cells, one, row, reference in zip(result, prepared, rows[protocol.rows], scores, strict=True):
                cells |= correlated(one, row, reference, protocol)
        return result

    def result(self, cells: Iterable[Cells], left_out: Mapping[str, int]) -> Table:
        found = Gathered.of(cells)
        labels = [None if column == _UNKNOWN else column for column in found.columns["label"]]
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
    run_dir: str | PathLike[str] | None,
    options: Mapping[str, Any],
    *,
    progress: bool,
) -> Any:
    """The table of a measurement, whose work is kept in the folder if there is one."""
    keeping, strange = OutputOptions.taken(run_dir, options)
    if strange:
        raise ArgumentError(
            f"a table has no option {next(iter(strange))!r}; there are run_dir, shard_rows, engine, workers"
        )
    return keeping.result(asking, given_model(model, tokenizer), list(things), progress=progress)


def correlated(prepared: PreparedInput, row: Rows, reference: Array, protocol: Protocol) -> Cells:
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
    known = [(index, label) for index, label in zip(predicted, labels, strict=True) if label is not None]
    return sum(index == label for index, label in known) / len(known) if known else None


def _majority(labels: Sequence[int | None]) -> float | None:
    known = [label for label in labels if label is not None]
    return max(map(known.count, set(known))) / len(known) if known else None


def protocol_gradients(
    model: nn.Module,
    tokenizer: Any,
    prepared: Sequence[PreparedInput],
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
    result = {}
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
        result[protocol] = [one.scores for one in scored]
    return result


PUBLISHED_TABLE_1: Published = {
    "raw": ((0.69, 0.27), (0.10, 0.43), (-0.11, 0.49), (-0.09, 0.52), (0.20, 0.45), (0.29, 0.39)),
    "rollout": ((0.32, 0.26), (0.38, 0.27), (0.51, 0.26), (0.62, 0.26), (0.70, 0.25), (0.71, 0.24)),
    "flow": ((0.32, 0.26), (0.44, 0.29), (0.70, 0.25), (0.70, 0.22), (0.71, 0.22), (0.70, 0.22)),
}


def table1(
    model: nn.Module,
    tokenizer: Any,
    sentences: Sentences,
    *,
    protocols: Sequence[Protocol] = tuple(PROTOCOLS.values()),
    methods: Sequence[str] = PAPER_METHODS,
    seed: int = 0,
    progress: bool = False,
    run_dir: str | PathLike[str] | None = None,
    **options: Any,
) -> Table:
    """Measure the table on the sentences under each protocol. The seed is the bootstrap's.

    With a folder as `run_dir` the work is kept there, and the same call goes on; `options` are then those of
    `explain_dataset`: `shard_rows`, `engine`, `workers`, `num_gpus`.
    """
    asking = Correlating(
        "Table 1",
        "blank-out",
        PUBLISHED_TABLE_1,
        blanked_scores,
        tuple(protocols),
        tuple(methods),
        sentences.source,
        seed,
    )
    things = Sample.of_each(sentences)
    table: Table = tabulated(asking, model, tokenizer, things, run_dir, options, progress=progress)
    return table


def blanked_scores(
    model: nn.Module,
    tokenizer: Any,
    prepared: Sequence[PreparedInput],
    protocols: Sequence[Protocol],
    *,
    progress: bool = False,
) -> dict[Protocol, list[Array]]:
    """Under each protocol, the scores of each sentence; those of positions that it does not blank are 0."""
    blanked = {protocol: [positions(one, protocol.blanked) for one in prepared] for protocol in protocols}
    # A position's score is the same in every protocol that blanks it, so each is run once.
    union = [sorted(set().union(*several)) for several in zip(*blanked.values(), strict=True)]
    asked = cases(model, tokenizer, prepared)
    scores = [one.scores for one in blankout(model, tokenizer, asked, positions=union, progress=progress, **PAPER)]
    return {protocol: list(map(_only, scores, chosen)) for protocol, chosen in blanked.items()}


def _only(scores: Array, chosen: list[int]) -> Array:
    """The scores of the chosen positions; 0 elsewhere."""
    kept = np.zeros_like(scores)
    kept[chosen] = scores[chosen]
    return kept


PUBLISHED_TABLE_2: Published = {
    "raw": ((0.53, 0.33), (0.16, 0.38), (-0.06, 0.42), (0.00, 0.47), (0.24, 0.40), (0.46, 0.35)),
    "rollout": ((0.22, 0.31), (0.27, 0.32), (0.39, 0.32), (0.47, 0.32), (0.53, 0.32), (0.54, 0.31)),
    "flow": ((0.22, 0.31), (0.31, 0.34), (0.54, 0.32), (0.61, 0.28), (0.60, 0.28), (0.61, 0.28)),
}


def table2(
    model: nn.Module,
    tokenizer: Any,
    sentences: Sentences,
    *,
    protocols: Sequence[Protocol] = tuple(PROTOCOLS.values()),
    methods: Sequence[str] = PAPER_METHODS,
    seed: int = 0,
    progress: bool = False,
    run_dir: str | PathLike[str] | None = None,
    **options: Any,
) -> Table:
    """Measure the table on the sentences under each protocol. The seed is the bootstrap's.

    With a folder as `run_dir` the work is kept there, and the same call goes on; `options` are then those of
    `explain_dataset`: `shard_rows`, `engine`, `workers`, `num_gpus`.
    """
    asking = Correlating(
        "Table 2",
        "input gradients",
        PUBLISHED_TABLE_2,
        protocol_gradients,
        tuple(protocols),
        tuple(methods),
        sentences.source,
        seed,
    )
    things = Sample.of_each(sentences)
    table: Table = tabulated(asking, model, tokenizer, things, run_dir, options, progress=progress)
    return table


MODEL = "distilbert-base-uncased-finetuned-sst-2-english"
NEEDED = "any classifier of two classes, negative and positive, such as a DistilBERT tuned on SST-2"

PUBLISHED_TABLE_TABLE3: Published = {
    "raw": ((0.12, 0.21), None, (0.09, 0.21), None, (0.08, 0.20), (0.09, 0.21)),
    "rollout": ((0.11, 0.19), None, (0.12, 0.21), None, (0.13, 0.21), (0.13, 0.20)),
    "flow": ((0.11, 0.19), None, (0.11, 0.21), None, (0.12, 0.22), (0.14, 0.21)),
}


def table3(
    model: nn.Module,
    tokenizer: Any,
    sentences: Reviews,
    *,
    protocols: Sequence[Protocol] = tuple(PROTOCOLS_TABLE_3.values()),
    seed: int = 0,
    progress: bool = False,
    run_dir: str | PathLike[str] | None = None,
    **options: Any,
) -> Table:
    """Measure the table on the sentences under each protocol. The seed is the bootstrap's.

    The authors' loop took 101 sentences where the paper says 100; give as many as you want to take. `run_dir` and
    `options` are as in `table1`.
    """
    asking = Correlating(
        "Table 3",
        "input gradients",
        PUBLISHED_TABLE_TABLE3,
        gradients,
        tuple(protocols),
        PAPER_METHODS,
        sentences.source,
        seed,
    )
    things = Sample.of_each(sentences)
    table: Table = tabulated(asking, model, tokenizer, things, run_dir, options, progress=progress)
    return table


def gradients(
    model: nn.Module,
    tokenizer: Any,
    prepared: Sequence[PreparedInput],
    protocols: Sequence[Protocol],
    *,
    progress: bool = False,
) -> dict[Protocol, list[Array]]:
    """Under each protocol, the scores of each sentence; one of them embeds twice."""
    twice = any(protocol.embedded_twice for protocol in protocols)
    embed = _embedding_layer(model) if twice else None
    return protocol_gradients(model, tokenizer, prepared, protocols, embed_fully=embed, progress=progress)


def _embedding_layer(model: nn.Module) -> nn.Module:
    """Word and position embedding with their LayerNorm."""
    layer = getattr(getattr(model, "base_model", model), "embeddings", None)
    if not isinstance(layer, nn.Module):
        raise InputError(
            f"{type(model).__name__} has no embedding layer that could be applied twice, as the authors' code did; "
            "use --protocol corrected"
        )
    return layer
