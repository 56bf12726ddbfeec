"""Every method with every option on the attention of every family: held, merged, computed, in both precisions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache, partial
from typing import Any

import torch

import attnx
from tests import zoo
from tests.regression import present
from tests.regression.group import SINGLE, Group, Outcome, numbers, outcome, tolerance_of
from tests.regression.models import SINGLE_PRECISION, subject
from tests.regression.options import CHOICES, DISCARDING, OF_FLOW, OF_ROLLOUT, Options, called, together

METHODS = {"raw": attnx.raw, "rollout": attnx.rollout, "flow": attnx.flow}
QUICK = {"bert", "gpt2", "mistral"}
"""One family of each kind of mask: none, causal, a causal window. The others are slow together."""
IN_SINGLE = ("bert", "gpt2", "mistral", "gemma3", "vit")
EVERY = 97
"""So many combinations of options lie between two that a family is asked."""


def groups() -> Iterator[Group]:
    for number, name in enumerate(zoo.FAMILIES):
        quick = {"model": name, "slow": name not in QUICK}
        yield Group(f"capture/{name}", partial(_captured, name), **quick)
        for place, method in enumerate(METHODS):
            asked = together(3 * number + place, EVERY)
            yield Group(f"held/{name}/{method}", partial(_held, name, method, asked), **quick)
            yield Group(f"computed/{name}/{method}", partial(_computed, name, method, asked), **quick)
    for name in IN_SINGLE:
        single = name + SINGLE_PRECISION
        for method in METHODS:
            yield Group(f"held/{single}/{method}", partial(_held, single, method, []), single, name not in QUICK)
            yield Group(f"computed/{single}/{method}", partial(_computed, single, method, []), single, True)


def _captured(name: str) -> dict[str, Outcome]:
    """Attention itself, what goes with it, and inputs that are padded or very short."""
    one = subject(name)
    attention = _attention(name)
    values, projections = present.values_and_projections(one.model, **one.inputs)
    found: dict[str, Outcome] = {
        "weights": numbers(attention.weights),
        "visible": numbers(present.visible(attention)),
        "modules": json.dumps(present.modules(attention)),
        "facts": json.dumps([attention.num_layers, attention.num_heads, attention.length, attention.causal]),
        "values": numbers(torch.stack(values)),
        "projections": numbers(torch.stack(projections)),
        "sink share": outcome(lambda: present.sink_share(attention)),
        "sink share of each head": outcome(lambda: present.sink_share(attention, head="all", layer=2)),
    }
    for how in ("mean", "max", "min"):
        merged = present.merged(one.model, how, **one.inputs)
        found |= {
            f"{how} {method}": outcome(partial(call, merged), tolerance_of(method)) for method, call in METHODS.items()
        }
    for kind, inputs in _other_inputs(name).items():
        found |= _of_other_inputs(kind, one.model, inputs)
    return found


def _other_inputs(name: str) -> dict[str, dict[str, torch.Tensor]]:
    if name in zoo.IMAGE:
        return {}
    inputs = zoo.inputs(name, 8)
    padded = inputs["attention_mask"].clone()
    padded[:, -2:] = 0
    found = {"padded": {**inputs, "attention_mask": padded}}
    # ALBERT has one module for all layers, whose attention over one position is always the same: it is refused.
    return found if name == "albert" else found | {"one position": zoo.inputs(name, 1)}


def _of_other_inputs(kind: str, model: Any, inputs: dict[str, torch.Tensor]) -> dict[str, Outcome]:
    held, computed = attnx.capture(model, **inputs), present.computed(model, **inputs)
    found: dict[str, Outcome] = {f"{kind} visible": numbers(present.visible(held))}
    for options in ({}, {"normalize": "receptive_field"}, {"normalize": "column", "head": "all"}):
        for method, call in METHODS.items():
            for road, attention in (("held", held), ("computed", computed)):
                case = f"{kind} {road} {method} {called(options)}"
                found[case] = outcome(partial(call, attention, **options), tolerance_of(method))
    return found


def _held(name: str, method: str, asked: list[Options]) -> dict[str, Outcome]:
    more = {"rollout": OF_ROLLOUT + DISCARDING, "flow": OF_FLOW}.get(method, [])
    return _answers(_attention(name), method, CHOICES + more + asked, _tolerance(name, method))


def _computed(name: str, method: str, asked: list[Options]) -> dict[str, Outcome]:
    one = subject(name)
    attention = present.computed(one.model, **one.inputs)
    more = {"rollout": OF_ROLLOUT}.get(method, [])
    choices = CHOICES[::4] if method == "flow" else CHOICES + more
    with present.few_rows_at_once():
        return _answers(attention, method, choices + asked, _tolerance(name, method))


def _answers(attention: Any, method: str, asked: list[Options], tolerance: float) -> dict[str, Outcome]:
    return {called(one): outcome(partial(METHODS[method], attention, **one), tolerance) for one in asked}


@cache
def _attention(name: str) -> Any:
    one = subject(name)
    return attnx.capture(one.model, **one.inputs)


def _tolerance(name: str, method: str) -> float:
    return SINGLE if name.endswith(SINGLE_PRECISION) else tolerance_of(method)
