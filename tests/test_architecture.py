"""The architecture is a test: imports go down the layers, no cycle closes, and the code base only gets smaller."""

import ast
import json
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import attnx
from tests import architecture
from tests.children import python


def test_the_contracts_of_the_imports_are_kept():
    pytest.importorskip("importlinter", reason="import-linter is in the dev extra: pip install attnx[dev]")
    done = subprocess.run(["lint-imports", "--no-cache"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout  # names the imports that close a circle or go up


def test_the_surface_is_what_all_says_and_nothing_else():
    shown = [name for name in dir(attnx) if not name.startswith("_")]
    assert shown == sorted(attnx.__all__)
    for name in attnx.__all__:
        assert getattr(attnx, name) is not None


def test_no_function_has_the_name_of_a_package(children):
    code = (
        "import attnx, pkgutil; packages = {module.name for module in pkgutil.iter_modules(attnx.__path__)};"
        "print(sorted(packages & set(attnx.__all__)))"
    )
    assert children.run(python(code)).stdout.strip() == "[]"


PACKAGES = sorted(path.parent for path in Path(attnx.__path__[0]).glob("*/__init__.pyi"))


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_a_package_exports_what_other_packages_import(package):
    module = import_module(f"attnx.{package.name}")
    exports = {alias.name for node in _nodes(package / "__init__.pyi", ast.ImportFrom) for alias in node.names}
    assert dir(module) == sorted(exports)
    for name in exports:
        assert getattr(module, name) is not None
    root = package.parents[1]
    others = [path for path in package.parent.rglob("*.py") if package not in path.parents]
    others += [*(root / "docs").rglob("*.py"), *(root / "examples").rglob("*.py")]
    used = {
        name
        for path in (*others, package.parent / "__init__.pyi")
        if path.exists()
        for name in _uses(path, package.name)
    }
    assert exports - used == set(), "no other package imports these"


def _uses(path, package):
    """Names of the package that a file imports from it or looks up in it."""
    for node in _nodes(path, ast.ImportFrom):
        if node.module == f"attnx.{package}":
            yield from (alias.name for alias in node.names)
    for node in _nodes(path, ast.Attribute):
        if isinstance(node.value, ast.Name) and node.value.id == package:
            yield node.attr


def _nodes(path, kind):
    return [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, kind)]


def test_what_is_content_is_said_in_one_place():
    own = Path(attnx.__path__[0], "adapters", "positions.py")
    for path in set(Path(attnx.__path__[0]).rglob("*.py")) - {own}:
        for line in path.read_text(encoding="utf-8").splitlines():
            assert not re.search(r" for (\w+) in .* if (not )?\1\.(special|is_punctuation)\b", line), f"{path}: {line}"


def test_gradients_are_switched_where_no_signal_can_cut_the_switch_in_two():
    root = Path(attnx.__path__[0])
    own = {"demo_models", "doctor.py"}  # models of attnx itself
    within = {root / "linearize/rules.py"}  # inside a run that gives all switches back
    for path in set(root.rglob("*.py")) - within:
        if path.relative_to(root).parts[0] not in own:
            assert "with torch.no_grad" not in path.read_text(encoding="utf-8"), path
            assert "@torch.no_grad" not in path.read_text(encoding="utf-8"), path


def test_no_two_classes_share_a_name():
    """But for the tasks, which are of one layout: a generator, a training by its `Recipe`, a checkpoint."""
    where = {}
    for path in sorted(Path(attnx.__file__).parent.rglob("*.py")):
        if "demo_models" not in path.parts:
            for name in re.findall(r"^class ([A-Z]\w+)", path.read_text(encoding="utf-8"), re.MULTILINE):
                where.setdefault(name, []).append(path.name)
    assert {name: files for name, files in where.items() if len(files) > 1} == {}


@pytest.mark.slow
def test_the_code_base_only_gets_smaller(children):
    stored = json.loads(architecture.STORED.read_text(encoding="utf-8"))
    measured = json.loads(children.run([sys.executable, "-m", "tests.architecture", "--json"]).stdout)
    larger = {name: (measured[name], limit) for name, limit in stored.items() if measured[name] > limit}
    assert larger == {}, "if a new capability needs it: python -m tests.architecture --write, and say why in the commit"
