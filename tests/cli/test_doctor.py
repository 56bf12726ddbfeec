"""`attnx doctor`: one screen, JSON, and an exit code that says whether a plain `explain` works here."""

import json
import sys

import pytest

import attnx.doctor
from attnx.cli.main import main
from attnx.doctor import Finding

FINE = Finding("cores", "ok", "2")
BROKEN = Finding("bfloat16 on the CPU", "broken", "killed by SIGILL", "use float32")
STOPS = Finding("text model", "broken", "OSError: no weights", "install it again", required=True)


@pytest.fixture
def doctor(monkeypatch, capsys):
    def run(*findings, arguments=()):
        if findings:
            monkeypatch.setattr(attnx.doctor, "examine", lambda: list(findings))
        monkeypatch.setattr(sys, "argv", ["attnx", "doctor", *arguments])
        with pytest.raises(SystemExit) as done:
            main()
        return done.value.code, capsys.readouterr().out

    return run


def test_what_is_fine_is_a_line_and_what_is_not_has_advice_below(doctor):
    code, out = doctor(FINE, BROKEN)
    assert code == 0
    assert out == (
        "ok      cores                2\n"
        "broken  bfloat16 on the CPU  killed by SIGILL\n"
        "                             → use float32\n"
        "\n"
        "Broken: bfloat16 on the CPU. A plain `attnx explain` still works.\n"
    )


def test_what_a_plain_explain_needs_is_exit_code_one(doctor):
    code, out = doctor(FINE, STOPS)
    assert code == 1
    assert out.endswith("Broken: text model. A plain `attnx explain` does not work.\n")


def test_json_has_every_line(doctor):
    code, out = doctor(FINE, STOPS, arguments=["--json"])
    assert code == 1
    report = json.loads(out)
    assert report["explain_works"] is False
    assert [finding["name"] for finding in report["findings"]] == ["cores", "text model"]
    assert set(report["findings"][1]) == {"name", "status", "detail", "advice", "required"}


@pytest.mark.parametrize("arguments", [(), ("--json",)])
def test_what_is_found_cannot_steer_the_terminal(doctor, arguments):
    _, out = doctor(Finding("cache", "warning", "/home/\x1b[31m\u202eme\udcff", "set\x07 it"), arguments=arguments)
    assert "�[31m�me�" in out
    assert "set� it" in out


@pytest.mark.slow
def test_here_a_plain_explain_works(doctor):
    code, out = doctor(arguments=["--json"])
    assert code == 0
    findings = {finding["name"]: finding for finding in json.loads(out)["findings"]}
    assert len(findings) <= 20, "it fits on one screen"
    assert all(finding["advice"] for finding in findings.values() if finding["status"] != "ok")
    assert findings["text model"]["status"] == findings["image model"]["status"] == "ok"
