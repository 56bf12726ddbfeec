"""All checks side by side, for most of them wait for a child; and what they found, in the order of the report."""

from __future__ import annotations

import json
import os
import platform
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import torch

import attnx
from attnx.doctor.half_precision import (
    DTYPES,
    LIMIT,
    ChildRun,
    run_child,
    troubles,
    try_half_precision,
)
from attnx.doctor.half_precision import (
    HALF_PRECISION_PROGRAM as PROGRAM,
)
from attnx.errors import AttnxError
from attnx.methods import directories, kept_code
from attnx.views import aligned, printable

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


def text(findings: Sequence[Finding]) -> str:
    """A line for each finding, the advice below it, and the sum of it all at the end."""
    lines: list[list[str]] = []
    for finding in findings:
        lines.append([finding.status, finding.name, printable(finding.found)])
        if finding.advice:
            lines.append(["", "", f"→ {printable(finding.advice)}"])
    return f"{aligned(lines)}\n\n{_sum(findings)}"


def as_json(findings: Sequence[Finding]) -> str:
    """The same, for programs and for reports of a bug."""
    rows = [{key: _escaped(value) for key, value in asdict(finding).items()} for finding in findings]
    return json.dumps({"explain_works": explain_works(findings), "findings": rows}, ensure_ascii=False)


def explain_works(findings: Sequence[Finding]) -> bool:
    """Whether nothing that a plain `attnx explain` needs is broken."""
    return not any(finding.stops_explain for finding in findings)


def _sum(findings: Sequence[Finding]) -> str:
    broken = [finding.name for finding in findings if finding.status == "broken"]
    if not broken:
        return "Nothing is broken."
    end = "works all the same" if explain_works(findings) else "does not work"
    return f"Broken: {', '.join(broken)}. A plain `attnx explain` {end}."


def _escaped(value: object) -> object:
    return printable(value) if isinstance(value, str) else value


def precision(program: str = PROGRAM) -> Iterator[Finding]:
    """A line for each dtype. A plain `explain` runs in float32 and needs neither."""
    tried = try_half_precision(troubles, program)
    for dtype in DTYPES:
        name = f"{dtype} on the CPU"
        if dtype not in tried.troubles:
            yield Finding(name, "fine", "runs")
            continue
        advice = "load such models with dtype=torch.float32; torch does not run them here, with or without attnx"
        if dtype not in tried.limited:
            setting = " ".join(f"{variable}={value}" for variable, value in LIMIT.items())
            advice = f"set {setting} before Python starts (tried: it runs so), or load models with dtype=torch.float32"
        yield Finding(name, "broken", tried.troubles[dtype], advice)


NAMED = ("torch", "transformers", "captum", "numba")
"""The packages that a report is hardly ever complete without; each has its line."""

NEEDED = frozenset(
    ("torch", "transformers", "numba", "llvmlite", "numpy", "safetensors", "tokenizers", "rich", "typer")
)
"""What a plain `explain` imports. The other packages are for references, plots, pages and pictures."""

OPTIONAL = {"pandas": "to_frame()", "datasets": "GLUE", "bertviz": "its views"}
"""What attnx uses where it is installed, and for what."""


def versions() -> Iterator[Finding]:
    """A line each for attnx, Python and the packages that matter most, and one line for all others."""
    yield Finding("attnx", "fine", attnx.__version__)
    yield Finding("Python", "fine", f"{platform.python_version()} on {platform.platform()}")
    ranges = _required()
    for name in NAMED:
        found, wrong = _version(name, ranges[name])
        yield _finding(name, found, {name: wrong} if wrong else {})
    others = {name: _version(name, ranges[name])[1] for name in sorted(set(ranges) - set(NAMED))}
    wrong_ones = {name: wrong for name, wrong in others.items() if wrong}
    yield _finding("other packages", f"{len(others)} installed", wrong_ones)


def optional_parts() -> Iterator[Finding]:
    """Which of the packages that attnx can do without are installed."""
    found = {name: _version(name, "")[0] for name in OPTIONAL}
    parts = [f"{name} {version or 'is not installed'}" for name, version in found.items()]
    missing = [name for name, version in found.items() if not version]
    advice = ", ".join(f"pip install {name} for {OPTIONAL[name]}" for name in missing)
    yield Finding("optional parts", "note" if missing else "fine", ", ".join(parts), advice)


def _finding(name: str, found: str, wrong: dict[str, str]) -> Finding:
    needed = not NEEDED.isdisjoint(wrong or {name})
    if not wrong:
        return Finding(name, "fine", found, needed=needed)
    return Finding(name, "broken", "; ".join(wrong.values()), f"pip install --upgrade {' '.join(wrong)}", needed)


def _required() -> dict[str, str]:
    """The range of versions of each package that attnx requires, as its own metadata has them."""
    from packaging.requirements import Requirement

    requirements = [Requirement(line) for line in metadata.requires("attnx") or []]
    return {
        requirement.name: str(requirement.specifier)
        for requirement in requirements
        if requirement.marker is None or requirement.marker.evaluate()
    }


def _version(name: str, wanted: str) -> tuple[str, str]:
    """The installed version, and what is wrong with it; both may be empty."""
    from packaging.specifiers import SpecifierSet

    try:
        found = metadata.version(name)
    except metadata.PackageNotFoundError:
        return "", f"{name} is not installed"
    fits = SpecifierSet(wanted).contains(found, prereleases=True)
    return found, "" if fits else f"{name} {found} is not {wanted}"


LITTLE = 2 * 2**30
"""Bytes of free memory below which a model of ordinary size may not fit."""

_MEMORY = Path("/proc/meminfo")
_CONTAINER = Path("/sys/fs/cgroup/memory.max")


def machine() -> Iterator[Finding]:
    """What models run on here."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    yield Finding("cores", "fine", f"{cores}, and torch uses {torch.get_num_threads()} threads")
    yield _memory()
    yield Finding("accelerators", "fine", ", ".join(_accelerators()) or "none: models run on the processor")


def _memory() -> Finding:
    try:
        lines = dict(line.split(":", 1) for line in _MEMORY.read_text().splitlines())
        total, free = (1024 * int(lines[name].split()[0]) for name in ("MemTotal", "MemAvailable"))
    except (OSError, KeyError, ValueError):
        return Finding("memory", "fine", "not known on this system")
    limit = _container_limit()
    found = f"{_size(total)}, {_size(free)} of it free" + (f"; this container may use {_size(limit)}" if limit else "")
    if min(free, limit or free) >= LITTLE:
        return Finding("memory", "fine", found)
    return Finding("memory", "note", found, "end other programs; explain short texts, or --method rollout alone")


def _container_limit() -> int | None:
    try:
        return int(_CONTAINER.read_text())
    except (OSError, ValueError):  # there is none, or it is "max"
        return None


def _accelerators() -> Iterator[str]:
    for index in range(torch.cuda.device_count()):
        yield f"cuda:{index} {torch.cuda.get_device_name(index)}"
    if torch.backends.mps.is_available():
        yield "mps"
    if torch.xpu.is_available():
        yield "xpu"


def _size(number: int) -> str:
    return f"{number / 2**30:.1f} GB"


FLOW_PROGRAM = """
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
    ended = run(FLOW_PROGRAM)
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
        name = f"{' and '.join(map(str, places))} cannot be written"
        return Finding("cache", "note", name, _CACHE_ADVICE)
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


TEXT = "the key to the cabinets"

MODELS_PROGRAM = """
import sys
from attnx.doctor.checks import MODELS

for name in sys.argv[1:]:
    MODELS[name]()
    print(name, flush=True)
"""

_OFFLINE = {"HF_HUB_OFFLINE": "1"}
_METHODS = ("raw", "rollout")
"""Flow has a line of its own."""


def models(run: ChildRun = run_child) -> Iterator[Finding]:
    """A line for each model. A plain `explain` needs the one for texts."""
    found = troubles(MODELS_PROGRAM, tuple(MODELS), environment=_OFFLINE, run=run)
    advice = "pip install --force-reinstall --no-deps attnx; if that changes nothing, report all these lines"
    for name in MODELS:
        needed = name == "text model"
        if name in found:
            yield Finding(name, "broken", found[name], advice, needed)
        else:
            yield Finding(name, "fine", "loads, and gives the answer that it should", needed=needed)


def explain_text() -> None:
    """The README's first example."""
    from attnx import explain, load_demo

    explanation = explain(*load_demo(), TEXT, methods=_METHODS)
    check(explanation, "singular", 0.979, "cabinets", 0.335)


def explain_picture() -> None:
    """The first picture that the planted-patch task draws: a ring in the patch r4c4."""
    from attnx import explain
    from attnx.demo_models import generate
    from attnx.demo_models.planted_patch import load_demo

    explanation = explain(*load_demo(), generate(1)[0].image, methods=_METHODS)
    check(explanation, "ring", 1.0, "r4c4", 0.196)


def check(explanation: Any, label: str, probability: float, best: str, score: float) -> None:
    """Raise unless the answer and rollout's best word or patch are these, up to what processors differ by."""
    answer, (top,) = explanation.prediction, explanation.top(1, method="rollout")
    expected = f"{label} ({probability:.2f}), most from {best} ({score:.2f})"
    near = abs(answer.probability - probability) < 0.01 and abs(top.score - score) < 0.01
    if (answer.label, top.text) != (label, best) or not near:
        name = f"{answer.label} ({answer.probability:.2f}), most from {top.text} ({top.score:.2f})"
        raise AttnxError(f"it should say {expected}; it says {name}")


MODELS: Mapping[str, Callable[[], None]] = MappingProxyType(
    {"text model": explain_text, "image model": explain_picture}
)


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
