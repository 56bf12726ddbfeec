"""The two ways to make the paper's numbers: as its authors' code did, and as its text says.

A protocol is data. Where `PUBLISHED` and `CORRECTED` have different values, the authors' code and the paper differ.
"""

from __future__ import annotations

from dataclasses import replace

from attnx.answer.number import Score
from attnx.inputs.adapter import Prepared
from attnx.references.case import Case
from attnx.results.table import GradientOf, Protocol, Which

PUBLISHED = Protocol(
    name="published",
    blanked="all but the last",
    gradient_of="probability difference",
    gradient_reduction="absolute sum",
    ranked="all",
    ranks="dense",
    undefined="zero",
)
CORRECTED = Protocol(
    name="corrected",
    blanked="content",
    gradient_of="predicted logit",
    gradient_reduction="norm",
    ranked="content",
    ranks="average",
    undefined="left out",
)
PROTOCOLS = {protocol.name: protocol for protocol in (PUBLISHED, CORRECTED)}

PUBLISHED_TABLE_3 = replace(
    PUBLISHED, gradient_of="positive logit", gradient_reduction="sum", rows="maximum", embedded_twice=True
)
"""For Table 3 the authors' code took other gradients, and not the CLS row."""
PROTOCOLS_TABLE_3 = {protocol.name: protocol for protocol in (PUBLISHED_TABLE_3, CORRECTED)}


def positions(prepared: Prepared, which: Which) -> list[int]:
    """The positions that a protocol names; special tokens (CLS, EOS) are no content."""
    if which == "content":
        return prepared.positions.content
    return list(range(len(prepared.positions) - (which == "all but the last")))


def gradient_case(case: Case, of: GradientOf) -> tuple[Case, Score]:
    """The case whose gradient a protocol takes, and of which score. The second of two classes is the positive one."""
    if of == "predicted logit":
        return case, "logit"
    if of == "positive logit":
        return replace(case, target=replace(case.target, index=1)), "logit"
    return replace(case, target=replace(case.target, index=0, against=1)), "probability"
