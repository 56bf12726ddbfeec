"""The suite tries half precision in a child before it imports torch. Stand-ins die as torch does on such machines."""

import os

import pytest

from attnx.doctor import LIMIT
from tests import half_precision
from tests.children import python

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals as on POSIX systems")

DIES = "import os, signal; os.kill(os.getpid(), signal.SIGILL)"
DIES_UNLIMITED = f"""
import os, signal, sys
if {next(iter(LIMIT))!r} not in os.environ:
    os.kill(os.getpid(), signal.SIGILL)
print(*sys.argv[1:], sep=chr(10))
"""
DIES_IN_BFLOAT16 = """
import os, signal, sys
for name in sys.argv[1:]:
    if name == "bfloat16":
        os.kill(os.getpid(), signal.SIGILL)
    print(name, flush=True)
"""
KILLED = "killed by SIGILL"
TEST = "tests/hooks/test_backends.py::test_rows_that_a_model_rounded_to_more_than_one_are_attention_still"


@pytest.fixture(autouse=True)
def unlimited(monkeypatch):
    monkeypatch.delenv(next(iter(LIMIT)), raising=False)


def test_a_parents_answer_is_not_asked_for_again(monkeypatch):
    monkeypatch.setenv(half_precision.FOUND, '{"died": {}, "left": {}, "limit": {}}')
    monkeypatch.setenv(half_precision.STAND_IN, DIES)
    half_precision.settle()
    assert half_precision.report() == "half precision: runs"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stand_in", "header", "outcome"),
    [
        (
            DIES,
            f"half precision: bfloat16 {KILLED}, float16 {KILLED}; the tests of bfloat16 and float16 skip",
            "skipped",
        ),
        (
            DIES_UNLIMITED,
            f"half precision: bfloat16 {KILLED}, float16 {KILLED}; ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 is set",
            "passed",
        ),
    ],
)
def test_the_suite_says_what_died_and_goes_on(children, pytestconfig, stand_in, header, outcome):
    """The tests of such a model in a pytest of its own, on a machine that a stand-in makes die."""
    environment = {name: value for name, value in os.environ.items() if name != half_precision.FOUND}
    command = python("import sys, pytest; sys.exit(pytest.main())", "--no-cov", "-rs", "-p", "no:cacheprovider", TEST)
    environment |= {half_precision.STAND_IN: stand_in}
    done = children.run(command, cwd=pytestconfig.rootpath, env=environment)
    assert done.returncode == 0, done.stdout
    assert header in done.stdout.splitlines()
    assert f"2 {outcome}" in done.stdout
    assert ("do not run on this processor: killed by SIGILL" in done.stdout) == (outcome == "skipped")


@pytest.mark.slow
def test_workers_are_told_what_was_found_and_do_not_try(children, pytestconfig, tmp_path):
    """The stand-in leaves a line each time that it is run: two dtypes die as the machine is, two under the limit."""
    stand_in = f"open({str(tmp_path / 'tried')!r}, 'a').write('tried\\n'); {DIES}"
    environment = {name: value for name, value in os.environ.items() if name != half_precision.FOUND}
    options = ["--no-cov", "-rs", "-p", "no:cacheprovider", "-n2", TEST]
    command = python("import sys, pytest; sys.exit(pytest.main())", *options)
    done = children.run(command, cwd=pytestconfig.rootpath, env=environment | {half_precision.STAND_IN: stand_in})
    assert "2 workers [2 items]" in done.stdout
    assert "2 skipped" in done.stdout
    assert (tmp_path / "tried").read_text() == 4 * "tried\n"


@pytest.mark.slow
def test_a_benchmark_says_what_died_and_goes_on(children, pytestconfig):
    environment = {name: value for name, value in os.environ.items() if name != half_precision.FOUND}
    code = "import os, tests.benchmarks.capture; print(os.environ['ONEDNN_MAX_CPU_ISA'])"
    environment |= {half_precision.STAND_IN: DIES_UNLIMITED}
    done = children.run(python(code), cwd=pytestconfig.rootpath, env=environment)
    assert done.stdout == "AVX512_CORE_BF16\n"
    assert done.stderr.startswith(f"half precision: bfloat16 {KILLED}")
