"""`attnx doctor`: one screen, JSON, and an exit code that says whether a plain `explain` works here."""

import json
import sys

import pytest

from attnx.cli.main import main
from attnx.doctor import checks as examination
from attnx.doctor.checks import Finding

FINE = Finding("cores", "fine", "2")
BROKEN = Finding("bfloat16 on the CPU", "broken", "killed by SIGILL", "use float32")
STOPS = Finding("text model", "broken", "OSError: no weights", "install it anew", needed=True)


@pytest.fixture
def doctor(monkeypatch, capsys):
    def run(*findings, arguments=()):
        if findings:
            monkeypatch.setattr(examination, "examine", lambda: list(findings))
        monkeypatch.setattr(sys, "argv", ["attnx", "doctor", *arguments])
        with pytest.raises(SystemExit) as done:
            main()
        return done.value.code, capsys.readouterr().out

    return run


def test_what_is_fine_is_a_line_and_what_is_not_has_advice_below(doctor):
    code, out = doctor(FINE, BROKEN)
    assert code == 0
    assert out == (
        "fine    cores                2\n"
        "broken  bfloat16 on the CPU  killed by SIGILL\n"
        "                             → use float32\n"
        "\n"
        "Broken: bfloat16 on the CPU. A plain `attnx explain` works all the same.\n"
    )


def test_what_a_plain_explain_needs_is_exit_code_one(doctor):
    code, out = doctor(FINE, STOPS)
    assert code == 1
    assert out.endswith("Broken: text model. A plain `attnx explain` does not work.\n")


def test_json_has_every_line(doctor):
    code, out = doctor(FINE, STOPS, arguments=["--json"])
    assert code == 1
    read = json.loads(out)
    assert read["explain_works"] is False
    assert [one["name"] for one in read["findings"]] == ["cores", "text model"]
    assert set(read["findings"][1]) == {"name", "status", "found", "advice", "needed"}


@pytest.mark.parametrize("arguments", [(), ("--json",)])
def test_what_is_found_cannot_steer_the_terminal(doctor, arguments):
    _, out = doctor(Finding("cache", "note", "/home/\x1b[31m\u202eme\udcff", "set\x07 it"), arguments=arguments)
    assert "�[31m�me�" in out
    assert "set� it" in out


def test_a_check_that_fails_itself_is_a_broken_line():
    def spoilt_check():
        raise ImportError("no packaging")

    found, fine = examination.examine([spoilt_check, lambda: [FINE]])
    assert (found.name, fine) == ("spoilt check", FINE)
    assert found.found == "could not be examined: ImportError: no packaging"
    assert found.stops_explain


@pytest.mark.slow
def test_here_a_plain_explain_works(doctor):
    code, out = doctor(arguments=["--json"])
    assert code == 0
    found = {one["name"]: one for one in json.loads(out)["findings"]}
    assert len(found) <= 20, "it fits on one screen"
    assert all(one["advice"] for one in found.values() if one["status"] != "fine")
    assert found["text model"]["status"] == found["image model"]["status"] == "fine"
