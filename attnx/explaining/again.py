"""An explanation's own settings, read back: to explain another text as it was explained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attnx.errors import InputError
from attnx.inputs.pooling import MEAN
from attnx.methods.method import Method
from attnx.methods.registry import asked_methods
from attnx.results.explanation import Explanation
from attnx.results.provenance import NOT_KEPT


def settings_of(explanation: Explanation, *, references: bool = True) -> dict[str, Any]:
    """The arguments of `explain` that made it, as they were used; without `references` the caller brings those.

    The target is the caller's to choose, and so is a position: only that it was the mean of all is told.
    """
    return {
        "methods": list(explanation.methods),
        "references": _references(explanation) if references else None,
        "layer": explanation.layers[0] if len(explanation.layers) == 1 else None,
        "maps": explanation.maps is not None,
        "truncate": "cut" in explanation.provenance.get("input", {}),
        **settings_on_record(explanation.provenance, explanation.methods),
    }


def settings_on_record(provenance: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """What a record tells of how these of its methods were computed, whatever the text, as `explain` takes it."""
    used, read = (provenance.get(part, {}) for part in ("settings", "input"))
    methods = asked_methods(names)
    return {
        "head": used.get("head"),
        "residual": _residual(used.get("residual", {}), methods),
        "normalize": _normalize(used.get("normalize", "auto"), methods),
        "drop_sink": used.get("drop_sink", False),
        "discard": used.get("discard", 0.0) if any(method.discards for method in methods) else 0.0,
        "within": used.get("within", ""),
        "position": MEAN if read.get("averaged", False) else None,
        "first_token": read.get("first_token"),
    }


def _normalize(used: Any, methods: Sequence[Method]) -> Any:
    """One for all; where some methods take none, that of the others."""
    if not isinstance(used, dict):
        return used
    return next((used[one.name] for one in methods if used.get(one.name) is not None), None)


def _residual(used: Mapping[str, Any], methods: Sequence[Method]) -> float | None:
    """What the caller chose for all methods; None where each has its own."""
    shares = [(used.get(one.name), one.residual) for one in methods]
    chosen = {share for share, own in shares if isinstance(share, float) and share != own}
    return chosen.pop() if len(chosen) == 1 else None


def _references(explanation: Explanation) -> dict[str, dict[str, Any]]:
    """With those options that the reference takes; what it found stands beside them in the record."""
    if not explanation.references:
        return {}
    from attnx.references.registry import REFERENCES  # Captum's road is loaded only for those who take it

    found = {}
    for name in explanation.references:
        takes = REFERENCES[name].options
        record = explanation.provenance.get("references", {}).get(name, {})
        found[name] = {option: value for option, value in record.items() if option in takes}
        for option, value in found[name].items():
            if isinstance(value, Mapping):
                raise InputError(
                    f"{name} was measured with {option}={value.get(NOT_KEPT)}, which no record keeps: give it again, "
                    f"references={{{name!r}: {{{option!r}: …}}}}"
                )
    return found
