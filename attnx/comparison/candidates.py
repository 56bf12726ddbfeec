"""Which methods and references a recommendation can choose from: those that the model can have, at a bearable price."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from attnx.errors import InputError
from attnx.explaining.attempt import Refused, attempt
from attnx.explaining.call import Call
from attnx.methods.method import Method
from attnx.references.registry import REFERENCES, cheap_references

FORWARDS = 50
"""What takes more plain forwards for a text of middle length is left out, unless it is asked for: what
holds must also be worth its price on every text that is explained later."""


def bearable(call: Call, any_method: bool, any_reference: bool) -> tuple[Call, dict[str, str]]:
    """With all that costs a bearable number of runs, where the caller named none; and the others with why."""
    middle, every = middle_length(call), REFERENCES.names() if any_reference else ()
    kept = cheap_references(every, middle, FORWARDS)
    rows = call.settings.methods or ()
    quick = tuple(row for row in rows if not any_method or (row.forwards(middle) or 0) <= FORWARDS)
    dear = {name: "references" for name in every if name not in kept}
    dear |= {row.name: "methods" for row in rows if row not in quick}
    call = replace(call, settings=replace(call.settings, methods=quick))
    return replace(call, references={name: {} for name in kept} if any_reference else call.references), {
        name: f"it takes more than {FORWARDS} forwards for {middle} positions; {argument}=({name!r}, …) insists"
        for name, argument in dear.items()
    }


def able(call: Call, any_method: bool, any_reference: bool) -> tuple[Call, dict[str, str]]:
    """The call without what nobody asked for and this model cannot have, tried on the longest text; and why not."""
    longest = max(call.requests, key=lambda one: len(one.prepared.positions))
    rows = call.settings.methods or ()
    left_out: dict[str, str] = {}

    def works(name: str, methods: tuple[Method, ...], references: Mapping[str, Mapping[str, Any]]) -> bool:
        one = replace(call, requests=[longest], settings=replace(call.settings, methods=methods), references=references)
        (found,) = attempt([one], lambda calls: [one.in_order() for one in calls])
        if isinstance(found, Refused):
            left_out[name] = found.reason
        return name not in left_out

    kept = tuple(row for row in rows if not any_method or works(row.name, (row,), {}))
    if not kept:
        raise InputError(f"no method works on this model: {next(iter(left_out.values()))}")
    first = kept[:1]
    references = {
        name: options
        for name, options in call.references.items()
        if not any_reference or works(name, first, {name: options})
    }
    return replace(call, settings=replace(call.settings, methods=kept), references=references), left_out


def forwards(methods: Iterable[Method], references: Mapping[str, Any], positions: int) -> dict[str, float]:
    """Explainer → plain forwards, where its row says so."""
    found = {row.name: row.forwards(positions) for row in methods}
    for name, options in references.items():
        cost = REFERENCES[name].forwards
        found[name] = None if cost is None else float(cost(positions, **options))
    return {name: cost for name, cost in found.items() if cost is not None}


def middle_length(call: Call) -> int:
    return int(np.median([len(one.prepared.positions) for one in call.requests]))
