"""Tables 1 to 3: Spearman's correlation of raw attention, rollout and flow with blank-out and with input gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from os import PathLike
from typing import Any, ClassVar

import numpy as np
from torch import nn

from attnx.adapters import PreparedInput, adapter_for
from attnx.attribution import PAPER, Case, blankout, cases, gradient
from attnx.errors import ArgumentError, InputError
from attnx.evaluation import CollectedRows, facts
from attnx.methods import PAPER_METHODS, rounded, tied_share
from attnx.paper import table
from attnx.paper.sentences import LabeledSentence, Sentences
from attnx.paper.table import GradientOf, PaperTable, Protocol, Published, Reference, Which
from attnx.pipeline import Call, Request, Settings, given_model
from attnx.results import Array, provenance
from attnx.runs import FACTS, Cells, DatasetTask, OutputOptions, RowCallback
from attnx.statistics import dense_rank_correlation, spearman
from attnx.targets import Score

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

PUBLISHED_VALUES_1: Published = {
    "raw": ((0.69, 0.27), (0.10, 0.43), (-0.11, 0.49), (-0.09, 0.52), (0.20, 0.45), (0.29, 0.39)),
    "rollout": ((0.32, 0.26), (0.38, 0.27), (0.51, 0.26), (0.62, 0.26), (0.70, 0.25), (0.71, 0.24)),
    "flow": ((0.32, 0.26), (0.44, 0.29), (0.70, 0.25), (0.70, 0.22), (0.71, 0.22), (0.70, 0.22)),
}
PUBLISHED_VALUES_2: Published = {
    "raw": ((0.53, 0.33), (0.16, 0.38), (-0.06, 0.42), (0.00, 0.47), (0.24, 0.40), (0.46, 0.35)),
    "rollout": ((0.22, 0.31), (0.27, 0.32), (0.39, 0.32), (0.47, 0.32), (0.53, 0.32), (0.54, 0.31)),
    "flow": ((0.22, 0.31), (0.31, 0.34), (0.54, 0.32), (0.61, 0.28), (0.60, 0.28), (0.61, 0.28)),
}
PUBLISHED_VALUES_3: Published = {
    "raw": ((0.12, 0.21), None, (0.09, 0.21), None, (0.08, 0.20), (0.09, 0.21)),
    "rollout": ((0.11, 0.19), None, (0.12, 0.21), None, (0.13, 0.21), (0.13, 0.20)),
    "flow": ((0.11, 0.19), None, (0.11, 0.21), None, (0.12, 0.22), (0.14, 0.21)),
}

MODEL = "distilbert-base-uncased-finetuned-sst-2-english"
NEEDED = "any classifier of two classes, negative and positive, such as a DistilBERT tuned on SST-2"


def table1(
    model: nn.Module,
    tokenizer: Any,
    sentences: Sentences,
    *,
    protocols: Sequence[Protocol] = tuple(PROTOCOLS.values()),
    methods: Sequence[str] = PAPER_METHODS,
    seed: int = 0,
    **options: Any,
) -> PaperTable:
    """Measure the agreement with blank-out under each protocol.

    Args:
        model: A classifier.
        tokenizer: Its tokenizer.
        sentences: Of `prepare`.
        protocols: What is blanked, ranked and counted.
        methods: Methods of one number for each position and layer.
        seed: Of the bootstrap.
        options: `progress`, and those of `explain_dataset`: with a folder as `run_dir` the work is kept there and
            resumed by the same call; `shard_rows`, `engine`, `workers`, `num_gpus`.

    Returns:
        The table, with one group of columns for each protocol.
    """
    task = Correlation("Table 1", "blank-out", PUBLISHED_VALUES_1, blanked_scores)
    return _measured(task, model, tokenizer, sentences, protocols, methods, seed, options)


def table2(
    model: nn.Module,
    tokenizer: Any,
    sentences: Sentences,
    *,
    protocols: Sequence[Protocol] = tuple(PROTOCOLS.values()),
    methods: Sequence[str] = PAPER_METHODS,
    seed: int = 0,
    **options: Any,
) -> PaperTable:
    """Measure the agreement with input gradients under each protocol; the arguments are those of `table1`."""
    task = Correlation("Table 2", "input gradients", PUBLISHED_VALUES_2, gradient_scores)
    return _measured(task, model, tokenizer, sentences, protocols, methods, seed, options)


def table3(
    model: nn.Module,
    tokenizer: Any,
    sentences: Sentences,
    *,
    protocols: Sequence[Protocol] = tuple(PROTOCOLS_TABLE_3.values()),
    methods: Sequence[str] = PAPER_METHODS,
    seed: int = 0,
    **options: Any,
) -> PaperTable:
    """Measure the agreement with input gradients for a sentiment model; the arguments are those of `table1`.

    The authors' loop took 101 sentences where the paper says 100; `reviews` reads as many as are wanted.
    """
    task = Correlation("Table 3", "input gradients", PUBLISHED_VALUES_3, gradient_scores)
    return _measured(task, model, tokenizer, sentences, protocols, methods, seed, options)


@dataclass(frozen=True)
class Correlation(DatasetTask[LabeledSentence]):
    """The measurement behind a table: of each sentence the correlation of methods with a reference, by protocol."""

    name: ClassVar[str] = "table"
    title: str
    reference: Reference
    published: Published
    scores: Callable[..., Mapping[Protocol, Sequence[Array]]]
    """(model, tokenizer, prepared, protocols) → the reference's scores of each sentence under each protocol."""
    protocols: tuple[Protocol, ...] = ()
    methods: tuple[str, ...] = ()
    source: str = ""
    """For the table, as is the seed: no sentence depends on them."""
    seed: int = 0

    def settings(self) -> dict[str, Any]:
        protocols = [asdict(protocol) for protocol in self.protocols]
        return {"table": self.title, "methods": list(self.methods), "protocols": protocols}

    def cells(
        self, model: Any, processor: Any, things: Sequence[LabeledSentence], tick: RowCallback, progress: bool
    ) -> Sequence[Cells]:
        prepared = [item.prepared for item in things]
        references = self.scores(model, processor, prepared, self.protocols, progress=progress)
        relevance = {
            rows: relevance_rows(model, processor, prepared, rows, methods=self.methods, progress=progress)
            for rows in dict.fromkeys(protocol.rows for protocol in self.protocols)
        }
        predicted = [item.predicted for item in next(iter(relevance.values()))]
        record = facts(provenance=provenance(model, adapter_for(model).name))
        result: list[Cells] = [
            {"predicted": predicted[number], "label": _UNKNOWN if item.label is None else item.label, FACTS: record}
            for number, item in enumerate(things)
        ]
        for protocol, scores in references.items():
            for cells, item, row, reference in zip(result, prepared, relevance[protocol.rows], scores, strict=True):
                cells |= correlated(item, row, reference, protocol)
        return result

    def result(self, cells: Iterable[Cells], left_out: Mapping[str, int]) -> PaperTable:
        collected = CollectedRows.of(cells, left_out)
        labels = [None if label == _UNKNOWN else label for label in collected.columns["label"]]
        tied = {
            protocol.name: tuple(collected.array(f"{protocol.name}//tied").mean(0).tolist())
            for protocol in self.protocols
        }
        layers = len(tied[self.protocols[0].name])
        return PaperTable(
            values={
                method: np.hstack([collected.array(f"{protocol.name}/{method}") for protocol in self.protocols])
                for method in self.methods
            },
            columns=tuple(column for protocol in self.protocols for column in protocol.columns(layers)),
            title=self.title,
            reference=self.reference,
            published=self.published,
            protocols=self.protocols,
            tied=tied,
            source=self.source,
            accuracy=_accuracy(collected.columns["predicted"], labels),
            majority=_majority(labels),
            seed=self.seed,
            notes=collected.notes,
            provenance={**collected.provenance, "settings": {"seed": self.seed}},
        )


_UNKNOWN = -1
"""In the column of labels, where one is not public."""


def _measured(
    task: Correlation,
    model: nn.Module,
    tokenizer: Any,
    sentences: Sentences,
    protocols: Sequence[Protocol],
    methods: Sequence[str],
    seed: int,
    options: Mapping[str, Any],
) -> PaperTable:
    chosen = replace(task, protocols=tuple(protocols), methods=tuple(methods), source=sentences.source, seed=seed)
    table: PaperTable = run_task(chosen, model, tokenizer, sentences, **options)
    return table


def run_task(
    task: Any,
    model: nn.Module,
    tokenizer: Any,
    sentences: Sentences,
    *,
    progress: bool = False,
    run_dir: str | PathLike[str] | None = None,
    **options: Any,
) -> Any:
    """The table of a measurement, whose work is kept in the folder if there is one."""
    output_options, unknown = OutputOptions.taken(run_dir, options)
    if unknown:
        raise ArgumentError(
            f"a table has no option {next(iter(unknown))!r}; there are run_dir, shard_rows, engine, workers"
        )
    return output_options.result(task, given_model(model, tokenizer), list(sentences.items), progress=progress)


def _accuracy(predicted: Sequence[int], labels: Sequence[int | None]) -> float | None:
    known = [(index, label) for index, label in zip(predicted, labels, strict=True) if label is not None]
    return sum(index == label for index, label in known) / len(known) if known else None


def _majority(labels: Sequence[int | None]) -> float | None:
    known = [label for label in labels if label is not None]
    return max(map(known.count, set(known))) / len(known) if known else None


_BATCH_SIZE = 64
"""Sentences in a batch: they are short."""


@dataclass(frozen=True, eq=False)
class ReviewRelevance:
    """Of one sentence: `scores[method]` is layer × position; `predicted` the class that the model chose."""

    scores: Mapping[str, Array]
    predicted: int
    digits: Mapping[str, int]
    """Decimals that a method's scores are ranked to."""
    signed: frozenset[str] = frozenset()
    """Methods whose scores support or oppose the prediction: references have no sign, so their sizes are compared."""

    def ranked(self, method: str) -> Array:
        """What is ranked of a method: layer × position."""
        scores = self.scores[method]
        return rounded(np.abs(scores) if method in self.signed else scores, self.digits.get(method))


def relevance_rows(
    model: nn.Module,
    tokenizer: Any,
    prepared: Sequence[PreparedInput],
    rows: table.Rows,
    *,
    methods: Sequence[str] = PAPER_METHODS,
    progress: bool = False,
) -> list[ReviewRelevance]:
    """One entry for each sentence, in their order."""
    over_rows = (lambda relevance: relevance.amax(2)) if rows == "maximum" else None
    settings = Settings.of(methods, normalize=None, over_rows=over_rows)
    requests = [Request(item) for item in prepared]
    call = Call(model, tokenizer, requests, settings, references={}, single=False, batch_size=_BATCH_SIZE)
    result = []
    for explanation in call.in_order("attention", progress):
        if explanation.prediction is None or explanation.prediction.kind != "class":
            raise InputError(f"{type(model).__name__} does not classify whole inputs; load it with such a head")
        each = explanation.attributions
        digits = {name: scores.precision for name, scores in each.items() if scores.precision is not None}
        signed = frozenset(name for name, scores in each.items() if scores.signed)
        by_method = {name: scores.scores for name, scores in each.items()}
        result.append(ReviewRelevance(by_method, explanation.prediction.index, digits, signed))
    return result


def correlated(prepared: PreparedInput, relevance: ReviewRelevance, reference: Array, protocol: Protocol) -> Cells:
    """Method → its correlation with the reference at every layer, and what share of flow ties there."""
    correlation = spearman if protocol.ranks == "average" else dense_rank_correlation
    ranked = positions(prepared, protocol.ranked)
    return {
        **{
            f"{protocol.name}/{method}": correlation(relevance.ranked(method)[:, ranked], reference[ranked])
            for method in relevance.scores
        },
        f"{protocol.name}//tied": tied_share(relevance.scores["flow"][:, ranked]),
    }


def positions(prepared: PreparedInput, which: Which) -> list[int]:
    """The positions that a protocol names; special tokens (CLS, EOS) are no content."""
    if which == "content":
        return prepared.positions.content
    return list(range(len(prepared.positions) - (which == "all but the last")))


def blanked_scores(
    model: nn.Module,
    tokenizer: Any,
    prepared: Sequence[PreparedInput],
    protocols: Sequence[Protocol],
    *,
    progress: bool = False,
) -> dict[Protocol, list[Array]]:
    """Under each protocol, the scores of each sentence; those of positions that it does not blank are 0."""
    blanked = {protocol: [positions(item, protocol.blanked) for item in prepared] for protocol in protocols}
    # A position's score is the same in every protocol that blanks it, so each is run once.
    union = [sorted(set().union(*several)) for several in zip(*blanked.values(), strict=True)]
    measured = blankout(
        model, tokenizer, cases(model, tokenizer, prepared), positions=union, progress=progress, **PAPER
    )
    return {
        protocol: [_only(scored.scores, chosen) for scored, chosen in zip(measured, several, strict=True)]
        for protocol, several in blanked.items()
    }


def _only(scores: Array, chosen: list[int]) -> Array:
    """The scores of the chosen positions; 0 elsewhere."""
    result = np.zeros_like(scores)
    result[chosen] = scores[chosen]
    return result


def gradient_scores(
    model: nn.Module,
    tokenizer: Any,
    prepared: Sequence[PreparedInput],
    protocols: Sequence[Protocol],
    *,
    progress: bool = False,
) -> dict[Protocol, list[Array]]:
    """Under each protocol, the scores of each sentence."""
    embed = _embedding_layer(model) if any(protocol.embedded_twice for protocol in protocols) else None
    result = {}
    requests = cases(model, tokenizer, prepared)
    for protocol in protocols:
        pairs = [_gradient_case(case, protocol.gradient_of) for case in requests]
        scored = gradient(
            model,
            tokenizer,
            [case for case, _ in pairs],
            score=pairs[0][1],
            reduction=protocol.gradient_reduction,
            embed=embed if protocol.embedded_twice else None,
            progress=progress,
        )
        result[protocol] = [item.scores for item in scored]
    return result


def _gradient_case(case: Case, of: GradientOf) -> tuple[Case, Score]:
    """The case whose gradient a protocol takes, and of which score. The second of two classes is the positive one."""
    if of == "predicted logit":
        return case, "logit"
    if of == "positive logit":
        return replace(case, target=replace(case.target, index=1)), "logit"
    return replace(case, target=replace(case.target, index=0, against=1)), "probability"


def _embedding_layer(model: nn.Module) -> nn.Module:
    """Word and position embedding with their LayerNorm, which a protocol applies before the model applies it again."""
    layer = getattr(getattr(model, "base_model", model), "embeddings", None)
    if not isinstance(layer, nn.Module):
        raise InputError(
            f"{type(model).__name__} has no embedding layer that could be applied twice, as the authors' code did; "
            "use --protocol corrected"
        )
    return layer
