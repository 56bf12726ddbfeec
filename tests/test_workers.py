"""The whole suite runs over the cores; what is named, debugged or watched runs in one process."""

from types import SimpleNamespace

import pytest

from tests import workers

PLAIN = {"trace": False, "capture": "fd"}


def asked(arguments, **options):
    return workers.number(SimpleNamespace(args=arguments, getoption=(PLAIN | options).get))


def test_the_whole_suite_has_as_many_as_there_are_cores():
    assert asked([str(workers.SUITE)]) is None


@pytest.mark.parametrize("named", [["graph"], ["test_workers.py"], ["test_workers.py::asked", "graph/test_sink.py"]])
def test_a_part_of_it_has_none(named):
    assert asked([f"{workers.SUITE}/{name}" for name in named]) == 0


@pytest.mark.parametrize("option", [{"trace": True}, {"capture": "no"}])
def test_what_needs_the_terminal_has_none(option):
    assert asked([str(workers.SUITE)], **option) == 0
