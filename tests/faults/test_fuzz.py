"""Whatever is given is answered, or refused in one line. The long form is `tests.faults.fuzz`."""

import gzip
import io
import json
import subprocess
import sys

import pytest

from attnx.adapters import files, read_texts
from attnx.cli.main import main
from attnx.errors import FileFormatError
from tests.faults.fuzz import Fuzz

pytestmark = pytest.mark.slow

CTRL_C = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
class Press:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            sys.meta_path.remove(self)
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Press())
from attnx.cli.main import main
main()
"""
"""The command line, at which Ctrl-C is pressed when a module is imported. The handler is the usual one also where this
process ignores Ctrl-C, as under nohup."""


@pytest.mark.parametrize("seed", range(3))
def test_some_hundred_inputs_are_answered_or_refused(seed, tmp_path):
    fuzz = Fuzz(seed, tmp_path)
    fuzz.run(70)
    assert fuzz.failures == []


@pytest.fixture
def attnx(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)

    def run(*arguments, given=b""):
        monkeypatch.setattr(sys, "argv", ["attnx", *arguments])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given), encoding="utf-8"))
        with pytest.raises(SystemExit) as stopped:
            main()
        return stopped.value.code, capsys.readouterr().err

    return run


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["the key", "--head=--3"], "head '--3' is not known"),
        (["the key", "--head", "9" * 5000], "head"),
        (["the key", "--target", "9" * 5000], "target '999"),
        (["the key", "--target", "\x1b]0;owned\x07"], "target"),
        (["the key", "--method", "\x1b[31m"], "method"),
        (["-"], "standard input is not UTF-8 text (invalid start byte at byte 0)"),
    ],
)
def test_the_command_line_answers_in_a_line(attnx, arguments, said):
    code, err = attnx("explain", *arguments, given=b"\xff\xfe")
    assert code == 2
    assert said in err
    assert err.count("\n") == 1
    assert len(err) < 800
    assert "\x1b" not in err


@pytest.mark.parametrize("content", ["[" * 100_000, '{"text": ' * 50_000, "9" * 5000])
def test_deep_and_long_json_is_refused(attnx, tmp_path, content):
    (tmp_path / "deep.jsonl").write_text(content)
    code, err = attnx("compare", "--data", "deep.jsonl")
    assert code == 2
    assert "deep.jsonl, line 1" in err
    assert len(err) < 300


def test_a_gzip_bomb_is_read_up_to_the_limit_that_was_asked_for(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "LONGEST_LINE", 1_000)
    monkeypatch.setattr(files, "LONGEST_FILE", 50_000)
    path = tmp_path / "bomb.txt.gz"
    path.write_bytes(gzip.compress(b"a film\n" * 1_000_000))
    assert len(read_texts(path, limit=3)) == 3
    with pytest.raises(FileFormatError, match="more than 50,000 characters"):
        read_texts(path)
    path.write_bytes(gzip.compress(b"a" * 1_000_000))
    with pytest.raises(FileFormatError, match="a line of more than 1,000 characters"):
        read_texts(path, limit=1)


@pytest.mark.parametrize("content", ["", "{", '{"recipe": 1}', "[1]", '{"recipe": {"seed": 0}', "[" * 100_000])
def test_a_damaged_note_of_a_training_is_refused(tmp_path, content):
    from attnx.demo_models import split_seed

    (tmp_path / "training.json").write_text(content)
    with pytest.raises(FileFormatError, match=r"training\.json"):
        split_seed(tmp_path)


def test_the_note_of_a_training_is_written_in_one_step(tmp_path, monkeypatch):
    from attnx.demo_models.verb_number import read_note
    from examples.training.verb_number import write_note

    write_note(tmp_path, {"recipe": {"seed": 3}})
    monkeypatch.setattr(json, "dumps", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        write_note(tmp_path, {"recipe": {"seed": 4}})
    assert read_note(tmp_path) == {"recipe": {"seed": 3}}


@pytest.mark.slow
@pytest.mark.parametrize("module", ["attnx.cli.app", "numpy", "torch", "torch.nn.functional", "transformers"])
def test_ctrl_c_while_the_libraries_are_imported_is_a_word(module):
    done = subprocess.run(
        [sys.executable, "-c", CTRL_C.format(module=module), "explain", "the key"], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr.splitlines()[-1]) == (130, "attnx: stopped")
    assert "Traceback" not in done.stderr
