"""`attnx run` and `attnx show`, as a user types them."""

import json

import pytest

import attnx
from attnx.cli.main import main


def command(monkeypatch, *arguments):
    monkeypatch.setattr("sys.argv", ["attnx", *map(str, arguments)])
    with pytest.raises(SystemExit) as done:
        main()
    return done.value.code


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "texts.csv"
    path.write_text("text,label\nthe key to the cabinets,singular\n,plural\nthe keys to the cabinet,plural\n")
    return path


def test_a_run_its_status_and_what_it_shows(tmp_path, data, monkeypatch, capsys):
    folder = tmp_path / "run"
    asked = ("run", "--data", data, "--column", "text", "--run-dir", folder, "--method", "rollout", "--shard-rows", 2)
    assert command(monkeypatch, *asked) == 0
    said = capsys.readouterr().err
    assert "3 rows in about" in said
    assert "1 rows could not be explained" in said
    assert "row 1 (3): the text is empty" in said
    assert f"3 rows are in {folder}; attnx show {folder}" in said
    assert command(monkeypatch, "run", "--status", folder) == 0
    assert f"{folder}: explanations, 3 rows in 2 shards, complete" in capsys.readouterr().out
    assert command(monkeypatch, *asked) == 0  # nothing is left to do
    capsys.readouterr()
    assert command(monkeypatch, "show", folder, "--html", tmp_path / "run.html") == 0
    assert "Words that contribute most, by rollout" in capsys.readouterr().out
    assert (tmp_path / "run.html").stat().st_size < 3_000_000
    assert command(monkeypatch, "show", folder, "--row", 2, "--json") == 0
    assert json.loads(capsys.readouterr().out)["text"] == "the keys to the cabinet"
    assert [one.text for one in attnx.Run.load(folder)] == ["the key to the cabinets", "the keys to the cabinet"]


def test_a_run_that_is_short_of_memory_says_so_and_the_same_command_resumes_it(tmp_path, data, monkeypatch, capfd):
    folder = tmp_path / "run"
    asked = ("run", "--data", data, "--run-dir", folder, "--method", "rollout")
    kind = type(attnx.load_demo()[0])
    forward = kind.forward

    def allocates(self, input_ids, **rest):
        if len(input_ids) > 1 or keys in input_ids:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory")
        return forward(self, input_ids, **rest)

    (keys,) = attnx.load_demo()[1]("keys", add_special_tokens=False)["input_ids"]
    monkeypatch.setattr(kind, "forward", allocates)
    assert command(monkeypatch, *asked) == 1
    assert "1 of 3 rows are not in" in capfd.readouterr().err
    assert command(monkeypatch, "run", "--status", folder) == 0
    assert "2 of 3 (67%) rows in 2 shards, stopped; the same command resumes it" in capfd.readouterr().out
    monkeypatch.setattr(kind, "forward", forward)
    assert command(monkeypatch, *asked) == 0
    assert attnx.Run.load(folder).complete


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("run",), "a run needs data and a folder: attnx run --data"),
        (("run", "--data", "no.csv", "--run-dir", "x"), "there is no file or folder 'no.csv'"),
        (("run", "--status", "nothing"), "there is no run in"),
        (("show", "nothing"), "there is no run in"),
        (("explain", "--data", "reviews.csv"), "a whole file is a run: attnx run --data reviews.csv --run-dir run/"),
    ],
)
def test_what_is_wrong_is_one_line(arguments, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert command(monkeypatch, *arguments) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
