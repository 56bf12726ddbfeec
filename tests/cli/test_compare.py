"""`attnx compare` as a user types it."""

import json
import sys
from pathlib import Path

import pytest

import attnx
from attnx import Comparison
from attnx.cli.main import main
from attnx.demo_models.verb_number import save
from tests import verb_number_zoo as zoo


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    directory = tmp_path_factory.mktemp("model")
    save(zoo.model(), zoo.tokenizer(), directory)
    return directory


@pytest.fixture
def compare(saved, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)

    def run(*arguments, command="compare"):
        monkeypatch.setattr(sys, "argv", ["attnx", command, *map(str, arguments), "--model", str(saved)])
        with pytest.raises(SystemExit) as stopped:
            main()
        captured = capsys.readouterr()
        return stopped.value.code or 0, captured.out, captured.err

    return run


def test_texts_as_arguments_give_a_block_for_each_reference(compare):
    code, out, _ = compare("the key to the cabinets", "some boxes in it")
    assert code == 0
    assert out.count("mean of 2 texts") == 2
    assert [line.split()[0] for line in out.splitlines() if line.startswith(("raw", "rollout", "flow"))] == [
        "raw",
        "rollout",
        "flow",
    ] * 2


def test_a_file_of_texts_is_read_and_the_result_written_in_each_format(compare, tmp_path):
    (tmp_path / "few.csv").write_text("line\nthe key to the cabinets\nsome boxes in it\nkeys to it\n")
    shared = ("--data", "few.csv", "--column", "line", "--limit", "2", "--reference", "blankout", "--method", "flow")
    for suffix in (".md", ".json", ".csv", ".txt", ".html", ".tex"):
        code, _, err = compare(*shared, "--output", f"result{suffix}")
        assert (code, err) == (0, f"attnx: wrote result{suffix}\n")
    read = Comparison.from_json((tmp_path / "result.json").read_text())
    assert read.references == ("blankout",)
    assert (tmp_path / "result.txt").read_text() == read.to_text() + "\n"
    assert (tmp_path / "result.tex").read_text() == read.to_latex() + "\n"
    assert (tmp_path / "result.md").read_text() == read.to_markdown() + "\n"
    assert (tmp_path / "result.csv").read_text() == read.to_csv()
    assert (tmp_path / "result.html").read_text() == attnx.to_html(read)


def test_json_is_one_object(compare):
    _, out, _ = compare("keys to it", "--json", "--measure", "kendall")
    assert json.loads(out)["measure"] == "kendall"


def test_faithfulness_stands_beside_chance(compare):
    code, out, _ = compare("keys to it", "the key to the cabinets", "--output", "result.html", command="faithfulness")
    assert code == 0
    assert "<h2>Faithfulness at layer" in Path("result.html").read_text(encoding="utf-8")
    assert out.splitlines()[2].split() == [
        "comprehensiveness",
        "↑",
        "sufficiency",
        "↓",
        "deletion",
        "↓",
        "insertion",
        "↑",
    ]
    assert "random" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "no text: give one or more"),
        (("keys", "--data", "few.csv"), "give texts or --data, not both"),
        (("keys", "--column", "text"), "--column and --limit are for a file"),
        (("keys", "--output", "result.pdf"), "--output takes a file that ends in .json, .md"),
        (("keys", "--output", "nowhere/result.md"), "there is no directory nowhere; create it first"),
        (("keys", "--reference", "saliency"), "reference 'saliency' is not known; there are: gradient, blankout"),
        (("keys", "--measure", "pearson"), "measure 'pearson' is not known"),
        (("keys", "--target", "dual"), "target 'dual' is not known; there are: singular, plural"),
        (("--data", "nowhere.txt"), "cannot read nowhere.txt"),
    ],
)
def test_mistakes_are_one_line_that_says_what_to_do(compare, arguments, message):
    code, out, err = compare(*arguments)
    assert code == 2 or code == 1
    assert out == ""
    assert err.startswith(f"attnx: {message}")
    assert err.count("\n") == 1


def test_work_that_is_kept_in_a_folder_is_there_when_the_same_command_comes_again(
    compare, tmp_path, monkeypatch, capsys
):
    (tmp_path / "few.csv").write_text('line\nthe key to the cabinets\n""\nkeys to it\n')
    asked = ("--data", "few.csv", "--column", "line", "--reference", "gradient", "--method", "raw", "--run-dir", "kept")
    code, out, _ = compare(*asked)
    assert (code, "mean of 2 texts" in out, "left out: " in out) == (0, True, True)
    before = {one.name: one.stat().st_mtime_ns for one in (tmp_path / "kept").glob("part-*")}
    assert compare(*asked)[:2] == (0, out)
    assert {one.name: one.stat().st_mtime_ns for one in (tmp_path / "kept").glob("part-*")} == before
    monkeypatch.setattr(sys, "argv", ["attnx", "run", "--status", "kept"])
    with pytest.raises(SystemExit):
        main()
    assert "kept: comparison, 3 rows in 3 shards, complete" in capsys.readouterr().out
    code, _, err = compare("the key", "--engine", "ray")
    assert (code, "--engine and --workers require a folder for the results: --run-dir DIR" in err) == (2, True)
