"""`attnx benchmark` as a user types it."""

import json
import sys

import pytest

from attnx import BenchmarkTable
from attnx.attribution import REFERENCES
from attnx.cli.main import main
from attnx.demo_models import shipped_directory
from attnx.methods import METHODS

pytestmark = pytest.mark.slow


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)

    def command(*arguments):
        monkeypatch.setattr(sys, "argv", ["attnx", "benchmark", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            main()
        captured = capsys.readouterr()
        return stopped.value.code or 0, captured.out, captured.err

    return command


@pytest.mark.slow
def test_without_arguments_all_methods_and_references_stand_in_one_table(run):
    code, out, err = run("--rows", 2)
    assert (code, err) == (0, "")
    first = [line.split()[0] for line in out.splitlines() if line]
    assert {*METHODS.names(), *REFERENCES.names(), "chance", "(first)", "(last)", "(second)"} <= set(first)
    assert [line for line in out.splitlines() if line.lstrip().startswith("recall ")]


def test_one_suite_with_few_methods_in_each_format(run, tmp_path):
    shared = ("--suite", "recall", "--rows", 6, "--method", "rollout", "--reference", "lrp")
    for suffix in (".json", ".md", ".csv", ".txt", ".html", ".tex"):
        code, _, err = run(*shared, "--output", f"found{suffix}")
        assert (code, err) == (0, f"attnx: wrote found{suffix}\n")
    read = BenchmarkTable.from_json((tmp_path / "found.json").read_text())
    assert set(read.methods) == {"lrp", "rollout"}
    assert (tmp_path / "found.txt").read_text() == read.to_text() + "\n"
    assert (tmp_path / "found.md").read_text() == read.to_markdown() + "\n"


def test_json_markdown_and_a_page(run, tmp_path):
    shared = ("--suite", "recall", "--rows", 2, "--method", "raw")
    code, out, _ = run(*shared, "--json")
    assert code == 0
    assert BenchmarkTable.from_json(out).suites["recall"].count == 2
    assert json.loads(out)["suites"]["recall"]["wrong"] == 0
    _, out, _ = run(*shared, "--markdown")
    assert "| raw |" in out
    _, _, err = run(*shared, "--html", "page.html")
    assert err == "attnx: wrote page.html\n"
    assert 'id="truth"' in (tmp_path / "page.html").read_text()


def test_a_cue_file_with_a_model_of_ones_own(run, tmp_path):
    (tmp_path / "cues.tsv").write_text("prefix\tgood\tbad\tcue\nk1 v1 k2 v2 k1\tv1\tv2\tv1\n")
    with shipped_directory("recall") as directory:
        code, out, _ = run("--model", directory, "--data", "cues.tsv", "--reference", "lrp")
    assert code == 0
    assert "cues: the word that decides how a text goes on; 1 input," in out


def test_what_is_wrong_is_one_line(run, tmp_path):
    (tmp_path / "bad.tsv").write_text("prefix\tgood\tbad\tcue\nk1 v1 k2 v2 k1\tv1\tv2\tv9\n")
    with shipped_directory("recall") as decoder, shipped_directory("verb-number") as classifier:
        for arguments, message in [
            (("--data", "none.tsv"), "there is no file none.tsv"),
            (("--data", "bad.tsv"), "for a model of your own"),
            (("--model", decoder, "--data", "bad.tsv"), "bad.tsv, line 2: the cue 'v9' is not in"),
            (("--model", classifier, "--suite", "recall"), "asks a model …ForCausalLM"),
            (("--suite", "recal"), "did you mean 'recall'"),
            (("--html", "page.txt"), "a file that ends in .html"),
        ]:
            code, out, err = run(*arguments)
            assert (code, out) == (2, "")
            assert err.startswith("attnx: ")
            assert message in err
            assert err.count("\n") == 1
