"""`attnx doctor`: checks of this machine and installation, with advice for everything that does not work.

What may kill the process, such as half precision on some processors, is tried in a child process. Nothing but the
standard library is imported at the top: the test suite needs the check of half precision before torch is imported.
"""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Literal, NamedTuple


@dataclass(frozen=True)
class Finding:
    """The result of a check, with advice unless it is ok."""

    name: str
    status: Literal["ok", "warning", "broken"]
    detail: str
    advice: str = ""
    required: bool = False
    """Whether a plain `attnx explain "a text"` needs it."""

    @property
    def stops_explain(self) -> bool:
        return self.required and self.status == "broken"


Check = Callable[[], Iterable[Finding]]


def examine(checks: Sequence[Check] = ()) -> list[Finding]:
    """Run the checks in parallel, for most of them wait for a child process; a check that raises is broken itself."""
    checks = checks or (versions, machine, half_precision, flow_code, models, optional_packages)
    with ThreadPoolExecutor(len(checks)) as pool:
        return [finding for findings in pool.map(_run_check, checks) for finding in findings]


def _run_check(check: Check) -> list[Finding]:
    try:
        return list(check())
    except Exception as error:
        name = getattr(check, "__name__", "check").replace("_", " ")
        detail = f"the check failed: {type(error).__name__}: {error}"
        return [Finding(name, "broken", detail, "install attnx in a new environment", required=True)]


def explain_works(findings: Iterable[Finding]) -> bool:
    """Whether everything that a plain `attnx explain` needs works."""
    return not any(finding.stops_explain for finding in findings)


def to_text(findings: Sequence[Finding]) -> str:
    """A line for each finding with its advice below, and a summary."""
    from attnx.views import aligned, printable

    lines: list[list[str]] = []
    for finding in findings:
        lines.append([finding.status, finding.name, printable(finding.detail)])
        if finding.advice:
            lines.append(["", "", f"→ {printable(finding.advice)}"])
    broken = [finding.name for finding in findings if finding.status == "broken"]
    summary = "Nothing is broken."
    if broken:
        verb = "still works" if explain_works(findings) else "does not work"
        summary = f"Broken: {', '.join(broken)}. A plain `attnx explain` {verb}."
    return f"{aligned(lines)}\n\n{summary}"


def to_json(findings: Sequence[Finding]) -> str:
    """The same for programs and bug reports."""
    from attnx.views import printable

    rows = [
        {key: printable(value) if isinstance(value, str) else value for key, value in asdict(finding).items()}
        for finding in findings
    ]
    return json.dumps({"explain_works": explain_works(findings), "findings": rows}, ensure_ascii=False)


# Child processes

CHILD_TIMEOUT = 120.0
"""Seconds. No child needs ten; a busy machine may take many times that."""


class ChildResult(NamedTuple):
    """The lines that a child printed, and its error or ""."""

    lines: tuple[str, ...]
    error: str


def run_child(code: str, *arguments: str, environment: Mapping[str, str] | None = None) -> ChildResult:
    """Run Python code with the modules that this process would import."""
    modules = os.pathsep.join(path or os.getcwd() for path in sys.path)  # noqa: PTH109 - a string is wanted
    try:
        child = subprocess.run(
            [sys.executable, "-P", "-X", "utf8", "-c", code, *arguments],
            env={**os.environ, "PYTHONPATH": modules, **(environment or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=CHILD_TIMEOUT,
        )
    except subprocess.TimeoutExpired:
        return ChildResult((), f"no answer within {CHILD_TIMEOUT:.0f} s")
    except OSError as error:
        return ChildResult((), f"no process could be started: {error}")
    return ChildResult(tuple(child.stdout.splitlines()), _error_of(child))


def _error_of(child: subprocess.CompletedProcess[str]) -> str:
    """The signal that killed it, or the last line of its traceback."""
    if child.returncode < 0:
        names = {member.value: member.name for member in signal.Signals}
        return f"killed by {names.get(-child.returncode, f'signal {-child.returncode}')}"
    if child.returncode > 0:
        return (child.stderr.strip().splitlines() or [f"exit code {child.returncode}"])[-1]
    return ""


ChildRun = Callable[..., ChildResult]
"""`run_child`, or a stand-in for it."""


def failures(
    program: str, names: Iterable[str], *, environment: Mapping[str, str] | None = None, run: ChildRun = run_child
) -> dict[str, str]:
    """The error of each name that fails.

    The program takes names and prints each that works. Where a child ends early, another one resumes after that name.
    """
    errors: dict[str, str] = {}
    remaining = list(names)
    while remaining:
        child = run(program, *remaining, environment=environment)
        remaining = [name for name in remaining if name not in child.lines]
        if remaining:
            errors[remaining.pop(0)] = child.error or "no answer"
    return errors


# Half precision. Some virtual machines report AMX among the processor's features and do not run it: torch then ends the
# process with "Illegal instruction" in the middle of a model in bfloat16. oneDNN, which picks the instructions for
# torch, can be told to avoid AMX by a variable that it reads once.

DTYPES = ("bfloat16", "float16")
LIMIT = {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}
"""The best instructions before AMX; without effect on processors that lack them."""

HALF_PRECISION_PROGRAM = """
import sys
import torch

for name in sys.argv[1:]:
    dtype = getattr(torch, name)
    for width in (32, 256):
        layer = torch.nn.Linear(width, width, bias=False, dtype=dtype)
        for batch, length in ((1, 9), (2, 64)):
            states = torch.ones(batch, length, width, dtype=dtype)
            with torch.no_grad():
                layer(states)
            layer(states).sum().backward()
    print(name, flush=True)
"""
"""What dies is a Linear without bias on batch × n × width, with and without gradient; n × width may well run."""


def half_precision_failures(
    program: str = HALF_PRECISION_PROGRAM, run: ChildRun = run_child
) -> tuple[dict[str, str], dict[str, str]]:
    """The error of each dtype that does not run: on the machine as it is, and under `LIMIT`."""
    errors = failures(program, DTYPES, run=run)
    return errors, failures(program, DTYPES, environment=LIMIT, run=run) if errors else {}


def half_precision(program: str = HALF_PRECISION_PROGRAM) -> Iterator[Finding]:
    errors, limited = half_precision_failures(program)
    for dtype in DTYPES:
        name = f"{dtype} on the CPU"
        if dtype not in errors:
            yield Finding(name, "ok", "runs")
            continue
        advice = "load such models with dtype=torch.float32; torch cannot run them here, with or without attnx"
        if dtype not in limited:
            setting = " ".join(f"{variable}={value}" for variable, value in LIMIT.items())
            advice = f"set {setting} before Python starts (tested: it works), or load models with dtype=torch.float32"
        yield Finding(name, "broken", errors[dtype], advice)


# Packages

NAMED = ("torch", "transformers", "captum", "numba")
"""Packages with a line of their own: a bug report is rarely complete without them."""
REQUIRED = frozenset(
    ("torch", "transformers", "numba", "llvmlite", "numpy", "safetensors", "tokenizers", "rich", "typer")
)
"""What a plain `explain` imports; the others are for further methods, plots, pages and images."""
OPTIONAL = {"pandas": "to_frame()", "datasets": "GLUE", "bertviz": "its views"}


def versions() -> Iterator[Finding]:
    import attnx

    yield Finding("attnx", "ok", attnx.__version__)
    yield Finding("Python", "ok", f"{platform.python_version()} on {platform.platform()}")
    ranges = _required_versions()
    for name in NAMED:
        version, error = _version(name, ranges[name])
        yield _package_finding(name, version, {name: error} if error else {})
    others = {name: _version(name, ranges[name])[1] for name in sorted(set(ranges) - set(NAMED))}
    errors = {name: error for name, error in others.items() if error}
    yield _package_finding("other packages", f"{len(others)} installed", errors)


def optional_packages() -> Iterator[Finding]:
    installed = {name: _version(name, "")[0] for name in OPTIONAL}
    missing = [name for name, version in installed.items() if not version]
    detail = ", ".join(f"{name} {version or 'is not installed'}" for name, version in installed.items())
    advice = ", ".join(f"pip install {name} for {OPTIONAL[name]}" for name in missing)
    yield Finding("optional packages", "warning" if missing else "ok", detail, advice)


def _package_finding(name: str, detail: str, errors: dict[str, str]) -> Finding:
    required = not REQUIRED.isdisjoint(errors or {name})
    if not errors:
        return Finding(name, "ok", detail, required=required)
    return Finding(name, "broken", "; ".join(errors.values()), f"pip install --upgrade {' '.join(errors)}", required)


def _required_versions() -> dict[str, str]:
    """The range of versions that attnx's metadata requires of each package."""
    from packaging.requirements import Requirement

    requirements = [Requirement(line) for line in metadata.requires("attnx") or []]
    return {
        requirement.name: str(requirement.specifier)
        for requirement in requirements
        if requirement.marker is None or requirement.marker.evaluate()
    }


def _version(name: str, specifier: str) -> tuple[str, str]:
    """The installed version and what is wrong with it; either may be empty."""
    from packaging.specifiers import SpecifierSet

    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return "", f"{name} is not installed"
    fits = SpecifierSet(specifier).contains(version, prereleases=True)
    return version, "" if fits else f"{name} {version} is not {specifier}"


# The machine

LITTLE_MEMORY = 2 * 2**30
"""Bytes of free memory below which a model of ordinary size may not fit."""
_MEMORY = Path("/proc/meminfo")
_CONTAINER = Path("/sys/fs/cgroup/memory.max")


def machine() -> Iterator[Finding]:
    import torch

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    yield Finding("cores", "ok", f"{cores}; torch uses {torch.get_num_threads()} threads")
    yield _memory()
    devices = [f"cuda:{index} {torch.cuda.get_device_name(index)}" for index in range(torch.cuda.device_count())]
    devices += ["mps"] * torch.backends.mps.is_available() + ["xpu"] * torch.xpu.is_available()
    yield Finding("accelerators", "ok", ", ".join(devices) or "none: models run on the CPU")


def _memory() -> Finding:
    try:
        lines = dict(line.split(":", 1) for line in _MEMORY.read_text().splitlines())
        total, free = (1024 * int(lines[name].split()[0]) for name in ("MemTotal", "MemAvailable"))
    except (OSError, KeyError, ValueError):
        return Finding("memory", "ok", "not known on this system")
    try:
        limit = int(_CONTAINER.read_text())
    except (OSError, ValueError):  # there is none, or it is "max"
        limit = None
    detail = f"{_size(total)}, {_size(free)} of it free" + (f"; this container may use {_size(limit)}" if limit else "")
    if min(free, limit or free) >= LITTLE_MEMORY:
        return Finding("memory", "ok", detail)
    return Finding("memory", "warning", detail, "end other programs; explain short texts, or use --method rollout only")


def _size(number: int) -> str:
    return f"{number / 2**30:.1f} GB"


# The compiled code of flow

FLOW_PROGRAM = """
import numpy as np
import attnx

even = np.full((3, 1, 2, 2), 0.5)
print(*attnx.flow(even, layer=3, position=0).round(6))
"""
FLOW_ANSWER = "1.0 0.75"
"""Half of each position is residual: everything that enters the position itself, and three times a quarter."""
_CACHE_ADVICE = "set XDG_CACHE_HOME to a writable directory; without one every process compiles again"


def flow_code(run: ChildRun = run_child) -> Iterator[Finding]:
    from attnx.methods import directories, kept_code

    name, before = "compiled code of flow", kept_code()
    child = run(FLOW_PROGRAM)
    after = kept_code()
    error = child.error
    if not error and child.lines != (FLOW_ANSWER,):
        error = f"a flow of {FLOW_ANSWER} was computed as {' '.join(child.lines) or 'nothing'}"
    if error:
        advice = "pip install --upgrade numba llvmlite; until then do without flow: --method rollout"
        yield Finding(name, "broken", error, advice, required=True)
    elif after is None:
        yield Finding(name, "warning", "compiles, but cannot be cached", _CACHE_ADVICE, required=True)
    else:
        yield Finding(name, "ok", f"{'cached' if before else 'compiled now and cached'} in {after}", required=True)
    folders = list(directories())
    writable = next(filter(_is_writable, folders), None)
    if writable is None:
        detail = f"{' and '.join(map(str, folders))} cannot be written"
        yield Finding("cache", "warning", detail, _CACHE_ADVICE)
    else:
        yield Finding("cache", "ok", f"{writable} is writable")


def _is_writable(folder: Path) -> bool:
    """Tested by writing: permissions say little to root, and nothing about a disk that is full or read-only."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"attnx")
    except OSError:
        return False
    return True


# The models that ship with attnx

TEXT = "the key to the cabinets"
MODELS_PROGRAM = """
import sys
from attnx.doctor import MODELS

for name in sys.argv[1:]:
    MODELS[name]()
    print(name, flush=True)
"""
_METHODS = ("raw", "rollout")
"""Flow has a check of its own."""


def models(run: ChildRun = run_child) -> Iterator[Finding]:
    errors = failures(MODELS_PROGRAM, MODELS, environment={"HF_HUB_OFFLINE": "1"}, run=run)
    advice = "pip install --force-reinstall --no-deps attnx; if that does not help, report all these lines"
    for name in MODELS:
        required = name == "text model"
        if name in errors:
            yield Finding(name, "broken", errors[name], advice, required)
        else:
            yield Finding(name, "ok", "loads, and gives the expected answer", required=required)


def explain_text() -> None:
    """The README's first example."""
    from attnx import explain, load_demo

    check(explain(*load_demo(), TEXT, methods=_METHODS), "singular", 0.979, "cabinets", 0.335)


def explain_image() -> None:
    """The first image of the planted-patch task: a ring in the patch r4c4."""
    from attnx import explain
    from attnx.demo_models import generate
    from attnx.demo_models.planted_patch import load_demo

    check(explain(*load_demo(), generate(1)[0].image, methods=_METHODS), "ring", 1.0, "r4c4", 0.196)


def check(explanation: Any, label: str, probability: float, best: str, score: float) -> None:
    """Raise unless this is the prediction and rollout's best word or patch, up to differences between processors."""
    from attnx.errors import AttnxError

    prediction, (top,) = explanation.prediction, explanation.top(1, method="rollout")
    if (prediction.label, top.text) == (label, best) and max(
        abs(prediction.probability - probability), abs(top.score - score)
    ) < 0.01:
        return
    raise AttnxError(
        f"expected {label} ({probability:.2f}) with {best} ({score:.2f}) on top, found {prediction.label} "
        f"({prediction.probability:.2f}) with {top.text} ({top.score:.2f})"
    )


MODELS: dict[str, Callable[[], None]] = {"text model": explain_text, "image model": explain_image}
