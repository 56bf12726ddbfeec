"""An explanation's own settings, read back: to explain another text as it was explained."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attnx.errors import InputError
from attnx.inputs.pooling import MEAN
from attnx.methods.registry import asked_methods
from attnx.results.explanation import Explanation
from attnx.results.provenance import NOT_KEPT


def settings_of(explanation: Explanation, *, references: bool = True) -> dict[str, Any]:
    """The arguments of `explain` that made it, as they were used; without `references` the caller brings those.

    The target is the caller's to choose, and so is a position: only that it was the mean of all is told.
    """
    used, read = (explanation.provenance.get(part, {}) for part in ("settings", "input"))
    return {
        "methods": list(explanation.methods),
        "references": _references(explanation) if references else None,
        "layer": explanation.layers[0] if len(explanation.layers) == 1 else None,
        "head": used.get("head"),
        "residual": _residual(used.get("residual", {})),
        "normalize": _normalize(used.get("normalize")),
        "drop_sink": used.get("drop_sink", False),
        "discard": used.get("discard", 0.0),
        "within": used.get("within", ""),
        "maps": explanation.maps is not None,
        "position": MEAN if read.get("averaged", False) else None,
        "first_token": read.get("first_token"),
        "truncate": "cut" in read,
    }


def _normalize(used: Any) -> Any:
    """One for all; where some methods take none, that of the others."""
    return next((one for one in used.values() if one is not None), None) if isinstance(used, dict) else used


def _residual(used: dict[str, Any]) -> float | None:
    """What the caller chose for all methods; None where each has its own."""
    shares = {name: share for name, share in used.items() if isinstance(share, float)}
    own = {method.name: method.residual for method in asked_methods(list(shares))} if shares else {}
    chosen = {share for name, share in shares.items() if share != own[name]}
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
