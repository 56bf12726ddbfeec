"""`attnx explain --audio FILE.wav`."""

import sys

import pytest

from attnx.cli.main import main
from tests.sound_zoo import audio, extractor, model, write_wave


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A folder with a model of sound and a file to hear."""
    folder = tmp_path_factory.mktemp("ast")
    model("ast").save_pretrained(folder)
    extractor("ast").save_pretrained(folder)
    write_wave(folder / "a.wav", audio())
    return folder


@pytest.fixture
def explain(monkeypatch, capsys):
    """(exit code, standard output, standard error) of `attnx explain`."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["attnx", "explain", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            main()
        captured = capsys.readouterr()
        return stopped.value.code or 0, captured.out, captured.err

    return run


@pytest.mark.slow
def test_stretches_are_told_drawn_and_written_to_a_page(explain, saved, tmp_path):
    picture, page = tmp_path / "a.png", tmp_path / "a.html"
    asked = ("--reference", "lrp", "--output", picture, "--html", page)
    code, told, _ = explain("--audio", saved / "a.wav", "--model", saved, *asked)
    assert code == 0
    assert "strongest 10 of 12 segments" in told
    assert picture.stat().st_size > 1_000
    assert "data:image/png" in page.read_text()


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (["--audio", "a.wav"], "--model"),
        (["--audio", "a.wav", "--image", "a.png", "--model", "x"], "not both"),
    ],
)
def test_mistakes_are_told(explain, asked, says):
    code, _, errors = explain(*asked)
    assert code == 2
    assert says in errors
