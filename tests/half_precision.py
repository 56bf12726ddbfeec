"""Whether models in half precision run here, found out once for a whole run and before torch is imported.

Where they kill the process, oneDNN is limited to what runs; what still does not is skipped, with the reason. Workers
and children find the answer in their environment.

    ATTNX_TESTS_STAND_IN="import os, signal; os.kill(os.getpid(), signal.SIGILL)" pytest

puts another program in place of the one that tries, to see the suite as it is on such a machine.
"""

from __future__ import annotations

import json
import os
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

FOUND = "ATTNX_TESTS_HALF_PRECISION"
STAND_IN = "ATTNX_TESTS_STAND_IN"


def settle() -> None:
    """Try it, unless a parent did, and limit oneDNN if that helps."""
    if FOUND in os.environ:
        return
    half_precision = _load("half_precision")
    program = os.environ.get(STAND_IN, half_precision.HALF_PRECISION_PROGRAM)
    found = half_precision.try_half_precision(half_precision.troubles, program)
    helps = len(found.limited) < len(found.troubles)
    limit = half_precision.LIMIT if helps else {}
    os.environ.update(limit)
    left = found.limited if helps else found.troubles
    os.environ[FOUND] = json.dumps({"died": found.troubles, "left": left, "limit": limit})


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


def _load(name: str) -> ModuleType:
    """A file of `attnx.doctor` by its path: to import it from attnx would import torch, which reads the limit once."""
    spec = spec_from_file_location(f"{__name__}_{name}", Path(__file__).parents[1] / "attnx" / "doctor" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # where a dataclass looks for the names in its annotations
    spec.loader.exec_module(module)
    return module
