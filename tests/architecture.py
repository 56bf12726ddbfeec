"""The size and shape of attnx in numbers: `python -m tests.architecture` prints them beside the targets.

`tests/test_architecture.py` compares each number with the one stored in `tests/architecture.json`: it may only fall.
After a change that lowers one, `python -m tests.architecture --write` stores it.
"""

from __future__ import annotations

import ast
import dataclasses
import json
import os
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import attnx

PACKAGE = Path(attnx.__file__).parent
STORED = Path(__file__).with_suffix(".json")
PRIVATE_WORDS = ("one", "found", "told", "own", "given", "asked")
TARGETS = {
    "modules": 160,
    "lines": 34_000,
    "files on the way of explain": 55,
    "changes of package on that way": 45,
    "kinds of dataclass built on that way": 25,
    "modules imported from outside their package, %": 25.0,
    "files that name drop_sink": 6,
    "import lines, %": 6.0,
    "public names of Explanation": 25,
    "private words as identifiers": 300,
    "lines of tests": 28_000,
}


def numbers() -> dict[str, float]:
    """Every number of `TARGETS`, measured on this code."""
    sources = {path: path.read_text(encoding="utf-8") for path in sorted(PACKAGE.rglob("*.py"))}
    trees = {path: ast.parse(source) for path, source in sources.items()}
    lines = sum(len(source.splitlines()) for source in sources.values())
    imports = [
        node for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    walk = walk_of_explain()
    return {
        "modules": len(sources),
        "lines": lines,
        "files on the way of explain": len(walk.files),
        "changes of package on that way": walk.changes,
        "kinds of dataclass built on that way": len(walk.dataclasses),
        "modules imported from outside their package, %": round(100 * _imported_from_outside(trees), 1),
        "files that name drop_sink": sum("drop_sink" in source for source in sources.values()),
        "import lines, %": round(100 * sum(node.end_lineno - node.lineno + 1 for node in imports) / lines, 1),
        "public names of Explanation": sum(not name.startswith("_") for name in dir(attnx.Explanation)),
        "private words as identifiers": sum(identifiers(trees.values())[word] for word in PRIVATE_WORDS),
        "lines of tests": sum(len(path.read_text(encoding="utf-8").splitlines()) for path in _tests()),
    }


def identifiers(trees: Any) -> Counter[str]:
    """How often each name is used as a variable, an argument or an attribute."""
    return Counter(name for tree in trees for node in ast.walk(tree) for name in _names(node))


@dataclasses.dataclass
class Walk:
    """What `print(explain(model, tokenizer, text))` visits, in the order in which functions are first called."""

    functions: dict[CodeType, str] = dataclasses.field(default_factory=dict)
    """Code → its file."""
    dataclasses: set[str] = dataclasses.field(default_factory=set)
    """The kinds that are built."""

    @property
    def files(self) -> set[str]:
        return set(self.functions.values())

    @property
    def changes(self) -> int:
        """How often the next function that is called for the first time is in another package."""
        packages = [_package(Path(path)) for path in self.functions.values()]
        return sum(package != following for package, following in pairwise(packages))

    def profile(self, frame: FrameType, event: str, argument: Any) -> None:
        """Look at a call of a function of attnx, or of the `__init__` of one of its dataclasses."""
        if event != "call":
            return
        path, made = frame.f_code.co_filename, frame.f_locals.get("self")
        kind = type(made)
        if (
            frame.f_code.co_name == "__init__"
            and dataclasses.is_dataclass(kind)
            and kind.__module__.startswith("attnx.")
        ):
            self.dataclasses.add(kind.__qualname__)
        if path.startswith(f"{PACKAGE}{os.sep}"):
            self.functions.setdefault(frame.f_code, path)


def walk_of_explain() -> Walk:
    """Walk it once more, after everything has been loaded and cached."""
    model, tokenizer = attnx.load_demo()
    text = "the keys to the cabinet"
    str(attnx.explain(model, tokenizer, text))
    walk = Walk()
    sys.setprofile(walk.profile)
    threading.setprofile(walk.profile)
    try:
        str(attnx.explain(model, tokenizer, text))
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return walk


def _imported_from_outside(trees: dict[Path, ast.Module]) -> float:
    """The share of modules that another package imports by their file, instead of from their package."""
    modules = {_dotted(path): path for path in trees if path.name != "__init__.py" and path.parent != PACKAGE}
    outside = set()
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                names = {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
                outside |= {name for name in names & modules.keys() if _package(modules[name]) != _package(path)}
    return len(outside) / len(modules)


def _dotted(path: Path) -> str:
    return ".".join(("attnx", *path.relative_to(PACKAGE).with_suffix("").parts))


def _package(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0]


def _names(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.arg):
        yield node.arg
    elif isinstance(node, ast.Attribute):
        yield node.attr


def _tests() -> Iterator[Path]:
    yield from sorted(Path(__file__).parent.rglob("*.py"))


def main() -> None:
    measured = numbers()
    if "--json" in sys.argv:
        print(json.dumps(measured))
        return
    for name, target in TARGETS.items():
        print(f"{name:50} {measured[name]:>9,} {'≤':>3} {target:>7,}")
    if "--write" in sys.argv:
        STORED.write_text(json.dumps(measured, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
