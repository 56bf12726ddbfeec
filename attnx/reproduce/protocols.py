"""The two ways to make the paper's numbers: as its authors' code did, and as its text says.

A protocol is data. Where `PUBLISHED` and `CORRECTED` have different values, the authors' code and the paper differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from attnx.adapters import Prepared
from attnx.agreement.summary import Undefined
from attnx.references.blankout import content_positions
from attnx.references.gradient import Reduction, Score

Which = Literal["content", "all", "all but the last"]
Reference = Literal["blank-out", "input gradients"]


@dataclass(frozen=True)
class Protocol:
    """Every choice that Tables 1 and 2 depend on and that is not the method's own."""

    name: str
    blanked: Which
    """Positions that blank-out replaces; the others score 0."""
    gradient_of: Score
    gradient_reduction: Reduction
    ranked: Which
    """Positions that are ranked and correlated."""
    ranks: Literal["average", "dense"]
    """Spearman's average ranks, or the authors' dense ranks with the formula 1 − 6Σd²/(n(n²−1))."""
    undefined: Undefined
    """What an example without a correlation counts for."""

    def describe(self, reference: Reference) -> str:
        """One line for the foot of a table whose columns are of this reference."""
        formula = "average ranks" if self.ranks == "average" else "dense ranks with 1 − 6Σd²/(n(n²−1))"
        measured = (
            f"{self.blanked} positions blanked"
            if reference == "blank-out"
            else f"{_REDUCTIONS[self.gradient_reduction]} of ∂{_SCORES[self.gradient_of]}/∂embedding"
        )
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
    gradient_of="logit",
    gradient_reduction="norm",
    ranked="content",
    ranks="average",
    undefined="left out",
)
PROTOCOLS = {protocol.name: protocol for protocol in (PUBLISHED, CORRECTED)}

_SCORES = {"logit": "logit(predicted)", "probability difference": "(p0 − p1)"}
_REDUCTIONS = {"sum": "signed sum", "absolute sum": "absolute of the signed sum", "norm": "L2 norm"}


def positions(prepared: Prepared, which: Which) -> list[int]:
    """The positions that a protocol names; special tokens (CLS, EOS) are no content."""
    if which == "content":
        return content_positions(prepared)
    return list(range(len(prepared.positions) - (which == "all but the last")))
