"""How far scores agree with a reference: the measures by name.

A plug-in adds its own by `MEASURES.add(name, function)`, or by an entry point of the group `attnx.measures`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from attnx.registry import Registry

if TYPE_CHECKING:
    from attnx.agreement.spearman import Array

    Measure: TypeAlias = Callable[[Array, Array], Array]
    """(scores[…, position], reference[position]) → a number for each row, NaN where it is undefined."""

MEASURES: Registry[Measure] = Registry(
    "measure",
    built_in={
        "spearman": "attnx.agreement.spearman:spearman",
        "kendall": "attnx.agreement.measures:kendall",
        "top_k": "attnx.agreement.measures:top_k",
    },
)
