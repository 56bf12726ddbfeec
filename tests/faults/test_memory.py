"""A real failure to allocate memory on the CPU costs no row."""

import sys

import pytest

from tests.children import python

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="limits and /proc as on Linux")]


def test_rows_that_did_not_fit_into_memory_are_run_by_the_next_call(children, tmp_path):
    code = """
        import sys
        from pathlib import Path
        from tests.faults import memory

        outcome = memory.short_of_memory(Path(sys.argv[1]))
        print(outcome.rows_then, outcome.complete_then, outcome.lost, outcome.complete_now)
    """
    ended = children.run(python(code, str(tmp_path)))
    assert ended.stdout == "[0, 2, 3, 5, 6] False 0 True\n", ended.stderr
