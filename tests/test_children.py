"""A child can be interrupted whatever its parent ignores, and is gone when its test is over."""

import os
import signal
import subprocess

import pytest

from tests.children import PATIENCE, Children, python

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals and process groups as on POSIX systems")

WAITS = "import os; os.write(1, b'waiting\\n'); signal.alarm(600); signal.pause()"


@pytest.fixture
def ignored():
    """Ctrl-C does nothing, as under `nohup` and a shell's `&`."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGINT, before)


def test_a_child_can_be_interrupted_where_its_parent_cannot(ignored, children):
    process = children.start(python(WAITS), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout.readline() == "waiting\n"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=PATIENCE)
    assert errors.endswith("KeyboardInterrupt\n")


def test_nothing_is_left_of_a_child_and_its_own_children():
    started = Children()
    inner = f"import subprocess, sys; subprocess.run({python(WAITS)!r})"
    process = started.start(python(inner), stdout=subprocess.PIPE)
    assert process.stdout.readline() == "waiting\n"  # the inner one is there
    started.end()
    assert process.returncode == -signal.SIGKILL
    started.end()  # once more does no harm


def test_a_child_that_ends_too_early_is_not_waited_for(children):
    process = children.start(python("raise SystemExit(3)"))
    with pytest.raises(AssertionError, match="ended with 3 before"):
        children.wait_for(process, lambda: False)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize(("told", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, pytest.ExitCode.INTERRUPTED)])
def test_a_suite_that_is_told_to_end_ends_its_children(children, pytestconfig, tmp_path, told, code, workers):
    """The inner suite's children hold the writing end of a pipe: when all are gone, the pipe has an end."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "test_waiting.py").write_text(
        "import pytest\n"
        "from tests.children import python\n"
        "@pytest.mark.parametrize('number', [1, 2])\n"
        "def test_waiting(children, number):\n"
        f"    with open({str(tmp_path / 'pipe')!r}, 'w') as pipe:\n"
        f"        children.start(python({WAITS!r}), stdout=pipe).wait()\n"
    )
    options = ["--no-cov", "-p", "no:cacheprovider", "-p", "tests.conftest", f"-n{workers}", str(tmp_path)]
    command = python("import sys, pytest; sys.exit(pytest.main())", *options)
    with os.fdopen(os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK), "rb", buffering=0) as pipe:
        process = children.start(command, cwd=pytestconfig.rootpath, stdout=subprocess.DEVNULL)
        said = bytearray()
        children.wait_for(process, lambda: said.extend(pipe.read() or b"") or said == b"waiting\n" * max(workers, 1))
        process.send_signal(told)
        assert process.wait(PATIENCE) == code
        assert pipe.read() == b""  # None where a child still lives
