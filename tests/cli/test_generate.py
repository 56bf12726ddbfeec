"""`attnx generate`: what a saved decoder looked at for each token that it writes."""

import json
import sys

import pytest

from attnx.cli.main import main
from tests import zoo

PROMPT = "the key to the cabinets"


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("decoder")
    zoo.causal_lm().save_pretrained(folder)
    zoo.bytelevel_tokenizer().save_pretrained(folder)
    return str(folder)


def run(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["attnx", "generate", *arguments])
    with pytest.raises(SystemExit) as done:
        main()
    return done.value.code


def test_each_generated_token_has_a_line(saved, monkeypatch, capsys):
    assert run(monkeypatch, PROMPT, "--model", saved, "--continuation", " is on", "--method", "raw") == 0
    out = capsys.readouterr().out
    assert out.startswith("generated tokens: ")
    assert "cabinets" in out


def test_json_has_everything(saved, monkeypatch, capsys):
    assert run(monkeypatch, PROMPT, "--model", saved, "--max-new-tokens", "3", "--json", "--layer", "2") == 0
    streams = capsys.readouterr()
    told = json.loads(streams.out)
    assert (told["layer"], set(told["relevance"])) == (2, {"raw", "rollout", "flow"})
    assert "ended the text at once" in streams.err


def test_mistakes_are_one_line(saved, monkeypatch, capsys):
    assert run(monkeypatch, PROMPT, "--model", saved, "--max-new-tokens", "0") == 2
    assert capsys.readouterr().err == (
        "attnx: max_new_tokens must be at least 1, found 0: with no new token nothing is explained\n"
    )
