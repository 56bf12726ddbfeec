"""Every explainer's scores of every input, by one road; what refuses is kept with its reason."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from torch import nn

from attnx.adapters import adapter_for, has_head
from attnx.arguments import checked
from attnx.attribution import REFERENCES, Case, Scored, asked_references, measure_references
from attnx.attribution import cases as predicted
from attnx.benchmarks.result import BenchmarkTable, SuiteTable
from attnx.errors import ArgumentError, ChoiceError, InputError, whole_number
from attnx.hooks import unwrap_model
from attnx.methods import METHODS, SCORE_DECIMALS, Normalization
from attnx.pipeline import LAST, Refused, Request, Settings, attempt, explain_prepared, options_on_record
from attnx.progress import progress_bar
from attnx.registry import Registry, unknown
from attnx.results import Explanation, provenance
from attnx.runs import OutputOptions
from attnx.targets import Target, split

if TYPE_CHECKING:
    from attnx.attribution import AskedReferences

_BUILT_IN = {
    "recall": "attnx.benchmarks.suites:RECALL",
    "documents": "attnx.benchmarks.suites:DOCUMENTS",
    "dates": "attnx.benchmarks.suites:DATES",
    "subject": "attnx.benchmarks.suites:SUBJECT",
    "patch": "attnx.benchmarks.suites:PATCH",
    "question": "attnx.benchmarks.suites:QUESTION",
    "tone": "attnx.benchmarks.suites:TONE",
    "cues": "attnx.benchmarks.cues:CUES",
    "names": "attnx.benchmarks.suites:NAMES",
    "faithfulness": "attnx.benchmarks.suites:FAITHFULNESS",
}
SUITES: Registry[Suite] = Registry(
    "suite",
    "attnx.benchmarks.benchmark:Suite",
    _BUILT_IN,
)


Array: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True, eq=False)
class Known:
    """One input with a known answer."""

    request: Request
    """Its target is a number, or a pair of them: the class or token that must win, and the one it must beat."""
    units: tuple[tuple[int, ...], ...]
    """The positions of each word or patch, which are ranked; a unit's score is the sum over its positions."""
    right: tuple[int, ...]
    """The units that are right; the first of them in an order counts."""

    @property
    def digest(self) -> str:
        """Of the input, and of all that is asked of it."""
        return f"{self.request.prepared.digest} {self.request.position} {self.request.target} {self.units} {self.right}"


@dataclass(frozen=True, eq=False)
class Trial:
    """What a suite is run on."""

    model: nn.Module
    processor: Any
    rows: int
    """How many inputs are measured, at most."""
    data: Any = None
    """The user's own: a file, or texts."""
    seed: int = 0
    progress: bool = False
    keeping: OutputOptions = field(default_factory=OutputOptions)
    """Where the rows go that are measured."""


@dataclass(frozen=True, eq=False)
class Explainers:
    """The methods and references that are held against the truth."""

    methods: tuple[str, ...]
    references: Mapping[str, Mapping[str, Any]]
    normalize: Normalization = "auto"


@dataclass(frozen=True, eq=False)
class Suite:
    """Where inputs and model come from, what is right, and how it is measured."""

    name: str
    title: str
    """What is asked, in a few words: "the subject of the verb"."""
    right: str
    """What is right, and why, in a sentence."""
    source: str
    """Where the inputs and the model come from."""
    measure: Callable[[Suite, Trial, Explainers], SuiteTable]
    questions: Callable[[Trial], Iterator[Known]] | None = None
    """The inputs, as many as there are or without end; None where `measure` has inputs of its own."""
    unit: str = "word"
    """What is ranked."""
    embedded: Callable[[], tuple[Any, Any]] | None = None
    """Loads the model that ships with attnx and its processor; None: the user brings one."""
    by_name: bool = False
    """Whether it is run only where it is named: so one that asks an embedded model much the same as another."""
    heads: tuple[str, ...] = ()
    """How the class of a model may end that the suite can ask; () for any that answers."""
    takes_data: str = ""
    """What the user's file must have; "" where none is needed."""
    fits_data: Callable[[Any], bool] = bool
    """Whether data that the user gave is for this suite, where none was named."""
    rows: int = 100
    """How many inputs are measured where nobody says."""


_ARGUMENTS = ("suites", "data", "methods", "references", "rows", "normalize", "seed", "run_dir", "shard_rows", "engine")


@checked
def benchmark(
    model: nn.Module | None = None,
    tokenizer: Any = None,
    *,
    suites: Sequence[str] | str | None = None,
    data: Any = None,
    methods: Sequence[str] | str | None = None,
    references: AskedReferences | None = None,
    rows: int | None = None,
    normalize: Normalization = "auto",
    seed: int = 0,
    progress: bool = True,
    run_dir: str | PathLike[str] | None = None,
    **options: Any,
) -> BenchmarkTable:
    """Hold methods and references against answers that are known, as a `BenchmarkTable`.

    Without a model the embedded suites are run, each on the model that ships with attnx. With a `model` and its
    tokenizer those are run that fit it and the `data`: a cue file for a decoder, texts for whatever answers, and for a
    masked language model nothing at all. `suites` names them instead, of `attnx.benchmarks.benchmark.SUITES`.

    By default all methods and references are measured that attnx knows; those that refuse are listed with the reason.
    Where one of `methods` and `references` is named alone, nothing is measured of the other.
    `rows` is the number of inputs of each suite, by default the suite's own. `normalize` is as in `explain`. The same
    `seed` gives the same inputs and the same intervals. With a folder as `run_dir` the work is kept there, in a folder
    for each suite, and the same call goes on where a stopped one was; `options` are then those of `explain_dataset`:
    `shard_rows`, `engine`, `workers`, `num_gpus`.

    >>> t = benchmark(suites="recall", rows=5, methods="rollout", references="lrp", progress=False)
    >>> float(t.cell("lrp", "recall").mean)
    1.0
    """
    if (model is None) != (tokenizer is None):
        raise InputError("give a model with its tokenizer or image processor, or neither for the embedded ones")
    if rows is not None and whole_number("rows", rows) < 1:
        raise InputError(f"rows must be at least 1, found {rows}")
    if seed < 0:
        raise InputError(f"a seed is a whole number from 0, found {seed}")
    keeping, strange = OutputOptions.taken(run_dir, options)
    if strange:
        raise ArgumentError(unknown("argument of benchmark", next(iter(strange)), _ARGUMENTS))
    explainers = _explainers(methods, references, normalize)
    model = None if model is None else unwrap_model(model)
    chosen = _chosen(suites, model, data)
    tables = {}
    for suite in chosen:
        loaded, processor = _loaded(suite, model, tokenizer)
        trial = Trial(loaded, processor, rows or suite.rows, data, seed, progress, keeping.inside(suite.name))
        tables[suite.name] = replace(
            suite.measure(suite, trial, explainers),
            title=suite.title,
            right=suite.right,
            unit=suite.unit,
            source=suite.source,
            seed=seed,
        )
    return BenchmarkTable(tables)


def _explainers(
    methods: Sequence[str] | str | None, references: AskedReferences | None, normalize: Normalization
) -> Explainers:
    """All of both where nobody chose; where one of them was chosen, none of the other."""
    nobody = methods is None and references is None
    named = METHODS.names() if nobody else (methods,) if isinstance(methods, str) else tuple(methods or ())
    Settings.of(named or None, normalize=normalize)  # what does not exist is an error before anything runs
    asked = asked_references(REFERENCES.names() if nobody else references or ())
    if not named and not asked:
        raise InputError("nothing to measure: name methods or references, or neither for all")
    return Explainers(named, asked, normalize)


def _chosen(names: Sequence[str] | str | None, model: nn.Module | None, data: Any) -> list[Suite]:
    """The suites that were named, or those that fit what was given."""
    if names is not None:
        suites = [SUITES[name] for name in ((names,) if isinstance(names, str) else dict.fromkeys(names))]
        if not suites:
            raise InputError(f"no suite asked; there are: {', '.join(SUITES.names())}")
        for suite in suites:
            _check(suite, model, data)
        return suites
    every = [SUITES[name] for name in SUITES.names()]
    if model is None:
        if data is not None:
            raise InputError("data is for a model of your own: give the model, too (--model), or name a suite")
        return [suite for suite in every if suite.embedded is not None and not suite.by_name]
    fitting = [
        suite for suite in every if suite.embedded is None and suite.fits_data(data) and _has_fitting_head(suite, model)
    ]
    if not fitting:
        raise InputError(_why_none(model, data, [suite for suite in every if suite.embedded is None]))
    return fitting


def _check(suite: Suite, model: nn.Module | None, data: Any) -> None:
    """What a suite that was named needs, before anything is loaded."""
    if model is None and suite.embedded is None:
        raise InputError(f"suite {suite.name!r} asks a model of yours: give one (--model)")
    if suite.takes_data and data is None:
        raise InputError(f"suite {suite.name!r} needs data: {suite.takes_data} (--data)")
    if not suite.takes_data and data is not None:
        raise InputError(f"suite {suite.name!r} makes its own inputs; leave data out")
    if model is not None and not _has_fitting_head(suite, model):
        raise ChoiceError(
            f"suite {suite.name!r} asks a model …{' or …'.join(suite.heads)}, found {type(model).__name__}; "
            "give such a model, or choose another suite"
        )


def _has_fitting_head(suite: Suite, model: nn.Module) -> bool:
    return not suite.heads or has_head(model, *suite.heads)


def _why_none(model: nn.Module, data: Any, suites: Iterable[Suite]) -> str:
    needs = "; ".join(
        f"{suite.name}: a model {'…' + ' or …'.join(suite.heads) if suite.heads else 'that answers'}"
        f" and {suite.takes_data or 'no data'}"
        for suite in suites
    )
    name = "no data" if data is None else "this data"
    return f"no suite fits {type(model).__name__} and {name}; there are {needs}"


def _loaded(suite: Suite, model: nn.Module | None, tokenizer: Any) -> tuple[Any, Any]:
    if model is not None:
        return model, tokenizer
    assert suite.embedded is not None
    return suite.embedded()


@dataclass
class Scores:
    """Explainer → a row of scores for each input, in the order of the inputs."""

    rows: dict[str, list[Array]] = field(default_factory=dict)
    digits: dict[str, int] = field(default_factory=dict)
    """Explainer → decimals to which its scores are told apart."""
    signed: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)


def scores_of(
    model: nn.Module, processor: Any, requests: Sequence[Request], explainers: Explainers, *, label: str, progress: bool
) -> Scores:
    """Methods at the last layer, as `explain` has them, and references for the same target."""
    model = unwrap_model(model)
    scores = Scores(provenance=provenance(model, adapter_for(model).name))
    ask = _Asking(model, processor, requests, explainers, label, progress)
    _add_methods(scores, ask)
    _add_references(scores, ask)
    return scores


@dataclass(frozen=True, eq=False)
class _Asking:
    model: nn.Module
    processor: Any
    requests: Sequence[Request]
    explainers: Explainers
    label: str
    progress: bool

    def of_each(self, methods: Sequence[str]) -> list[list[Explanation]]:
        """For each method the explanations of all inputs, which the methods share."""
        explained = self.explanations(methods, self.requests)
        if any(name not in explanation.attributions for name in methods for explanation in explained):
            raise ChoiceError("it was left out")  # asked by itself, it says why
        return [explained] * len(methods)

    def explanations(self, methods: Sequence[str], requests: Sequence[Request]) -> list[Explanation]:
        settings = Settings.of(methods, layer=LAST, normalize=self.explainers.normalize)
        explanations: dict[int, Explanation] = {}
        with progress_bar(f"{self.label}: methods", len(requests), self.progress, " inputs") as shown:
            for number, explanation in explain_prepared(self.model, self.processor, requests, settings):
                explanations[number] = explanation
                shown.update(1)
        return [explanations[number] for number in range(len(requests))]

    def measured(self, cases: Sequence[Case], references: Sequence[str]) -> list[list[Scored]]:
        """For each reference the scores of all inputs."""
        asked = {name: self.explainers.references[name] for name in references}
        scored = measure_references(self.model, self.processor, cases, asked, progress=self.progress)
        if not all(np.isfinite(item.scores).all() for items in scored.values() for item in items):
            raise InputError("it gives numbers that are not finite")
        return list(scored.values())


def _add_methods(scores: Scores, ask: _Asking) -> None:
    tried = dict(zip(ask.explainers.methods, attempt(ask.explainers.methods, ask.of_each), strict=True))
    scores.refused |= {name: outcome.reason for name, outcome in tried.items() if isinstance(outcome, Refused)}
    explained = {name: explanations for name, explanations in tried.items() if not isinstance(explanations, Refused)}
    for name, several in explained.items():
        scores.rows[name] = [explanation.scores(name) for explanation in several]
        precision = several[0].attributions[name].precision
        scores.digits[name] = SCORE_DECIMALS if precision is None else precision
        scores.signed += [name] if several[0].attributions[name].signed else []
    if scores.refused and explained:  # they were asked one by one, and one record speaks of all
        scores.provenance = ask.explanations(list(explained), ask.requests[:1])[0].provenance
    elif explained:
        scores.provenance = next(iter(explained.values()))[0].provenance


def _add_references(scores: Scores, ask: _Asking) -> None:
    if not ask.explainers.references:
        return
    cases = [_case(ask.model, ask.processor, request) for request in ask.requests]
    records: dict[str, dict[str, Any]] = {}
    for name, options in ask.explainers.references.items():
        (measured,) = attempt([name], partial(ask.measured, cases))
        if isinstance(measured, Refused):
            scores.refused[name] = measured.reason
            continue
        scores.rows[name] = [_scaled(item.scores) for item in measured]
        scores.signed += [name] if any(item.signed for item in measured) else []
        records[name] = {**options_on_record(options), **_shared_facts(measured)}
    scores.provenance = {**scores.provenance, "methods": {**scores.provenance.get("methods", {}), **records}}


def _shared_facts(measured: Sequence[Scored]) -> dict[str, Any]:
    """What was so for all inputs: a blank, a score, a number of steps; not what was measured of one."""
    return {
        name: value
        for name, value in measured[0].facts.items()
        if all(item.facts.get(name) == value for item in measured)
    }


def _case(model: nn.Module, processor: Any, request: Request) -> Case:
    """The same for references. Without a target it is what the model predicts."""
    wanted, rival = split(request.target)
    if wanted is None:
        return predicted(model, processor, [request.prepared], position=request.position)[0]
    where = request.position
    where = adapter_for(model).explained(model, processor, request.prepared) if where is None else where
    return Case(request.prepared, Target(int(wanted), where, None if rival is None else int(rival)))


def _scaled(scores: Array) -> Array:
    """What is measured on a model has no scale of its own, so ties are told by what is largest."""
    most = float(np.abs(scores).max(initial=0.0))
    return scores / most if most > 0 else scores
