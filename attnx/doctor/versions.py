"""Versions, and whether every package that attnx requires is there and new enough."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from importlib import metadata

import attnx
from attnx.doctor.finding import Finding

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

    asked = [Requirement(line) for line in metadata.requires("attnx") or []]
    return {one.name: str(one.specifier) for one in asked if one.marker is None or one.marker.evaluate()}


def _version(name: str, wanted: str) -> tuple[str, str]:
    """The installed version, and what is wrong with it; both may be empty."""
    from packaging.specifiers import SpecifierSet

    try:
        found = metadata.version(name)
    except metadata.PackageNotFoundError:
        return "", f"{name} is not installed"
    fits = SpecifierSet(wanted).contains(found, prereleases=True)
    return found, "" if fits else f"{name} {found} is not {wanted}"
