"""The weightings by name: what an edge may weigh.

A plug-in adds its own by `WEIGHTINGS.add(row.name, row)`, or by an entry point of the group `attnx.weightings`.
"""

from __future__ import annotations

from attnx.graph.weighting import ATTENTION, Weighting
from attnx.graph.weightings.alti import ALTI
from attnx.graph.weightings.effective import EFFECTIVE
from attnx.graph.weightings.gradient import GRADIENT, GRADIENT_SHARE
from attnx.graph.weightings.norm import NORM
from attnx.graph.weightings.norm_residual import GLOBENC, NORM_RESIDUAL
from attnx.registry import Registry

WEIGHTINGS: Registry[Weighting] = Registry("weighting")
for _row in (ATTENTION, EFFECTIVE, NORM, NORM_RESIDUAL, GLOBENC, ALTI, GRADIENT, GRADIENT_SHARE):
    WEIGHTINGS.add(_row.name, _row)
