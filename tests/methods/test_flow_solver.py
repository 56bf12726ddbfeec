"""The solver as a good citizen: it can be interrupted, and does without a place to keep its code."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import attnx
from attnx.methods import flow_compile as machine_code
from tests.children import PATIENCE, Children, python
from tests.methods.flow_attentions import attention

PACKAGE = Path(attnx.__file__).parent

FLOW = """
    import numpy as np
    import attnx, sys
    attention = np.random.default_rng(0).dirichlet(np.ones(9), size=(5, 2, 9))
    print(repr(attnx.flow(attention, layer=5, position=0).tolist()))
    print("numba" in sys.modules)
"""


def flow_in(children: Children, *, packages: Path, home: Path) -> list[str]:
    """The lines that a fresh process prints."""
    environment = {**os.environ, "PYTHONPATH": str(packages), "HOME": str(home), "XDG_CACHE_HOME": str(home / "cache")}
    environment.pop("LOCALAPPDATA", None)
    done = children.run(python(FLOW), env=environment, cwd=packages)
    done.check_returncode()
    return done.stdout.splitlines()


@pytest.fixture
def expected() -> str:
    weights = np.random.default_rng(0).dirichlet(np.ones(9), size=(5, 2, 9))
    return repr(attnx.flow(weights, layer=5, position=0).tolist())


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """A directory to import attnx from, in which nothing was kept yet."""
    folder = tmp_path / "packages"
    shutil.copytree(PACKAGE, folder / "attnx", ignore=shutil.ignore_patterns("__pycache__"))
    return folder


@pytest.mark.slow
def test_a_kept_kernel_is_loaded_without_numba(
    children: Children, tmp_path: Path, packages: Path, expected: str
) -> None:
    first = flow_in(children, packages=packages, home=tmp_path)
    second = flow_in(children, packages=packages, home=tmp_path)
    assert first == [expected, "True"]
    assert second == [expected, "False"]


@pytest.mark.slow
def test_flow_works_where_nothing_can_be_written(
    children: Children, tmp_path: Path, packages: Path, expected: str
) -> None:
    """A file stands where each directory would have to be made: that stops root as well, as no permission does."""
    (packages / "attnx" / "methods" / "__pycache__").write_text("")
    home = tmp_path / "home"
    home.write_text("")
    assert flow_in(children, packages=packages, home=home) == [expected, "True"]


def test_a_damaged_or_foreign_file_is_not_run(tmp_path: Path) -> None:
    path = tmp_path / "flow.o"
    assert machine_code._write(path, "solve", b"code\nwith lines")
    assert machine_code._read(path) == ("solve", b"code\nwith lines")
    if sys.platform != "win32":
        path.chmod(0o666)
        assert machine_code._read(path) is None, "others could have written it"
        path.chmod(0o600)
    path.write_bytes(path.read_bytes()[:-1])
    assert machine_code._read(path) is None
    path.write_bytes(b"")
    assert machine_code._read(path) is None


def test_a_flow_that_misses_its_cut_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnx.methods.flow_solver.compiled_search", lambda: lambda *arguments: 1e-6)
    with pytest.raises(ArithmeticError, match="differ by 1e-06"):
        attnx.flow(attention("random", layers=3, heads=1, length=4, seed=0))


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGINT") or sys.platform == "win32", reason="signals as on Unix")
@pytest.mark.parametrize("threads", [1, 2])
def test_ctrl_c_ends_a_long_flow_with_the_chunks_that_it_comes_in(children: Children, threads: int) -> None:
    script = f"""
        import signal
        import numpy as np
        import attnx
        from attnx.methods import flow_solver as solver

        solve, ends, ends_before = solver.Task.solve, [], []

        def watched(task, graph, first, last):
            ends.append(last)
            if len(ends) == 1:
                print("searching", flush=True)
            return solve(task, graph, first, last)

        def interrupt(number, frame):
            ends_before.extend(ends)
            raise KeyboardInterrupt

        attention = np.random.default_rng(0).dirichlet(np.full(300, 0.1), size=(10, 1, 300))
        attnx.flow(attention[:3, :, :9, :9] * 0)  # compiled before anything is watched
        solver.Task.solve = watched
        signal.signal(signal.SIGINT, interrupt)
        try:
            attnx.flow(attention, threads={threads}, limit=None)
        except KeyboardInterrupt:
            print(len(ends) - len(ends_before) <= {threads}, max(ends) < 300 * 300)
    """
    process = children.start(python(script), stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == "searching\n"
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=PATIENCE)
    assert output == "True True\n"


@pytest.mark.slow
def test_the_search_ends_where_an_edges_share_of_the_dust_is_less_than_rounding(children: Children) -> None:
    """With this attention a push once filled no edge, and the search went round for ever."""
    script = """
        import numpy as np
        import attnx
        scores = np.random.default_rng(0).normal(size=(12, 1, 512, 512)) * 2
        weights = np.where(np.tri(512, dtype=bool), np.exp(scores), 0)
        weights /= weights.sum(-1, keepdims=True)
        row = attnx.flow(weights, layer=12, position=-1)
        print(0 < row.min() <= row.max() <= 1 + 1e-9)
    """
    assert children.run(python(script)).stdout == "True\n"
