"""The two ways to make the paper's numbers: as its authors' code did, and as its text says.

A protocol is data. Where `PUBLISHED` and `CORRECTED` have different values, the authors' code and the paper differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from attnx.adapters import Prepared
from attnx.agreement.summary import Undefined
from attnx.references.answer import Score
from attnx.references.attribution import Reduction
from attnx.references.case import Case, content_positions

Which = Literal["content", "all", "all but the last"]
Reference = Literal["blank-out", "input gradients"]
GradientOf = Literal["predicted logit", "positive logit", "probability difference"]
Rows = Literal["CLS", "maximum"]


@dataclass(frozen=True)
class Protocol:
    """Every choice that a table depends on and that is not the method's own."""

    name: str
    blanked: Which
    """Positions that blank-out replaces; the others score 0."""
    gradient_of: GradientOf
    gradient_reduction: Reduction
    ranked: Which
    """Positions that are ranked and correlated."""
    ranks: Literal["average", "dense"]
    """Spearman's average ranks, or the authors' dense ranks with the formula 1 − 6Σd²/(n(n²−1))."""
    undefined: Undefined
    """What an example without a correlation counts for."""
    rows: Rows = "CLS"
    """Relevance as CLS sees it, or for each position the most that any row gives it."""
    embedded_twice: bool = False
    """Whether position embeddings and LayerNorm are applied to what had them already, before gradients are taken."""

    def describe(self, reference: Reference) -> str:
        """One line for the foot of a table whose columns are of this reference."""
        formula = "average ranks" if self.ranks == "average" else "dense ranks with 1 − 6Σd²/(n(n²−1))"
        measured = (
            f"{self.blanked} positions blanked"
            if reference == "blank-out"
            else f"{_REDUCTIONS[self.gradient_reduction]} of ∂{_SCORES[self.gradient_of]}/∂embedding"
        )
        if self.embedded_twice:
            measured += " (position embedding and LayerNorm applied twice)"
        if self.rows == "maximum":
            measured += "; relevance as the maximum over all rows"
        undefined = "left out" if self.undefined == "left out" else "counted as 0"
        return f"{measured}; {self.ranked} positions ranked; {formula}; undefined examples {undefined}"


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

_SCORES: Mapping[GradientOf, str] = {
    "predicted logit": "logit(predicted)",
    "positive logit": "logit(positive)",
    "probability difference": "(p0 − p1)",
}
_REDUCTIONS = {"sum": "signed sum", "absolute sum": "absolute of the signed sum", "norm": "L2 norm"}


def positions(prepared: Prepared, which: Which) -> list[int]:
    """The positions that a protocol names; special tokens (CLS, EOS) are no content."""
    if which == "content":
        return content_positions(prepared)
    return list(range(len(prepared.positions) - (which == "all but the last")))


def gradient_case(case: Case, of: GradientOf) -> tuple[Case, Score]:
    """The case whose gradient a protocol takes, and of which score. The second of two classes is the positive one."""
    if of == "predicted logit":
        return case, "logit"
    if of == "positive logit":
        return replace(case, target=replace(case.target, index=1)), "logit"
    return replace(case, target=replace(case.target, index=0, against=1)), "probability"
