"""Questions over many inputs: compare, faithfulness, head_atlas; and generated text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import attnx
from tests.regression import present
from tests.regression.group import SINGLE, Group, Outcome, numbers, summaries, tolerance_of
from tests.regression.models import picture, subject
from tests.regression.on_explanations import facts, predicted
from tests.regression.options import called

TEXTS: dict[str, Any] = {
    "classifier": [
        "the key to the cabinets is on a table",
        "she said the film was bad, dull",
        "hello world and a gorgeous movie",
        "hello",
    ],
    "verb_number": [
        "the key to the cabinets",
        "the author that the old teachers like near a river",
        "some boxes in it",
    ],
    "causal_lm": ["the key to the cabinets is", "the author talked to Sara about"],
    "vit_classifier": [picture(), picture().rotate(90)],
}
METRICS = ("comprehensiveness", "sufficiency", "deletion", "insertion")
_WORDS = {
    "above chance": "better than chance",
    "below chance": "worse than chance",
    "not significantly different from chance": "not told apart from chance",
}
"""The words of 0.2, which the stored file has."""


def groups() -> Iterator[Group]:
    for name in TEXTS:
        slow = name != "classifier"
        yield Group(f"compare/{name}", partial(_compared, name), name, slow)
        yield Group(f"faithfulness/{name}", partial(_faithful, name), name, slow)
        yield Group(f"head atlas/{name}", partial(_atlas, name), name, slow)
    yield Group("generation", _generated, "causal_lm")


def of_comparison(one: attnx.Comparison) -> dict[str, Outcome]:
    found: dict[str, Outcome] = {
        f"{reference} {method}": numbers(one.layer_values(method, reference), SINGLE)
        for reference in one.references
        for method in one.methods
    }
    for reference, others in one.ceiling.items():
        found |= {f"{reference} {other}": numbers(values, SINGLE) for other, values in others.items()}
    for reference in one.references:
        for method in one.methods:
            cells = [one.cell(method, column) for column in one.columns_of(reference)]
            found[f"cells {reference} {method}"] = summaries(cells)
    return found | {"facts": json.dumps([one.measure, one.layers, one.texts, one.seed])}


def of_faithfulness(one: attnx.Faithfulness) -> dict[str, Outcome]:
    found: dict[str, Outcome] = {}
    for name, values in one.values.items():
        found[f"{name} values"] = numbers(values, SINGLE)
        found[f"{name} deletion"] = numbers(one.deletion[name], SINGLE)
        found[f"{name} insertion"] = numbers(one.insertion[name], SINGLE)
    for name in one.methods:
        found[f"{name} cells"] = summaries([one.cell(name, metric) for metric in METRICS])
        found[f"{name} beyond chance"] = summaries([one.difference(name, metric) for metric in METRICS])
        found[f"{name} verdicts"] = ", ".join(_WORDS[one.significance(name, metric)] for metric in METRICS)
    return found | {"facts": json.dumps([one.layer, one.score, one.orders, one.seed])}


def of_atlas(one: attnx.HeadAtlas) -> dict[str, Outcome]:
    found: dict[str, Outcome] = {f"{name} values": numbers(one.head_values(name), SINGLE) for name in one.values}
    for name in one.values:
        found[f"{name} grid"] = numbers(one.grid(name), SINGLE)
        found[f"{name} best"] = json.dumps([[head.layer, head.head] for head in one.best(3, name)])
        cells = [one.cell(name, column) for column in one.columns]
        found[f"{name} cells"] = summaries(cells)
    return found | {"facts": json.dumps([one.method, one.measure, one.layers, one.texts, one.seed])}


def of_generation(one: attnx.GenerationExplanation) -> dict[str, Outcome]:
    found: dict[str, Outcome] = {name: numbers(one[name], tolerance_of(name)) for name in present.layered(one)}
    found |= {"probabilities": numbers(one.probabilities, SINGLE), "prompt length": numbers(one.prompt_length)}
    found |= {
        "facts": json.dumps([one.text, one.layers[-1], one.tokens, one.generated, [word.text for word in one.words]])
    }
    for number, prediction in enumerate(one.predictions):
        found |= {f"step {number}: {fact}": value for fact, value in predicted(prediction).items()}
    last = facts(one.step(-1))
    return found | {f"last step: {fact}": value for fact, value in last.items()}


def _named(name: str, found: dict[str, Outcome]) -> dict[str, Outcome]:
    return {f"{name}, {fact}": value for fact, value in found.items()}


def _compared(name: str) -> dict[str, Outcome]:
    one = subject(name)
    ask = partial(attnx.compare, one.model, one.processor, TEXTS[name], progress=False)
    found = _named("defaults", of_comparison(ask()))
    if name == "vit_classifier":
        return found
    for measure in ("kendall", "top_k"):
        found |= _named(measure, of_comparison(ask(measure=measure, methods="rollout", against="gradient")))
    every = tuple(present.reference_names())
    found |= _named("all references", of_comparison(ask(methods=("raw", "rollout"), against=every, seed=3)))
    options = {"head": "max", "residual": 0.3, "target": 1, "layer": 2}
    return found | _named(called(options), of_comparison(ask(against="gradient", **options)))


def _faithful(name: str) -> dict[str, Outcome]:
    one = subject(name)
    ask = partial(attnx.faithfulness, one.model, one.processor, TEXTS[name], progress=False, random=3, steps=4)
    found = _named("defaults", of_faithfulness(ask()))
    options = {"methods": "rollout", "references": (), "layer": 2, "score": "logit", "shares": (0.2, 0.5), "seed": 5}
    return found | _named(called(options), of_faithfulness(ask(**options)))


def _atlas(name: str) -> dict[str, Outcome]:
    one = subject(name)
    ask = partial(attnx.head_atlas, one.model, one.processor, TEXTS[name], progress=False)
    found = _named("defaults", of_atlas(ask(against="gradient")))
    for options in ({"method": "flow"}, {"method": "raw", "layer": 2}, {"method": "rollout", "normalize": None}):
        asked = {"methods" if name == "method" else name: value for name, value in options.items()}
        found |= _named(called(options), of_atlas(ask(against=(), **asked)))
    return found | _named("blankout", of_atlas(ask(against="blankout", measure="kendall", layer=3, seed=2)))


def _generated() -> dict[str, Outcome]:
    one = subject("causal_lm")
    ask = partial(attnx.explain_generation, one.model, one.processor, methods=("raw", "rollout", "flow"))
    new = {"max_new_tokens": 4, "min_new_tokens": 4}
    found: dict[str, Outcome] = {}
    for options in (
        {},
        {"layer": 2, "head": "max"},
        {"head": 1, "residual": 0.3},
        {"normalize": None},
        {"normalize": "column", "methods": ("rollout", "raw")},
        {"normalize": "prefix"},
        {"drop_sink": True},
        {"num_beams": 2},
    ):
        found |= _named(called(options), of_generation(ask("the key to the cabinets", **new, **options)))
    given = ask("the key to the", continuation=" cabinets is on")
    found |= _named("given", of_generation(given))
    with present.everything_is_long():
        long = ask("the key to the", continuation=" cabinets is on", methods=("raw", "rollout"))
    return found | _named("long", of_generation(long))
