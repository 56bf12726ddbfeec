"""`attnx head-atlas` on the embedded model."""

import json
import sys

import pytest

from attnx.cli.main import main


def run(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["attnx", "head-atlas", *arguments])
    with pytest.raises(SystemExit) as done:
        main()
    return done.value.code


def test_it_prints_a_grid_and_writes_it(monkeypatch, capsys, tmp_path):
    chosen = ["the key to the cabinets", "--reference", "gradient", "--output", str(tmp_path / "x.json")]
    assert run(monkeypatch, *chosen) == 0
    shown = capsys.readouterr().out
    assert "Carried from other words" in shown
    assert shown.count("\nL6 ") == 2
    assert set(json.loads((tmp_path / "x.json").read_text())["values"]) == {"carried", "gradient"}


def test_it_writes_a_page(monkeypatch, capsys, tmp_path):
    assert run(monkeypatch, "the key to the cabinets", "--output", str(tmp_path / "x.html")) == 0
    assert "Carried from other words" in capsys.readouterr().out
    assert (tmp_path / "x.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_no_text_is_an_error_in_one_line(monkeypatch, capsys):
    assert run(monkeypatch) == 2
    assert "--data FILE" in capsys.readouterr().err
