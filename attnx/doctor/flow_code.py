"""Flow's machine code: whether it compiles and gives the right answer, and whether it can be kept for the next time."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from attnx.doctor.child import ChildRun, run_child
from attnx.doctor.finding import Finding
from attnx.methods.flow.machine_code import directories, kept_code

PROGRAM = """
import numpy as np
import attnx

even = np.full((3, 1, 2, 2), 0.5)
print(*attnx.flow(even, layer=3, position=0).round(6))
"""
ANSWER = "1.0 0.75"
"""With half of each position kept as residual, all that enters the position itself, and three times a quarter."""

_CACHE_ADVICE = "set XDG_CACHE_HOME to a directory that you may write to; without one every process compiles anew"


def flow_code(run: ChildRun = run_child) -> Iterator[Finding]:
    """A line on the code and one on the place where it is kept."""
    before = kept_code()
    ended = run(PROGRAM)
    yield _code(before, kept_code(), ended.trouble or _wrong(ended.lines))
    yield _cache()


def _code(before: Path | None, after: Path | None, trouble: str) -> Finding:
    name = "flow's machine code"
    if trouble:
        advice = "pip install --upgrade numba llvmlite; until then leave flow out: --method rollout"
        return Finding(name, "broken", trouble, advice, needed=True)
    if after is None:
        return Finding(name, "note", "compiles, and is kept nowhere", _CACHE_ADVICE, needed=True)
    return Finding(name, "fine", f"{'kept' if before else 'compiled now, and kept'} in {after}", needed=True)


def _wrong(lines: tuple[str, ...]) -> str:
    return "" if lines == (ANSWER,) else f"a flow of {ANSWER} came out as {' '.join(lines) or 'nothing'}"


def _cache() -> Finding:
    places = list(directories())
    usable = [place for place in places if _may_write(place)]
    if not usable:
        found = f"{' and '.join(map(str, places))} cannot be written"
        return Finding("cache", "note", found, _CACHE_ADVICE)
    return Finding("cache", "fine", f"{usable[0]} can be written")


def _may_write(place: Path) -> bool:
    """Found out by writing: permissions say little to root, and nothing of a disk that is full or read-only."""
    try:
        place.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=place) as file:
            file.write(b"attnx")
    except OSError:
        return False
    return True
