"""Rollout and flow of edges that know what is carried, or what is answered: a row each.

Any other pair of a method and a weighting goes by name, as `rollout:norm` or `flow:alti`.
"""

from __future__ import annotations

from dataclasses import replace

from attnx.methods.flow.flow import FLOW
from attnx.methods.gradient_rollout import rolled_by_rules
from attnx.methods.method import Method
from attnx.methods.rollout import ROLLOUT


def _rolled(name: str, title: str, weighting: str, paper: str) -> Method:
    """Rollout of other edges. What is lowest among them is no noise, so nothing is discarded."""
    return replace(ROLLOUT, name=name, title=title, weighting=weighting, paper=paper, discards=False)


EFFECTIVE_ROLLOUT = _rolled(
    "effective_rollout", "rollout of effective attention", "effective", "Brunner et al. 2020, weights"
)
NORM_ROLLOUT = _rolled(
    "norm_rollout", "rollout of norms with residual", "norm_residual", "Kobayashi et al. 2021, weights"
)
GLOBENC_ROLLOUT = _rolled("globenc", "GlobEnc", "globenc", "Modarressi et al. 2022")
ALTI_ROLLOUT = _rolled("alti", "ALTI", "alti", "Ferrando et al. 2022")
VALUE_ZEROING_ROLLOUT = _rolled("value_zeroing", "value zeroing", "value_zeroing", "Mohebbi et al. 2023")
GRADIENT_ROLLOUT = replace(
    _rolled("gradient_rollout", "gradient rollout", "gradient", "Chefer et al. 2021, rules 5 to 10"),
    relevance=rolled_by_rules,
)
GRADIENT_FLOW = replace(
    FLOW,
    name="gradient_flow",
    title="flow of gradient edges",
    weighting="gradient_share",
    paper="Chefer et al. 2021, weights",
)
