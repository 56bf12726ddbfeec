"""`attnx compare`, `faithfulness`, `recommend`, `head-atlas` and `benchmark` as a user types them."""

import json
from pathlib import Path

import pytest

import attnx
from attnx.attribution import REFERENCES
from attnx.demo_models import shipped_directory
from attnx.demo_models.verb_number import save
from attnx.methods import METHODS
from tests import verb_number_zoo as zoo

TEXTS = ("the key to the cabinets", "some boxes in it")
FEW = ("--method", "raw", "--reference", "gradient")


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    directory = tmp_path_factory.mktemp("model")
    save(zoo.model(), zoo.tokenizer(), directory)
    return directory


@pytest.fixture
def run(attnx_main, saved):
    """A command on a small model."""
    return lambda command, *arguments: attnx_main(command, *arguments, "--model", saved)


def test_a_comparison_has_a_block_for_each_reference(run):
    code, out, _ = run("compare", *TEXTS)
    assert code == 0
    assert out.count("mean of 2 texts") == 2
    methods = ["raw", "rollout", "flow"]
    assert [line.split()[0] for line in out.splitlines() if line.startswith(tuple(methods))] == methods * 2


def test_a_file_of_texts_is_read_and_the_result_written_in_each_format(run, tmp_path):
    (tmp_path / "few.csv").write_text("line\nthe key to the cabinets\nsome boxes in it\nkeys to it\n")
    shared = ("--data", "few.csv", "--column", "line", "--limit", "2", "--against", "blankout", "--method", "flow")
    for suffix in (".md", ".json", ".csv", ".txt", ".tex"):
        assert run("compare", *shared, "-o", f"result{suffix}")[::2] == (0, f"attnx: wrote result{suffix}\n")
    code, _, err = run("compare", *shared, "--output", "result.html", "--html", "page.html")
    assert (code, err) == (0, "attnx: wrote result.html\nattnx: wrote page.html\n")
    table = attnx.Comparison.from_json((tmp_path / "result.json").read_text())
    assert table.references == ("blankout",)
    assert (tmp_path / "result.txt").read_text() == table.to_text() + "\n"
    assert (tmp_path / "result.md").read_text() == table.to_markdown() + "\n"
    assert (tmp_path / "result.csv").read_text() == table.to_csv()
    assert (tmp_path / "result.tex").read_text().rstrip() == table.to_latex().rstrip()
    page = attnx.to_html(table)
    assert (tmp_path / "result.html").read_text() == (tmp_path / "page.html").read_text() == page


def test_json_is_one_object(run):
    assert json.loads(run("compare", "keys to it", "--json", "--measure", "kendall")[1])["measure"] == "kendall"
    assert json.loads(run("recommend", *TEXTS, *FEW, "--random", 2, "--json")[1])["kind"] == "recommendation"


def test_faithfulness_has_a_row_for_random_orders(run):
    code, out, _ = run("faithfulness", *TEXTS, *FEW, "--random", 2, "--output", "result.html")
    assert code == 0
    assert "<h2>Faithfulness at layer" in Path("result.html").read_text(encoding="utf-8")
    assert out.splitlines()[2].split()[::2] == ["comprehensiveness", "sufficiency", "deletion", "insertion"]
    assert out.splitlines()[2].split()[1::2] == ["↑", "↓", "↓", "↑"]
    assert "random" in out


def test_a_recommendation_ranks_the_chosen_methods(attnx_main, tmp_path):
    texts = (
        "the key to the cabinets",
        "the keys to the cabinet",
        "the boy that the girls like",
        "keys",
        "girls",
        "cats",
    )
    (tmp_path / "texts.txt").write_text("\n".join(texts), encoding="utf-8")
    code, out, err = attnx_main("recommend", "--data", "texts.txt", *FEW, "--random", 2, "--output", "x.json")
    assert code == 0
    assert out.startswith("Methods on 6 texts: the fall of")
    assert "recommend: 2 methods on 6 texts, some " in err
    assert set(attnx.Recommendation.from_json(Path("x.json").read_text()).methods) == {"raw", "gradient"}


def test_a_head_atlas_is_a_grid_of_layers(attnx_main):
    code, out, _ = attnx_main("head-atlas", TEXTS[0], "--against", "gradient", "--output", "x.json", "--html", "x.html")
    assert code == 0
    assert "Carried from other words" in out
    assert out.count("\nL6 ") == 2
    assert set(json.loads(Path("x.json").read_text())["values"]) == {"carried", "gradient"}
    assert Path("x.html").read_text(encoding="utf-8").startswith("<!doctype html>")


@pytest.mark.parametrize("command", ["compare", "faithfulness", "recommend", "head-atlas"])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "no text: give one or more"),
        (("keys", "--data", "few.csv"), "give texts or --data, not both"),
        (("keys", "--column", "text"), "--column and --limit are for a file"),
        (("keys", "--output", "result.pdf"), "--output takes a file that ends in .json, .md"),
        (("keys", "--html", "result.json"), "--html takes a file that ends in .html"),
        (("keys", "--output", "nowhere/result.md"), "there is no directory nowhere; create it first"),
        (("keys", "--method", "saliency"), "method 'saliency' is not known; there are: raw, rollout, flow"),
        (("--data", "nowhere.txt"), "cannot read nowhere.txt"),
        (("the key", "--engine", "ray"), "--engine and --workers require a folder for the results: --run-dir DIR"),
    ],
)
def test_mistakes_are_one_line_that_says_what_to_do(run, command, arguments, message):
    code, out, err = run(command, *arguments)
    assert (code, out) == (2, "")
    assert err.startswith(f"attnx: {message}")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--measure", "pearson"), "measure 'pearson' is not known"),
        (("--target", "dual"), "target 'dual' is not known; there are: singular, plural"),
    ],
)
def test_a_name_that_does_not_exist_is_one_line(run, arguments, message):
    code, out, err = run("compare", "keys", *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"attnx: {message}")


def test_the_same_command_resumes_the_work_in_a_folder(run, attnx_main, tmp_path):
    def written():
        return {path.name: path.stat().st_mtime_ns for path in (tmp_path / "kept").glob("part-*")}

    (tmp_path / "few.csv").write_text('line\nthe key to the cabinets\n""\nkeys to it\n')
    command = (
        "compare",
        "--data",
        "few.csv",
        "--column",
        "line",
        "--method",
        "raw",
        "--against",
        "gradient",
        "--run-dir",
        "kept",
    )
    code, out, _ = run(*command)
    assert (code, "mean of 2 texts" in out, "left out: " in out) == (0, True, True)
    before = written()
    assert run(*command)[:2] == (0, out)
    assert written() == before
    assert "kept: comparison, 3 rows in 3 shards, complete" in attnx_main("run", "--status", "kept")[1]


@pytest.mark.slow
def test_without_arguments_a_benchmark_has_all_methods_and_references(attnx_main):
    code, out, err = attnx_main("benchmark", "--rows", 2)
    assert (code, err) == (0, "")
    first = [line.split()[0] for line in out.splitlines() if line]
    assert {*METHODS.names(), *REFERENCES.names(), "chance", "(first)", "(last)", "(second)"} <= set(first)
    assert [line for line in out.splitlines() if line.lstrip().startswith("recall ")]


@pytest.mark.slow
def test_a_benchmark_is_printed_and_written_in_each_format(attnx_main, tmp_path):
    shared = ("benchmark", "--suite", "recall", "--rows", 6, "--method", "rollout", "--reference", "lrp")
    for suffix in (".json", ".md", ".csv", ".txt", ".tex"):
        assert attnx_main(*shared, "-o", f"x{suffix}")[::2] == (0, f"attnx: wrote x{suffix}\n")
    table = attnx.BenchmarkTable.from_json((tmp_path / "x.json").read_text())
    assert set(table.methods) == {"lrp", "rollout"}
    assert (tmp_path / "x.txt").read_text() == table.to_text() + "\n"
    assert (tmp_path / "x.md").read_text() == table.to_markdown() + "\n"
    assert json.loads(attnx_main(*shared, "--json")[1])["suites"]["recall"]["wrong"] == 0
    code, out, err = attnx_main(*shared, "--markdown", "--html", "page.html")
    assert (code, "| rollout |" in out, err) == (0, True, "attnx: wrote page.html\n")
    assert 'id="truth"' in (tmp_path / "page.html").read_text()


@pytest.mark.slow
def test_a_cue_file_is_for_a_model_of_ones_own(attnx_main, tmp_path):
    (tmp_path / "cues.tsv").write_text("prefix\tgood\tbad\tcue\nk1 v1 k2 v2 k1\tv1\tv2\tv1\n")
    with shipped_directory("recall") as directory:
        code, out, _ = attnx_main("benchmark", "--model", directory, "--data", "cues.tsv", "--reference", "lrp")
    assert code == 0
    assert "cues: the word that decides how a text goes on; 1 input," in out


@pytest.mark.slow
def test_mistakes_about_a_benchmark_are_one_line(attnx_main, tmp_path):
    (tmp_path / "bad.tsv").write_text("prefix\tgood\tbad\tcue\nk1 v1 k2 v2 k1\tv1\tv2\tv9\n")
    with shipped_directory("recall") as decoder, shipped_directory("verb-number") as classifier:
        for arguments, message in [
            (("--data", "none.tsv"), "there is no file none.tsv"),
            (("--data", "bad.tsv"), "for a model of your own"),
            (("--model", decoder, "--data", "bad.tsv"), "bad.tsv, line 2: the cue 'v9' is not in"),
            (("--model", classifier, "--suite", "recall"), "asks a model …ForCausalLM"),
            (("--suite", "recal"), "did you mean 'recall'"),
        ]:
            code, out, err = attnx_main("benchmark", *arguments)
            assert (code, out, err.count("\n")) == (2, "", 1)
            assert err.startswith("attnx: ")
            assert message in err
