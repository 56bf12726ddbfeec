"""The public surface as text: every public name, its signature, and what its objects have.

    python -m tests.surface

writes it to tests/surface.txt, which tests/test_surface.py holds against the code: a change of it is a decision.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attnx

STORED = Path(__file__).parent / "surface.txt"


def surface() -> str:
    lines = [line for name in sorted(attnx.__all__) for line in _of(name, getattr(attnx, name))]
    return "\n".join(lines) + "\n"


def _of(name: str, thing: Any) -> Iterator[str]:
    if not inspect.isclass(thing):
        yield f"{name}{_arguments(thing)}"
        return
    yield f"{name}{_arguments(thing)}"
    for own in sorted(one for one in dir(thing) if not one.startswith("_")):
        found = inspect.getattr_static(thing, own)
        if isinstance(found, (staticmethod, classmethod)) or inspect.isfunction(found):
            yield f"    {own}{_arguments(getattr(thing, own))}"
        else:
            yield f"    {own}"


def _arguments(thing: Any) -> str:
    """Names and defaults; types may become wider without anybody's code breaking."""
    try:
        parameters = inspect.signature(thing).parameters.values()
    except (TypeError, ValueError):
        return "(…)"
    bare = [one.replace(annotation=one.empty) for one in parameters if one.name not in ("self", "cls")]
    return str(inspect.Signature(bare))


if __name__ == "__main__":
    STORED.write_text(surface(), encoding="utf-8")
