"""`attnx.measure_truth`: every method and reference on every suite, beside chance."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

from torch import nn

from attnx.arguments import checked
from attnx.capturing.watch import unwrapped
from attnx.data.keeping import Keeping
from attnx.errors import ArgumentError, ChoiceError, InputError, whole_number
from attnx.explaining.settings import Settings
from attnx.inputs.model_facts import has_head
from attnx.methods.normalization import Normalization
from attnx.methods.registry import METHODS
from attnx.references.registry import REFERENCES, asked_references
from attnx.registry import unknown
from attnx.results.truth import Truth
from attnx.truth.registry import SUITES
from attnx.truth.suite import Explainers, Suite, SuiteResult, Trial

if TYPE_CHECKING:
    from attnx.references.registry import AskedReferences

_ARGUMENTS = ("suites", "data", "methods", "references", "rows", "normalize", "seed", "output", "shard_rows", "engine")


@checked
def measure_truth(
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
    output: str | PathLike[str] | None = None,
    **options: Any,
) -> Truth:
    """Hold methods and references against answers that are known, as a `Truth`.

    Without a model the embedded suites are run, each on the model that ships with attnx. With a `model` and its
    tokenizer those are run that fit it and the `data`: a cue file for a decoder, texts for whatever answers, and for a
    masked language model nothing at all. `suites` names them instead, of `attnx.truth.registry.SUITES`.

    By default all methods and references are measured that attnx knows; those that refuse are listed with the reason.
    Where one of `methods` and `references` is named alone, nothing is measured of the other.
    `rows` is the number of inputs of each suite, by default the suite's own. `normalize` is as in `explain`. The same
    `seed` gives the same inputs and the same intervals. With a folder as `output` the work is kept there, in a folder
    for each suite, and the same call goes on where a stopped one was; `options` are then those of `explain_dataset`:
    `shard_rows`, `engine`, `workers`, `num_gpus`.

    >>> t = measure_truth(suites="recall", rows=5, methods="rollout", references="value_path", progress=False)
    >>> float(t.cell("value_path", "recall").mean)
    1.0
    """
    if (model is None) != (tokenizer is None):
        raise InputError("give a model with its tokenizer or image processor, or neither for the embedded ones")
    if rows is not None and whole_number("rows", rows) < 1:
        raise InputError(f"rows must be at least 1, found {rows}")
    if seed < 0:
        raise InputError(f"a seed is a whole number from 0, found {seed}")
    keeping, strange = Keeping.taken(output, options)
    if strange:
        raise ArgumentError(unknown("argument of measure_truth", next(iter(strange)), _ARGUMENTS))
    explainers = _explainers(methods, references, normalize)
    model = None if model is None else unwrapped(model)
    chosen = _chosen(suites, model, data)
    found = {}
    for suite in chosen:
        own, processor = _asked(suite, model, tokenizer)
        given = Trial(own, processor, rows or suite.rows, data, seed, progress, keeping.inside(suite.name))
        found[suite.name] = suite.measure(suite, given, explainers)
    return _truth({suite.name: suite for suite in chosen}, found, seed)


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
        asked = [SUITES[name] for name in ((names,) if isinstance(names, str) else dict.fromkeys(names))]
        if not asked:
            raise InputError(f"no suite asked; there are: {', '.join(SUITES.names())}")
        for suite in asked:
            _check(suite, model, data)
        return asked
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
        f"{one.name}: a model {'…' + ' or …'.join(one.heads) if one.heads else 'that answers'}"
        f" and {one.takes_data or 'no data'}"
        for one in suites
    )
    given = "no data" if data is None else "this data"
    return f"no suite fits {type(model).__name__} and {given}; there are {needs}"


def _asked(suite: Suite, model: nn.Module | None, tokenizer: Any) -> tuple[Any, Any]:
    if model is not None:
        return model, tokenizer
    assert suite.embedded is not None
    return suite.embedded()


def _truth(suites: dict[str, Suite], found: dict[str, SuiteResult], seed: int) -> Truth:
    return Truth(
        values={name: dict(one.values) for name, one in found.items()},
        orders={name: dict(one.orders) for name, one in found.items()},
        metrics={name: tuple(metric.name for metric in suite.metrics) for name, suite in suites.items()},
        less_is_better=tuple(
            sorted({one.name for suite in suites.values() for one in suite.metrics if not one.more_is_better})
        ),
        about={
            name: {"title": suite.title, "right": suite.right, "unit": suite.unit, "source": suite.source}
            for name, suite in suites.items()
        },
        refused={name: dict(one.refused) for name, one in found.items()},
        wrong={name: one.wrong for name, one in found.items()},
        signed=tuple(dict.fromkeys(signed for one in found.values() for signed in one.signed)),
        seed=seed,
        provenance={name: dict(one.provenance) for name, one in found.items()},
    )
