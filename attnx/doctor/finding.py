"""One line of a doctor's report: what was looked at, how it is, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["fine", "note", "broken"]


@dataclass(frozen=True)
class Finding:
    """What was found of one thing on this machine. What is not fine comes with advice."""

    name: str
    status: Status
    found: str
    advice: str = ""
    needed: bool = False
    """Whether a plain `attnx explain "a text"` cannot do without it."""

    @property
    def stops_explain(self) -> bool:
        """Whether this is why a plain `attnx explain` does not work."""
        return self.needed and self.status == "broken"
