"""`attnx generate`: what a saved decoder looked at for each token that it writes."""

import json
import sys

import pytest

import attnx
from attnx.cli.main import main
from tests import zoo

PROMPT = "the key to the cabinets"


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("decoder")
    zoo.causal_lm(fresh=True).save_pretrained(folder)  # which ends the text at once where it may
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
    sequences = capsys.readouterr()
    attributions = json.loads(sequences.out)["attributions"]
    layers = {name: attribution["layers"] for name, attribution in attributions.items()}
    assert layers == {"lrp": None, "raw": [2], "rollout": [2], "flow": [2]}
    assert "ended the text immediately" in sequences.err


def test_mistakes_are_one_line(saved, monkeypatch, capsys):
    assert run(monkeypatch, PROMPT, "--model", saved, "--max-new-tokens", "0") == 2
    assert capsys.readouterr().err == (
        "attnx: max_new_tokens must be at least 1, found 0: without a new token nothing is explained\n"
    )


def test_without_a_model_the_embedded_decoder_recalls_a_value(monkeypatch, capsys):
    assert run(monkeypatch, "k3 v7 k1 v2 k8 v5 k3") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("generated tokens: 1 · lrp")
    assert lines[-1].startswith("'v7'")
    assert lines[-1].split("  ")[-1].startswith("v7 ")


def test_a_page_and_a_file_are_written(monkeypatch, capsys, tmp_path):
    page, file = tmp_path / "g.html", tmp_path / "g.safetensors"
    asked = ("--contrast", "--spans", "lines", "--html", str(page), "--output", str(file))
    assert run(monkeypatch, "k3 v7\nk1 v2\nk1", "--model", "recall", *asked) == 0
    saved = attnx.GenerationExplanation.load(file)
    assert saved.contrasts
    assert saved.layers == (1, 2, 3)
    assert [one.name for one in saved.spans] == ["1. k3 v7", "2. k1 v2", "3. k1"]
    assert 'id="generation"' in page.read_text(encoding="utf-8")
    assert "2. k1 v2" in capsys.readouterr().out


def test_several_prompts_are_several_texts_and_one_page(monkeypatch, capsys, tmp_path):
    assert run(monkeypatch, "k3 v7 k3", "k1 v2 k1", "--method", "rollout", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert [one["predictions"][0]["label"].strip() for one in told] == ["v7", "v2"]
    assert run(monkeypatch, "k3 v7 k3", "k1 v2 k1", "--output", str(tmp_path / "g.safetensors")) == 2
    assert "take one prompt" in capsys.readouterr().err
    assert run(monkeypatch, "k3 v7 k3", "--html", "g.txt") == 2


def test_the_embedded_encoder_decoder_is_called_by_its_name(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert run(monkeypatch, "the third of march 1998", "--model", "dates") == 0
    out = capsys.readouterr().out
    assert [line.split()[0] for line in out.splitlines() if "  p " in line] == ["'1998'", "'03'", "'03'", "'<eos>'"]
    assert "% the share of the source" in out
