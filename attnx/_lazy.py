"""The interface of a package: what its `__init__.pyi` exports, each name loaded when it is first used.

Type checkers read the stub as it stands; at run time `attach_stub` reads the same file. So importing one name of a
package does not import the others, and nothing is listed twice.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any


def attach_stub(package: str, init: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` for the package whose `__init__.py` is the file `init`."""

    @cache
    def exports() -> dict[str, str]:
        stub = ast.parse(Path(init).with_suffix(".pyi").read_text(encoding="utf-8"))
        imports = [node for node in stub.body if isinstance(node, ast.ImportFrom) and node.module]
        return {alias.asname or alias.name: str(node.module) for node in imports for alias in node.names}

    def load(name: str) -> Any:
        module = exports().get(name)
        if module is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(module), name)
        setattr(sys.modules[package], name, value)
        return value

    return load, lambda: sorted(exports())
