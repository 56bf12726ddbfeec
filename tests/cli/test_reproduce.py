"""`attnx reproduce` as a user types it."""

import copy
import json
import sys

import pytest
import torch

from attnx.cli.main import main
from attnx.demo_models.verb_number import save
from attnx.paper.table import PaperTable
from tests import verb_number_zoo as zoo
from tests import zoo as small

LINES = "VBZ\t1\tthe key to the cabinets\nVBP\t1\tthe keys in a box\nVBZ\t1\tthe boy near the girls\n"


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    directory = tmp_path_factory.mktemp("model")
    save(zoo.model(), zoo.tokenizer(), directory)
    return directory


@pytest.fixture
def attnx(saved, monkeypatch, capsys, tmp_path):
    """Run a command in a directory of its own: (exit code, standard output, standard error)."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments, model=saved):
        chosen = ["--model", str(model)] if model else []
        monkeypatch.setattr(sys, "argv", ["attnx", *map(str, arguments), *chosen])
        with pytest.raises(SystemExit) as stopped:
            main()
        captured = capsys.readouterr()
        return stopped.value.code or 0, captured.out, captured.err

    return run


@pytest.mark.parametrize("table", ["table1", "table2"])
def test_a_table_has_both_protocols_and_all_methods(attnx, table):
    code, out, err = attnx("reproduce", table, "--samples", 8)
    assert (code, err) == (0, "")
    assert out.count("protocol published") == out.count("protocol corrected") == 1
    assert out.count("8 sentences of the generator, seed 0") == 2
    for method in ("raw", "rollout", "flow"):
        assert out.count(f"\n{method} ") == 2


def test_a_picture_that_cannot_be_written_is_refused_before_any_work(attnx):
    code, out, err = attnx("reproduce", "table1", "--plot", "table.doc", model=None)
    assert (code, out) == (2, "")
    assert "table.doc" in err


def test_one_protocol_as_json_can_be_read_back_and_is_the_file_written(attnx, tmp_path):
    code, out, _ = attnx(
        "reproduce", "table1", "--samples", 6, "--protocol", "corrected", "--json", "--output", "table.json"
    )
    assert code == 0
    table = PaperTable.from_json(out)
    assert [protocol.name for protocol in table.protocols] == ["corrected"]
    assert PaperTable.from_json((tmp_path / "table.json").read_text(encoding="utf-8")) == table
    assert table.provenance["class"] == "VerbNumberForSequenceClassification"


def test_the_same_seed_prints_the_same(attnx):
    first, again, other = (attnx("reproduce", "table2", "--samples", 6, "--seed", seed)[1] for seed in (3, 3, 4))
    assert first == again != other


def test_own_data_and_markdown(attnx, tmp_path):
    (tmp_path / "mine.tsv").write_text("label\tsubject\tbeginning\n" + LINES)
    code, out, _ = attnx("reproduce", "subject", "--data", "mine.tsv", "--markdown", "--output", "table.md")
    assert code == 0
    assert "sentences of mine.tsv" in out
    assert "| rollout |" in out
    assert (tmp_path / "table.md").read_text(encoding="utf-8") == out


@pytest.mark.slow
@pytest.mark.parametrize("figure", ["figure1", "figure2", "figure3"])
def test_a_figure_of_any_sentence_is_two_files(attnx, tmp_path, figure):
    code, out, err = attnx("reproduce", figure, "--text", "the keys in a box")
    assert (code, out) == (0, f"{figure}.png\n{figure}.svg\n")
    assert err.startswith("attnx: the figure shows ")
    assert ">keys<" in (tmp_path / f"{figure}.svg").read_text(encoding="utf-8")


def test_unknown_words_are_told_of(attnx, tmp_path):
    (tmp_path / "mine.tsv").write_text("VBZ\tthe zyzzyva\nVBP\tthe keys\n")
    _, _, errors = attnx("reproduce", "table2", "--data", "mine.tsv")
    assert errors == "attnx: 1 of 2 sentences have words that are not in the vocabulary, read as unknown\n"
    _, _, errors = attnx("reproduce", "figure1", "--text", "the zyzzyva")
    assert errors.startswith("attnx: not in the vocabulary, read as <unk>: zyzzyva\n")


MISTAKES = [
    (["reproduce", "table1", "--samples", "0"], "--samples must be at least 1"),
    (["reproduce", "table1", "--data", "nothing.tsv"], "there is no file nothing.tsv"),
    (["reproduce", "table1", "--data", "empty.tsv"], "empty.tsv has no sentences"),
    (["reproduce", "table1", "--data", "blank.tsv"], "blank.tsv, line 2: "),
    (["reproduce", "table1", "--data", "label.tsv"], "label.tsv, line 2: the label is 'VBD', expected VBZ or VBP"),
    (["reproduce", "table1", "--data", "long.tsv"], "sentence 1 of long.tsv (the the"),
    (["reproduce", "table1", "--held-out"], "--held-out needs the files"),
    (["reproduce", "table1", "--held-out", "--data", "good.tsv"], "was not trained with these files"),
    (["reproduce", "table1", "--output", "no/such/folder/x.md"], "there is no directory no/such/folder"),
    (["reproduce", "subject", "--data", "good.tsv"], "come without the subject's position"),
    (["reproduce", "subject", "--layer", "9", "--samples", "2"], "layer 9 was requested, but the model has 3"),
    (["reproduce", "subject", "--attractors", "9"], "9 attractors were requested"),
    (["reproduce", "subject", "--attractors", "1", "--data", "good.tsv"], "--attractors is for generated sentences"),
    (["reproduce", "figure1", "--text", " "], "the text is empty"),
    (["reproduce", "figure1", "--output", "no/such/folder/x.png"], "there is no directory no/such/folder"),
    (["reproduce", "figure1", "--model", "nowhere", "--output", "x.bmp"], "ends in .png, .svg or .pdf, found 'x.bmp'"),
    (["reproduce", "figure4", "--model", "nowhere", "--output", "x.bmp"], "ends in .png, .svg or .pdf, found 'x.bmp'"),
    (["reproduce", "table1", "--model", "nowhere", "--output", "x.pdf"], "ends in .json, .md, .csv, .html, .txt or"),
]


@pytest.mark.parametrize(("arguments", "message"), MISTAKES)
def test_a_mistake_is_one_line_and_exit_code_two(attnx, tmp_path, arguments, message):
    files = {
        "good.tsv": "VBZ\tthe key\n",
        "empty.tsv": "",
        "blank.tsv": "VBZ\tthe key\n\nVBP\tthe keys\n",
        "label.tsv": "VBZ\tthe key\nVBD\tthe keys\n",
        "long.tsv": f"VBZ\t{'the ' * 60}key\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    code, out, errors = attnx(*arguments)
    assert (code, out) == (2, "")
    assert message in errors
    assert errors.count("\n") == 1


def test_a_directory_without_a_model_is_one_line(attnx, tmp_path):
    code, _, errors = attnx("reproduce", "table1", model=tmp_path)
    assert (code, errors.count("\n")) == (2, 1)
    assert "config.json is missing" in errors


def test_a_saved_verb_number_model_can_be_explained_with_its_head(attnx):
    code, out, _ = attnx("explain", "the key to the cabinets", "--json")
    assert code == 0
    assert json.loads(out)["prediction"]["label"] in ("singular", "plural")


def test_without_a_model_the_embedded_one_answers_in_words(attnx):
    code, out, errors = attnx("explain", "the key to the zyzzyva", model=None)
    assert code == 0
    assert out.startswith("prediction: singular (0.")
    assert out.endswith("note: not in the vocabulary, read as <unk>: zyzzyva\n")
    assert "zyzzyva" not in errors


def test_the_embedded_model_is_asked_for_a_class_by_its_word(attnx):
    _, out, _ = attnx("explain", "the key", "--target", "plural", "--json", model=None)
    assert json.loads(out)["prediction"]["label"] == "plural"


def test_control_c_stops_without_a_traceback(attnx, monkeypatch):
    def interrupted(*_arguments, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr("attnx.paper.tables.blankout", interrupted)
    code, out, errors = attnx("reproduce", "table1", "--samples", 4)
    assert (code, out) == (130, "")
    assert errors.endswith("attnx: stopped\n")
    assert "Traceback" not in errors


@pytest.fixture
def sentiment(tmp_path):
    """A classifier of another task, saved with its labels."""
    model = copy.deepcopy(small.classifier())
    model.save_pretrained(tmp_path / "sentiment")
    small.wordpiece_tokenizer().save_pretrained(tmp_path / "sentiment")
    return model, tmp_path / "sentiment"


@pytest.mark.parametrize("table", ["table1", "table2", "subject"])
def test_a_model_of_another_task_is_refused(attnx, sentiment, table):
    code, out, err = attnx("reproduce", table, "--samples", 4, model=sentiment[1])
    assert (code, out) == (2, "")
    assert "singular or plural, and the model's classes are negative, positive" in err


def test_a_model_that_does_not_know_the_task_is_named_in_the_head(attnx, sentiment):
    model, folder = sentiment
    model.config.id2label = {0: "LABEL_0", 1: "LABEL_1"}
    with torch.no_grad():
        model.classifier.bias[:] = torch.tensor([100.0, 0.0])  # it always says the first
    model.save_pretrained(folder)
    code, out, _ = attnx("reproduce", "table2", "--samples", 8, "--protocol", "corrected", model=folder)
    assert code == 0
    assert "NO BETTER THAN ALWAYS THE MOST FREQUENT LABEL" in out.splitlines()[0]


@pytest.mark.parametrize(
    ("command", "needed"), [("table3", "any classifier of two classes"), ("figure4", "any masked language model")]
)
def test_without_a_hub_it_is_said_what_would_do(attnx, command, needed):
    code, _, err = attnx("reproduce", command, model=None)
    assert code == 2
    assert "Without a hub, give --model a directory that save_pretrained wrote" in err
    assert needed in err
    assert err.count("\n") == 1


def test_figure_4_takes_a_file_of_a_saved_model(attnx, tmp_path):
    small.masked_lm().save_pretrained(tmp_path / "masked")
    small.wordpiece_tokenizer().save_pretrained(tmp_path / "masked")
    code, out, _ = attnx("reproduce", "figure4", "--output", "x.svg", model=tmp_path / "masked" / "model.safetensors")
    assert (code, out) == (0, "x.svg\n")
