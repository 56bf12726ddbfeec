"""`attnx recommend`: a table, JSON, a file, and one line for what is wrong."""

import json
import sys

import pytest

from attnx.cli.main import main
from attnx.evaluation import Recommendation

TEXTS = (
    "the key to the cabinets",
    "the keys to the cabinet",
    "the boy that the girls like",
    "keys",
    "the girls",
    "cats",
)
FEW = ("--method", "raw", "--reference", "gradient", "--random", "2")


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    def call(*arguments):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", ["attnx", "recommend", *arguments])
        with pytest.raises(SystemExit) as done:
            main()
        return done.value.code, capsys.readouterr()

    return call


def test_texts_of_a_file_are_ranked_and_written(run, tmp_path):
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS), encoding="utf-8")
    code, printed = run("--data", "texts.txt", *FEW, "--output", "found.json")
    assert code == 0
    assert printed.out.startswith("Methods on 6 texts: the fall of")
    assert "recommend: 2 methods on 6 texts, some " in printed.err
    found = Recommendation.from_json((tmp_path / "found.json").read_text(encoding="utf-8"))
    assert set(found.methods) == {"raw", "gradient"}


def test_json(run):
    code, printed = run(*TEXTS[:2], *FEW, "--json")
    assert code == 0
    assert json.loads(printed.out)["kind"] == "recommendation"


def test_nothing_to_look_at_is_one_line(run):
    code, printed = run()
    assert code == 2
    assert "no text: give one" in printed.err
