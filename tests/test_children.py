"""A child can be interrupted whatever its parent ignores, and is gone when its test is over."""

import os
import signal
import subprocess

import pytest

from tests.children import PATIENCE, Children, python

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals and process groups as on POSIX systems")

WAITS = "print('waiting', flush=True); signal.alarm(600); signal.pause()"


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
def test_a_suite_that_is_told_to_end_ends_its_children(children, pytestconfig, tmp_path):
    """The inner suite's child holds the writing end of a pipe: when the child is gone, the pipe has an end."""
    near, far = os.pipe()
    (tmp_path / "test_waiting.py").write_text(
        "from tests.children import python\n"
        "def test_waiting(children):\n"
        f"    children.start(python({WAITS!r}), stdout={far}).wait()\n"
    )
    options = ["--no-cov", "-p", "no:cacheprovider", "-p", "tests.conftest", str(tmp_path)]
    command = python("import sys, pytest; sys.exit(pytest.main())", *options)
    process = children.start(command, cwd=pytestconfig.rootpath, pass_fds=(far,), stdout=subprocess.DEVNULL)
    os.close(far)
    with os.fdopen(near) as pipe:
        assert pipe.readline() == "waiting\n"
        process.terminate()
        assert process.wait(PATIENCE) == 143
        assert pipe.read() == ""
