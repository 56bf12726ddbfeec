"""The weightings by name: what an edge may weigh.

A plug-in adds its own by `WEIGHTINGS.add(row.name, row)`, or by an entry point of the group `attnx.weightings`.
"""

from __future__ import annotations

from attnx.graph.weighting import ATTENTION, Weighting
from attnx.graph.weightings.alti import ALTI
from attnx.graph.weightings.effective import EFFECTIVE
from attnx.graph.weightings.gradient import GRADIENT, GRADIENT_SHARE, GRADIENT_SIGNED
from attnx.graph.weightings.norm import NORM
from attnx.graph.weightings.norm_residual import GLOBENC, NORM_RESIDUAL
from attnx.graph.weightings.value_zeroing import VALUE_ZEROING
from attnx.registry import Registry

_ABOUT_THE_ANSWER = (GRADIENT, GRADIENT_SHARE, GRADIENT_SIGNED)

WEIGHTINGS: Registry[Weighting] = Registry("weighting", row=Weighting)
for _row in (ATTENTION, EFFECTIVE, NORM, NORM_RESIDUAL, GLOBENC, ALTI, VALUE_ZEROING, *_ABOUT_THE_ANSWER):
    WEIGHTINGS.add(_row.name, _row)
