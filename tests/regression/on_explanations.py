"""`explain` with its defaults and with options, on text, pairs, lists, images, decoders, and long inputs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import attnx
from tests import zoo
from tests.regression import present
from tests.regression.group import EXACT, SINGLE, Group, Outcome, numbers, tolerance_of
from tests.regression.models import SINGLE_PRECISION, picture, subject
from tests.regression.options import Options, called

CAUSAL = {"causal_lm"}
QUICK = {"classifier", "causal_lm"}
INPUTS: dict[str, Any] = {
    "verb_number": "the author that the old teachers like near a river",
    "classifier": "the unaffordable key to the cabinets is on a table",
    "masked_lm": "the author talked to Sara about [MASK] book",
    "roberta_masked_lm": "The author talked to Sara about <mask> book",
    "causal_lm": "the key to the cabinets",
    "vit_classifier": picture(),
}
OPTIONS: list[Options] = [
    {},
    {"layer": 2},
    {"head": "all"},
    {"head": 1},
    {"head": "max"},
    {"head": "min", "layer": 3},
    {"position": 2},
    {"position": -2, "head": "all"},
    {"residual": 0.3},
    {"residual": 0.0},
    {"normalize": None},
    {"normalize": None, "position": 3},
    {"normalize": "column"},
    {"normalize": "column", "position": 3, "residual": 0.3},
    {"normalize": "prefix"},
    {"drop_sink": True},
    {"drop_sink": True, "normalize": None, "layer": 3},
    {"discard_ratio": 0.5},
    {"discard_ratio": 0.9, "methods": "rollout", "head": "all"},
    {"methods": ("flow", "raw")},
    {"all_queries": True},
    {"all_queries": True, "head": "all", "layer": 2},
    {"target": 1},
]
AT_THE_LAST: Options = {"normalize": "receptive_field"}
"""For a decoder only at its last position, where this and "prefix" are one."""
ANYWHERE: list[Options] = [AT_THE_LAST, AT_THE_LAST | {"position": 3}, AT_THE_LAST | {"head": "all", "residual": 0.3}]

REFERENCES: list[Any] = [
    {"blankout": {"unit": "word", "score": "logit", "signed": True}},
    {"gradient": {"score": "probability", "reduction": "absolute sum"}},
    {"integrated_gradients": {"steps": 5, "baseline": "zero", "score": "log_odds"}},
    {"gradient_shap": {"samples": 3, "seed": 4}},
    {"occlusion": {"window": 2, "baseline": "zero"}},
]
TEXTS = ["the key to the cabinets is on a table", "hello", "she said the film was bad, dull", "a movie"]


def groups() -> Iterator[Group]:
    for name in INPUTS:
        slow = name not in QUICK
        yield Group(f"explain/{name}/options", partial(_with_options, name), name, slow)
        yield Group(f"explain/{name}/references", partial(_with_references, name), name, slow)
    for name in ("verb_number", "classifier", "causal_lm"):
        slow = name not in QUICK
        yield Group(f"explain/{name}/lists", partial(_lists, name), name, slow)
        yield Group(f"explain/{name}/long", partial(_long, name, INPUTS[name]), name, slow)
    for name in ("verb_number", "causal_lm", "vit_classifier"):
        single = name + SINGLE_PRECISION
        yield Group(f"explain/{single}", partial(_defaults, single, INPUTS[name]), single)
    for name in zoo.FAMILIES:
        yield Group(f"explain/{name}", partial(_family, name), name, slow=name != "vit")


def facts(one: attnx.Explanation, tolerance: float | None = None) -> dict[str, Outcome]:
    """Everything that an explanation says, but for its provenance and the wording of its remarks."""
    methods, references = present.layered(one), present.unlayered(one)
    default = present.default(one)
    found: dict[str, Outcome] = {
        "facts": json.dumps([one.position, one.layers, methods, references, len(one.notes)]),
        "tokens": json.dumps([[part.token, part.special, part.word, part.start, part.end] for part in one.positions]),
        "words": json.dumps([[word.text, *word.positions] for word in one.words]),
        "top": json.dumps([word.positions for word in one.top(3, default)]),
        "by word": numbers([word.score for word in one.by_word(default)], tolerance or tolerance_of(default)),
        "tied": numbers([[present.tied(one, method, layer) for layer in one.layers] for method in methods]),
    }
    for name, shares in (("saturation", present.saturation(one)), ("sink", one.sink)):
        if shares is not None:
            found[name] = numbers(shares, tolerance or EXACT)
    if one.image_size is not None:
        found["boxes"] = numbers([part.box for part in one.positions if part.box is not None])
    found |= {f"relevance {method}": numbers(one[method], tolerance or tolerance_of(method)) for method in methods}
    found |= {f"map {method}": numbers(rows, SINGLE) for method, rows in present.matrices(one).items()}
    found |= {f"reference {name}": numbers(one[name], SINGLE) for name in references}
    return found | predicted(one.prediction)


def predicted(answer: Any) -> dict[str, Outcome]:
    """What the model said, with the probability first and then the logits."""
    if answer is None:
        return {"prediction": "none"}
    return {
        "prediction": json.dumps([answer.kind, answer.label, answer.index, *answer.labels]),
        "answer": numbers([answer.probability, *answer.logits], SINGLE),
    }


def told(name: str, given: Any, options: Options, tolerance: float | None = None) -> dict[str, Outcome]:
    """The facts of one call, or the class of the error."""
    one = subject(name)
    try:
        found = present.explain(one.model, one.processor, given, **options)
    except attnx.AttnxError as error:
        return {called(options): type(error).__name__}
    several = found if isinstance(found, list) else [found]
    return {
        f"{called(options)}, {number}: {fact}": value
        for number, explanation in enumerate(several)
        for fact, value in facts(explanation, tolerance).items()
    }


def _with_options(name: str) -> dict[str, Outcome]:
    asked = [*OPTIONS, *([AT_THE_LAST] if name in CAUSAL else ANYWHERE)]
    found: dict[str, Outcome] = {}
    for options in asked:
        found |= told(name, INPUTS[name], options)
    return found


def _with_references(name: str) -> dict[str, Outcome]:
    references: Sequence[Any] = [tuple(present.reference_names()), *REFERENCES]
    found: dict[str, Outcome] = {}
    for asked in references:
        found |= told(name, INPUTS[name], {"methods": "raw", "references": asked})
    pair = ("cabinets", "table") if name in ("masked_lm", "roberta_masked_lm", "causal_lm") else (0, 1)
    return found | told(name, INPUTS[name], {"methods": "raw", "target": pair, "references": "gradient"})


def _lists(name: str) -> dict[str, Outcome]:
    found: dict[str, Outcome] = {}
    for options in ({}, {"batch_size": 1}, {"batch_size": 2, "head": "all"}, {"references": ("blankout",)}):
        found |= told(name, TEXTS, options)
    tokens = {key: value[:, :4] for key, value in subject(name).inputs.items()}
    found |= {f"tokens, {fact}": value for fact, value in told(name, tokens, {}).items()}
    if name == "classifier":
        found |= {f"pair, {fact}": value for fact, value in told(name, ("the key", "is on a table"), {}).items()}
        long = "key " * 80
        found |= {f"cut, {fact}": value for fact, value in told(name, long, {"truncate": True}).items()}
    return found


def _long(name: str, given: Any) -> dict[str, Outcome]:
    found: dict[str, Outcome] = {}
    rows = {"methods": ("raw", "rollout")}
    with present.everything_is_long():
        for options in (
            {},
            {"position": 3},
            {"head": "all"},
            {"head": 1, "layer": 2},
            {"head": "max", "residual": 0.3},
            {"normalize": None},
            {"normalize": "column"},
            {"drop_sink": True},
            {"all_queries": True},
        ):
            found |= told(name, given, rows | options)
    return found


def _defaults(name: str, given: Any) -> dict[str, Outcome]:
    return told(name, given, {}, SINGLE)


def _family(name: str) -> dict[str, Outcome]:
    """The family's adapter chooses the position and names the tokens or patches."""
    inputs = subject(name).inputs
    place = {"position": 0} if name == "siglip_vision_model" else {}
    found = told(name, inputs, place)
    if name in zoo.TEXT:
        found |= {f"long, {fact}": value for fact, value in _long(name, inputs).items()}
    return found
