"""A text that is a file's name is read as it stands, and a note says how to have what is in the file."""

import pytest

from attnx.cli.main import main
from attnx.cli.options import file_notes
from tests import zoo
from tests.cli.test_explain import fail
from tests.cli.test_explain_image import photo, saved  # noqa: F401 (fixtures)

INSTEAD = [
    ("explain", "reviews.csv", "attnx run --data reviews.csv --run-dir DIR"),
    ("explain", "my notes.txt", "attnx explain - < 'my notes.txt'"),
    ("explain", "photo.JPG", "attnx explain --image photo.JPG --model DIRECTORY"),
    ("explain", "x.safetensors", "attnx.Explanation.load('x.safetensors')"),
    ("explain", "README", "attnx explain - < README"),
    ("generate", "prompt.txt", "attnx generate - < prompt.txt"),
    ("compare", "reviews.csv", "attnx compare --data reviews.csv"),
    ("head-atlas", "texts.txt", "attnx head-atlas --data texts.txt"),
]


@pytest.mark.parametrize(("command", "name", "option"), INSTEAD)
def test_an_existing_file_gets_a_note_with_the_right_option(tmp_path, monkeypatch, command, name, option):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_text("a witty film\n")
    (note,) = file_notes([name], command)
    assert "is the name of a file" in note
    assert option in note


def test_a_name_of_no_file_is_told_by_its_end():
    (note,) = file_notes(["missing.csv"], "explain")
    assert note == "missing.csv looks like the name of a file, but there is no such file: it is read as a text"


@pytest.mark.parametrize("text", ["", "the key", "I read it in reviews.csv", "3.5", "a" * 5000, "half \udcff", "a\0b"])
def test_a_text_is_a_text(text):
    assert not list(file_notes([text], "explain"))


def test_the_command_says_so_before_it_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "reviews.csv").write_text("text\na witty film\n")
    for command in (["generate"], ["compare"], ["head-atlas"]):
        errors = fail(monkeypatch, capsys, *command, "reviews.csv", "--model", "./nowhere")
        assert errors.startswith("attnx: reviews.csv is the name of a file")


def test_a_text_model_says_so_and_a_vision_model_reads_the_picture(monkeypatch, capsys, saved, photo, tmp_path):  # noqa: F811
    zoo.classifier().save_pretrained(tmp_path / "text")
    zoo.wordpiece_tokenizer().save_pretrained(tmp_path / "text")
    for model, told in ((saved, ""), (tmp_path / "text", "is the name of a file")):
        monkeypatch.setattr("sys.argv", ["attnx", "explain", photo, "--model", str(model), "--method", "raw"])
        with pytest.raises(SystemExit) as stopped:
            main()
        errors = capsys.readouterr().err
        assert not stopped.value.code, errors
        assert told in errors
        assert ("--image" in errors) == bool(told)
