"""The weightings by name: what an edge may weigh.

A plug-in adds its own by `WEIGHTINGS.add(row.name, row)`, or by an entry point of the group `attnx.weightings`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnx.registry import Registry

if TYPE_CHECKING:
    from attnx.graph.weighting import Weighting

_BUILT_IN = {
    "attention": "weighting:ATTENTION",
    "effective": "weightings.effective:EFFECTIVE",
    "norm": "weightings.norm:NORM",
    "norm_residual": "weightings.norm_residual:NORM_RESIDUAL",
    "globenc": "weightings.norm_residual:GLOBENC",
    "alti": "weightings.alti:ALTI",
    "value_zeroing": "weightings.value_zeroing:VALUE_ZEROING",
    "gradient": "weightings.gradient:GRADIENT",
    "gradient_share": "weightings.gradient:GRADIENT_SHARE",
    "gradient_signed": "weightings.gradient:GRADIENT_SIGNED",
}
WEIGHTINGS: Registry[Weighting] = Registry(
    "weighting", "attnx.graph.weighting:Weighting", {name: f"attnx.graph.{place}" for name, place in _BUILT_IN.items()}
)
