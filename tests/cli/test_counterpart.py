"""`attnx explain --replace` and `--second-model`: two explanations, word by word."""

import json
import sys

import pytest

import attnx
from attnx.cli.main import main
from tests.cli.test_explain import fail, saved  # noqa: F401 (a fixture)

TEXT = "the movie is witty"


@pytest.fixture
def run(saved, monkeypatch, capsys, tmp_path):  # noqa: F811
    monkeypatch.chdir(tmp_path)

    def command(*arguments):
        monkeypatch.setattr(sys, "argv", ["attnx", "explain", *arguments, "--model", saved])
        with pytest.raises(SystemExit) as stopped:
            main()
        captured = capsys.readouterr()
        assert not stopped.value.code, captured.err
        return captured.out

    return command


def test_a_replaced_word_is_shown_with_both_answers_and_scores(run, tmp_path):
    out = run(TEXT, "--replace", "witty=dull", "--replace", "1=book", "--html", "x.html", "--output", "x.safetensors")
    both = attnx.SideBySide.load(tmp_path / "x.safetensors")
    assert [one.text for one in both.explanations] == [TEXT, "the book is dull"]
    assert out == f"{both}\n"
    assert "witty → dull" in out
    assert "p(POSITIVE)" in out
    assert 'id="side_by_side"' in (tmp_path / "x.html").read_text(encoding="utf-8")


def test_as_json_it_can_be_read_back(run):
    both = attnx.SideBySide.from_json(run(TEXT, "--replace", "witty=", "--json"))
    assert both.explanations[1].text == "the movie is"
    assert json.loads(run(TEXT, "--replace", "witty=", "--json"))["kind"] == "side by side"


def test_a_second_model_stands_beside_the_first(run, saved):  # noqa: F811
    out = run(TEXT, "--second-model", saved, "--method", "raw")
    assert "movie" in out
    assert "change" in out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--replace", "witty"], "--replace takes a word and its replacement"),
        (["--replace", "a=b", "--second-model", "x"], "give one of them"),
        (["--replace", "cabinet=x"], "'cabinet' is no word of the text"),
        (["--replace", "witty=dull", "--content-only"], "--content-only is for one explanation"),
        (
            ["--second-model", "x", "--all-layers"],
            "--all-layers is for one explanation; --replace and --second-model show two",
        ),
        (["--replace", "9=x"], "word 9 was requested, but the text has 4"),
    ],
)
def test_a_mistake_is_one_line(saved, monkeypatch, capsys, arguments, told):  # noqa: F811
    errors = fail(monkeypatch, capsys, "explain", TEXT, "--model", saved, *arguments)
    assert told in errors
    assert errors.count("\n") == 1


def test_a_page_of_each_head_has_the_head_view(saved, monkeypatch, tmp_path):  # noqa: F811
    page = tmp_path / "heads.html"
    monkeypatch.setattr(sys, "argv", ["attnx", "explain", TEXT, "--head", "all", "--html", str(page), "--model", saved])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert not stopped.value.code
    assert 'id="head_view"' in page.read_text(encoding="utf-8")
