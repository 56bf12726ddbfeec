"""All checks side by side, for most of them wait for a child; and what they found, in the order of the report."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

from attnx.doctor.finding import Finding
from attnx.doctor.flow_code import flow_code
from attnx.doctor.machine import machine
from attnx.doctor.models import models
from attnx.doctor.precision import precision
from attnx.doctor.versions import optional_parts, versions

Check = Callable[[], Iterable[Finding]]

CHECKS: tuple[Check, ...] = (versions, machine, precision, flow_code, models, optional_parts)


def examine(checks: Iterable[Check] = CHECKS) -> list[Finding]:
    """What each check found. That a check failed itself is a finding, too: this is run where things are broken."""
    checks = tuple(checks)
    with ThreadPoolExecutor(len(checks)) as pool:
        return [finding for findings in pool.map(_made, checks) for finding in findings]


def _made(check: Check) -> list[Finding]:
    name = getattr(check, "__name__", "check").replace("_", " ")
    try:
        return list(check())
    except Exception as error:
        found = f"could not be examined: {type(error).__name__}: {error}"
        return [Finding(name, "broken", found, "install attnx anew, in an environment of its own", needed=True)]
