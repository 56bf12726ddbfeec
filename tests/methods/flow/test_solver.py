"""The solver as a good citizen: it can be interrupted, and does without a place to keep its code."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest

import attnx
from attnx.methods.flow import machine_code
from tests.methods.flow.attentions import attention

PACKAGE = Path(attnx.__file__).parent

FLOW = """
    import numpy as np
    import attnx, sys
    attention = np.random.default_rng(0).dirichlet(np.ones(9), size=(5, 2, 9))
    print(repr(attnx.flow(attention, layer=5, position=0).tolist()))
    print("numba" in sys.modules)
"""


def run(script: str, *, packages: Path, home: Path) -> list[str]:
    """The lines that a fresh process prints."""
    environment = {**os.environ, "PYTHONPATH": str(packages), "HOME": str(home), "XDG_CACHE_HOME": str(home / "cache")}
    environment.pop("LOCALAPPDATA", None)
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        env=environment,
        cwd=packages,
        capture_output=True,
        text=True,
        check=True,
    )
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
def test_a_kept_kernel_is_loaded_without_numba(tmp_path: Path, packages: Path, expected: str) -> None:
    first = run(FLOW, packages=packages, home=tmp_path)
    second = run(FLOW, packages=packages, home=tmp_path)
    assert first == [expected, "True"]
    assert second == [expected, "False"]


@pytest.mark.slow
def test_flow_works_where_nothing_can_be_written(tmp_path: Path, packages: Path, expected: str) -> None:
    """A file stands where each directory would have to be made: that stops root as well, as no permission does."""
    (packages / "attnx" / "methods" / "flow" / "__pycache__").write_text("")
    home = tmp_path / "home"
    home.write_text("")
    assert run(FLOW, packages=packages, home=home) == [expected, "True"]


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
    monkeypatch.setattr("attnx.methods.flow.solver.compiled_search", lambda: lambda *arguments: 1e-6)
    with pytest.raises(ArithmeticError, match="differ by 1e-06"):
        attnx.flow(attention("random", layers=3, heads=1, length=4, seed=0))


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGINT") or sys.platform == "win32", reason="signals as on Unix")
@pytest.mark.parametrize("threads", [1, 2])
def test_ctrl_c_ends_a_long_flow_within_seconds(threads: int) -> None:
    script = f"""
        import numpy as np, attnx, time
        attention = np.random.default_rng(0).dirichlet(np.full(300, 0.1), size=(10, 1, 300))
        attnx.flow(attention[:3, :, :9, :9] * 0)
        print("begun", flush=True)
        try:
            attnx.flow(attention, threads={threads}, limit=None)
        except KeyboardInterrupt:
            print("interrupted", flush=True)
    """
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    time.sleep(1.5)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    asked = time.monotonic()
    output, _ = process.communicate(timeout=60)
    assert output == "interrupted\n"
    assert time.monotonic() - asked < 10


@pytest.mark.slow
def test_the_search_ends_where_an_edges_share_of_the_dust_is_less_than_rounding() -> None:
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
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout.strip() == "True"
