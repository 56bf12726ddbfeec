"""Faithfulness: of any texts it can be measured whether the answer hangs on what an explainer puts first.

No answer is known beforehand; the model tells by what is lost when positions are blanked (`comparison.faithfulness`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from attnx.comparison.faithfulness import faithfulness
from attnx.errors import InputError
from attnx.explaining.seam import Request
from attnx.inputs.families import adapter_for
from attnx.inputs.files import read_texts
from attnx.methods.registry import METHODS
from attnx.results.faithfulness import METRICS, MORE_IS_BETTER, RANDOM
from attnx.results.truth import CHANCE
from attnx.truth.scoring import scores_of
from attnx.truth.suite import Explainers, Metric, Suite, SuiteResult, Trial
from attnx.truth.suites.cues import is_cue_file

_METRICS = tuple(Metric(name, MORE_IS_BETTER[name]) for name in METRICS[:2])


def measure(suite: Suite, given: Trial, explainers: Explainers) -> SuiteResult:
    """Comprehensiveness and sufficiency, beside random orders of the same texts."""
    texts = texts_of(given)
    first = adapter_for(given.model).prepare(given.model, given.processor, texts[0])
    tried = scores_of(
        given.model, given.processor, [Request(first)], explainers, label="trying", progress=given.progress
    )
    found = faithfulness(
        given.model,
        given.processor,
        texts,
        methods=[name for name in explainers.methods if name in tried.rows] or METHODS.names()[:1],  # it wants one
        references={name: one for name, one in explainers.references.items() if name in tried.rows},
        normalize=explainers.normalize,
        steps=1,
        seed=given.seed,
        progress=given.progress,
        **given.keeping.options(),
    )
    columns = slice(0, len(_METRICS))
    return SuiteResult(
        values={name: found.values[name][:, columns] for name in tried.rows},
        orders={CHANCE: found.values[RANDOM][:, columns]},
        refused=tried.refused,
        signed=tuple(tried.signed),
        provenance={**found.provenance, "removal": {"blank": found.blank, "score": found.score}},
    )


def texts_of(given: Trial) -> list[Any]:
    """The user's texts: a list, or a file of them."""
    if isinstance(given.data, (str, Path)):
        return [one.text for one in read_texts(given.data, limit=given.rows)]
    texts = list(given.data or ())[: given.rows]
    if not texts:
        raise InputError("faithfulness is measured on texts: give them as data, in a list or in a file")
    return texts


FAITHFULNESS = Suite(
    name="faithfulness",
    title="whether the answer hangs on what is put first",
    right="what is put first, where blanking it costs the answer and leaving it alone does not",
    source="the user's texts and model",
    measure=measure,
    metrics=_METRICS,
    takes_data="texts, in a list or in a file",
    fits_data=lambda data: data is not None and not is_cue_file(data),
    rows=100,
)
