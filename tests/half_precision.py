"""Whether models in half precision run here, found out once for a whole run and before torch is imported.

Where they kill the process, oneDNN is limited to what runs; what still does not is skipped, with the reason. Workers
and children find the answer in their environment.

    ATTNX_TESTS_STAND_IN="import os, signal; os.kill(os.getpid(), signal.SIGILL)" pytest

puts another program in place of the one that tries, to see the suite as it is on such a machine.
"""

from __future__ import annotations

import json
import os

import pytest

from attnx.doctor import HALF_PRECISION_PROGRAM, LIMIT, half_precision_failures

FOUND = "ATTNX_TESTS_HALF_PRECISION"
STAND_IN = "ATTNX_TESTS_STAND_IN"


def settle() -> None:
    """Try it, unless a parent did, and limit oneDNN if that helps."""
    if FOUND in os.environ:
        return
    errors, limited = half_precision_failures(os.environ.get(STAND_IN, HALF_PRECISION_PROGRAM))
    helps = len(limited) < len(errors)
    limit = LIMIT if helps else {}
    os.environ.update(limit)
    os.environ[FOUND] = json.dumps({"died": errors, "left": limited if helps else errors, "limit": limit})


def runs() -> bool:
    """Whether all of it runs without any limit."""
    return not json.loads(os.environ[FOUND])["died"]


def report() -> str:
    """One line for the head of a run."""
    if runs():
        return "half precision: runs"
    found = json.loads(os.environ[FOUND])
    died = _listed(found["died"])
    limit = "".join(f"; {name}={value} is set" for name, value in found["limit"].items())
    left = f"; the tests of {' and '.join(found['left'])} skip" if found["left"] else ""
    return f"half precision: {died}{limit}{left}"


def needs(dtype: str) -> None:
    """Skip the test where models of this dtype do not run."""
    left = json.loads(os.environ[FOUND])["left"]
    if dtype in left:
        pytest.skip(f"models in {dtype} do not run on this processor: {left[dtype]}")


def _listed(troubles: dict[str, str]) -> str:
    return ", ".join(f"{dtype} {trouble}" for dtype, trouble in troubles.items())
