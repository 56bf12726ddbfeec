"""What was found, on one screen and as JSON. Paths and messages are anybody's text, so they are shown escaped."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from attnx.doctor.finding import Finding
from attnx.render.columns import aligned
from attnx.render.printable import printable


def text(findings: Sequence[Finding]) -> str:
    """A line for each finding, the advice below it, and the sum of it all at the end."""
    lines: list[list[str]] = []
    for one in findings:
        lines.append([one.status, one.name, printable(one.found)])
        if one.advice:
            lines.append(["", "", f"→ {printable(one.advice)}"])
    return f"{aligned(lines)}\n\n{_sum(findings)}"


def as_json(findings: Sequence[Finding]) -> str:
    """The same, for programs and for reports of a bug."""
    rows = [{key: _escaped(value) for key, value in asdict(one).items()} for one in findings]
    return json.dumps({"explain_works": explain_works(findings), "findings": rows}, ensure_ascii=False)


def explain_works(findings: Sequence[Finding]) -> bool:
    """Whether nothing that a plain `attnx explain` needs is broken."""
    return not any(one.stops_explain for one in findings)


def _sum(findings: Sequence[Finding]) -> str:
    broken = [one.name for one in findings if one.status == "broken"]
    if not broken:
        return "Nothing is broken."
    end = "works all the same" if explain_works(findings) else "does not work"
    return f"Broken: {', '.join(broken)}. A plain `attnx explain` {end}."


def _escaped(value: object) -> object:
    return printable(value) if isinstance(value, str) else value
