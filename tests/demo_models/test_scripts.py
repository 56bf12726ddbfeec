"""The scripts of examples/training as a user runs them."""

from __future__ import annotations

import shutil

import pytest

from attnx.demo_models import saved_model
from attnx.demo_models.verb_number import save
from examples.training import study, train
from tests import verb_number_zoo as zoo

pytestmark = pytest.mark.slow


@pytest.fixture
def models(tmp_path, monkeypatch):
    """Two trainings by one recipe, as far as the script can see."""
    monkeypatch.chdir(tmp_path)
    save(zoo.model(), zoo.tokenizer(), tmp_path / "a-1")
    (tmp_path / "a-1" / "training.json").write_text('{"name": "plain"}')
    shutil.copytree(tmp_path / "a-1", tmp_path / "a-2")


def run_study(*arguments):
    options = ["--samples", "4", "--protocol", "corrected"]
    study.main(["table2", *arguments, *options])


def test_several_models_make_one_table_and_a_picture(models, tmp_path, capsys):
    with pytest.raises(SystemExit, match="verb-number has Table 2"):  # the shipped model has other layers
        run_study("--models", "a-1", "verb-number")
    run_study("--models", "a-1", "a-2", "--plot", "dots.svg", "--output", "both.json")
    assert "a-1 (plain)\na-2 (plain)" in capsys.readouterr().err
    result = study.Trainings.from_json((tmp_path / "both.json").read_text())
    assert result.by_recipe == {"plain": ("a-1", "a-2")}
    assert result.cell("plain", "corrected", "flow", 3).deviation == 0
    assert "flow, corrected" in (tmp_path / "dots.svg").read_text()


def test_a_saved_table_brings_its_models_along(models, tmp_path, capsys):
    run_study("--models", "a-1", "--output", "first.json")
    run_study("--models", "a-1", "a-2", "--output", "both.json")
    capsys.readouterr()
    run_study("--models", "first.json", "a-2", "--output", "joined.json")
    assert "a-1 (plain)" not in capsys.readouterr().err  # not measured again
    assert (tmp_path / "joined.json").read_text() == (tmp_path / "both.json").read_text()
    with pytest.raises(SystemExit, match="a-1 is in two of the parts"):
        run_study("--models", "first.json", "a-1")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--models", "nowhere"], "nowhere is not a directory of a saved model"),
        (["--models", "a-1", "--held-out"], "--held-out needs the files"),
        (["--models", "a-1", "--output", "table.doc"], "--output ends in .json"),
    ],
)
def test_a_study_refuses_what_it_cannot_do(arguments, message, capsys):
    with pytest.raises(SystemExit) as stopped:
        run_study(*arguments)
    assert message in f"{stopped.value}{capsys.readouterr().err}"


def test_training_refuses_a_directory_that_exists_and_bad_lines(tmp_path):
    (tmp_path / "good.tsv").write_text("VBZ\tthe key\n" * 8)
    (tmp_path / "bad.tsv").write_text("VBZ\tthe key\nVBX\tthe keys\n")
    for data, out, message in (("good.tsv", ".", "exists"), ("bad.tsv", "new", "bad.tsv, line 2")):
        with pytest.raises(SystemExit, match=message):
            train.main(["verb-number", "--data", str(tmp_path / data), "--out", str(tmp_path / out)])
    with pytest.raises(SystemExit, match="exists; choose another directory"):
        train.main(["recall", "--out", str(tmp_path)])
    with pytest.raises(SystemExit, match="--recipe says all"):
        train.main(["verb-number", "--data", "x", "--out", "new", "--recipe", "plain", "--epochs", "1"])


def test_training_prints_accuracy_and_writes_a_model(tmp_path, capsys):
    words = ["key", "box", "cat", "door"]
    lines = [f"VBZ\tthe {word}\nVBP\tthe {word}s\n" for word in words]
    (tmp_path / "mine.tsv").write_text("".join(lines) * 4)
    settings = ["--epochs", "0", "--seed", "2", "--out", str(tmp_path / "trained")]
    train.main(["verb-number", "--data", str(tmp_path / "mine.tsv"), *settings])
    assert capsys.readouterr().out.startswith("mine.tsv: ")
    assert saved_model(tmp_path / "trained")


@pytest.mark.parametrize("task", train.TASKS)
def test_a_few_steps_of_training_write_a_model(tmp_path, capsys, task):
    train.main([task, "--out", str(tmp_path / "mine"), "--steps", "1"])
    assert f"of new inputs; written to {tmp_path / 'mine'}" in capsys.readouterr().out
    assert (tmp_path / "mine" / "model.safetensors").is_file()
