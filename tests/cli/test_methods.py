"""`attnx methods`: all there is, in a table and as JSON."""

import json
import sys

import pytest

from attnx.attribution import REFERENCES
from attnx.cli.main import main
from attnx.graph import EDGE_WEIGHTS
from attnx.methods import METHODS


@pytest.fixture
def listed(monkeypatch, capsys):
    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["attnx", *arguments])
        with pytest.raises(SystemExit) as done:
            main()
        assert done.value.code == 0
        return capsys.readouterr().out

    return run


def test_every_method_and_reference_has_a_line(listed):
    table = listed("methods").split("rollout:NAME")[0]
    names = [line.split()[0] for line in table.splitlines()[1:] if line.startswith("  ")]
    assert names == [*METHODS.names(), *REFERENCES.names()]


def test_every_weighting_is_named_with_its_paper(listed):
    edges = listed("methods").split("NAME is one of\n")[1].splitlines()
    assert [line.split()[0] for line in edges] == list(EDGE_WEIGHTS.names())
    assert next(line for line in edges if line.split()[0] == "alti").endswith("Ferrando et al. 2022")


def test_json_says_what_each_is_about_needs_and_costs(listed):
    rows = {row["name"]: row for row in json.loads(listed("methods", "--json"))}
    assert set(rows) == {*METHODS.names(), *REFERENCES.names()}
    assert rows["rollout"]["about"] == "attention"
    assert rows["rollout"]["needs"] == []
    assert rows["alti"]["about"] == "values"
    assert rows["alti"]["needs"] == ["blocks"]
    assert not rows["alti"]["heads"]
    assert rows["gradient_rollout"]["about"] == "the answer"
    assert "a head that answers" in rows["gradient_rollout"]["needs"]
    assert not rows["flow"]["long_inputs"]
    assert all(row["costs"] and row["costs"] != "not said" for row in rows.values())


def test_help_names_the_command(listed):
    assert "attnx methods" in " ".join(listed("explain", "--help").replace("│", " ").split())
