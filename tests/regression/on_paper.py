"""Pronoun probes, the paper's tables on a few sentences, and the planted patch."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.regression import present
from tests.regression.group import SINGLE, Group, Outcome, numbers, summaries, tolerance_of
from tests.regression.models import subject
from tests.regression.present import (
    BASELINES,
    PronounProbe,
    PronounReport,
    Sentence,
    probe_pronoun,
    probe_pronouns,
    run_pronouns,
    written_out,
)

IMPLIES = {"his": "author", "her": "Sara"}
SENTENCES = [
    Sentence("The author talked to Sara about [MASK] book", ("author", "Sara"), ("his", "her"), IMPLIES, "Sara"),
    Sentence("Sara said [MASK] was witty, the author said", ("Sara", "author"), ("she", "he"), {}, "Sara"),
    Sentence(
        "the author said [MASK] film was bad, unaffordable Sara",
        ("author", "unaffordable Sara"),
        ("his", "her"),
        {"his": "author"},
        "author",
    ),
]


def groups() -> Iterator[Group]:
    yield Group("pronouns/masked_lm", partial(_probed, "masked_lm"), "masked_lm")
    yield Group("pronouns/roberta_masked_lm", partial(_probed, "roberta_masked_lm"), "roberta_masked_lm", slow=True)
    yield Group("tables/1 and 2", _tables, "verb_number")
    yield Group("tables/3", _table3, "distilbert_classifier")
    yield Group("tables/subject", _subject, "verb_number", slow=True)
    yield Group("planted patch", _planted, "planted_patch", slow=True)


def of_probe(one: PronounProbe) -> dict[str, Outcome]:
    found: dict[str, Outcome] = {
        "facts": json.dumps([one.text, one.mask, one.layers, one.predicted, one.implied, one.nearest]),
        "candidates": json.dumps([[who.name, *who.positions] for who in one.candidates]),
        "probabilities": numbers(list(one.probabilities.values()), SINGLE),
        "relative": numbers(list(one.relative.values()), SINGLE),
    }
    for method, values in one.relevance.items():
        found[f"relevance {method}"] = numbers(values, tolerance_of(method))
        found[f"verdicts {method}"] = json.dumps([one.top_candidates(method), one.verdicts(method)])
    return found


def of_report(one: PronounReport) -> dict[str, Outcome]:
    found: dict[str, Outcome] = {
        "facts": json.dumps([one.source, one.count, one.layers, one.predicted]),
        "mass": numbers(one.mass, SINGLE),
        "prediction": summaries([one.prediction]),
    }
    for name in ("right", "implied"):
        count = one.applicable(name)
        found[f"{name} counts"] = numbers([count, one.count - count, one.by_layer("chance", name)[0].mean])
        found[f"{name} baselines"] = summaries([one.by_layer(baseline, name)[0] for baseline in BASELINES])
        found |= {f"{name} {method}": summaries(one.by_layer(method, name)) for method in one.with_layers}
    return found


def of_table(one: Any) -> dict[str, Outcome]:
    found: dict[str, Outcome] = {
        "facts": json.dumps([one.title, one.reference, one.count, one.source]),
        "accuracy": numbers(one.accuracy),
    }
    for protocol in one.protocols:
        found[f"{protocol.name} tied"] = numbers(one.tied[protocol.name])
        found |= {f"{protocol.name} {method}": summaries(one.by_layer(method, protocol)) for method in one.methods}
    return found


def sentences(name: str) -> Any:
    """Six beginnings, ready for the model."""
    one = subject(name)
    return present.prepare(one.model, one.processor, present.beginnings(6, seed=1), "the generator, seed 1")


def _probed(name: str) -> dict[str, Outcome]:
    one = subject(name)
    asked = [*SENTENCES, *written_out(SENTENCES[:1])]
    found: dict[str, Outcome] = {}
    for span in ("sum", "mean"):
        probes = probe_pronouns(one.model, one.processor, asked, span=span, batch_size=2)
        for number, probe in enumerate(probes):
            found |= {f"{span} {number}: {fact}": value for fact, value in of_probe(probe).items()}
    options = {"candidates": ("author", "Sara"), "pronouns": ("his", "her"), "methods": "rollout"}
    alone = probe_pronoun(one.model, one.processor, SENTENCES[0].text, **options)
    found |= {f"alone: {fact}": value for fact, value in of_probe(alone).items()}
    report = run_pronouns(one.model, one.processor, asked, batch_size=2, seed=3)
    return found | {f"report: {fact}": value for fact, value in of_report(report).items()}


def _tables() -> dict[str, Outcome]:
    one, few = subject("verb_number"), sentences("verb_number")
    found: dict[str, Outcome] = {}
    for table in (
        present.table1(one.model, one.processor, few, seed=1),
        present.table2(one.model, one.processor, few, seed=1, protocols=present.OF_TABLE_2),
    ):
        found |= {f"{table.title}: {fact}": value for fact, value in of_table(table).items()}
    return found


def _table3() -> dict[str, Outcome]:
    one = subject("distilbert_classifier")
    with TemporaryDirectory() as folder:
        few = present.written_reviews(one.model, one.processor, Path(folder))
        return of_table(present.table3(one.model, one.processor, few, protocols=present.OF_TABLE_3))


def _subject() -> dict[str, Outcome]:
    one, few = subject("verb_number"), sentences("verb_number")
    found: dict[str, Outcome] = {}
    for layer in (None, 1):
        table = present.subject(one.model, one.processor, few, layer=layer)
        found |= {f"layer {layer}: {name}": summaries(row) for name, row in present.subject_rows(table).items()}
    return found


def _planted() -> dict[str, Outcome]:
    one, few = subject("planted_patch"), present.pictures(3, seed=77)
    found: dict[str, Outcome] = {}
    for name, options in {
        "defaults": {"references": ("gradient", "blankout")},
        "discard": {"methods": ["rollout"], "discard_ratio": 0.9},
        "layer 1": {"layer": 1},
    }.items():
        for explainer, finding in present.find(one.model, one.processor, few, **options).items():
            row = [finding.found, finding.low, finding.high, finding.chance, finding.striking, finding.rank]
            found[f"{name}: {explainer}"] = numbers(row)
    return found
