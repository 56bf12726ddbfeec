"""`attnx explain` as a user types it, in a process of its own where exit code and streams count."""

import errno
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys

import pytest

import attnx
from attnx.cli.main import main
from attnx.pipeline import explain as pipeline
from tests import zoo
from tests.children import PATIENCE, attnx_command, python

TEXT = "the key to the cabinets, <b>unaffordable</b>"


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    zoo.classifier().save_pretrained(folder)
    zoo.wordpiece_tokenizer().save_pretrained(folder)
    return str(folder)


@pytest.fixture
def run(children):
    return lambda *arguments, **options: children.run(attnx_command(*arguments), **options)


@pytest.mark.slow
def test_it_prints_every_word(run, saved):
    done = run("explain", TEXT, "--model", saved)
    assert done.returncode == 0, done.stderr
    for word in ("key", "cabinets", "unaffordable"):
        assert f"\n{word} " in done.stdout
    assert "\x1b" not in done.stdout


@pytest.mark.slow
def test_json_is_the_explanation(run, saved):
    done = run("explain", TEXT, "--model", saved, "--json", "--method", "rollout")
    expected = attnx.explain(zoo.classifier(), zoo.wordpiece_tokenizer(), TEXT, methods="rollout")
    assert json.loads(done.stdout)["attributions"]["rollout"]["scores"][2] == pytest.approx(
        expected["rollout"][2].tolist(), abs=1e-6
    )


@pytest.mark.slow
def test_the_output_file_can_be_loaded(run, saved, tmp_path):
    run("explain", "-", "--model", saved, "--output", str(tmp_path / "x.safetensors"), text=TEXT)
    assert attnx.Explanation.load(tmp_path / "x.safetensors").text == TEXT


MISTAKES = [
    (["explain", ""], "empty"),
    (["explain", "the key", "--layer", "7"], "layer 7 was requested, but the model has 3"),
    (
        ["explain", "the key", "--module", "decoder"],
        "no attention was seen in BertForSequenceClassification below 'decoder'",
    ),
    (["explain", "the key", "--head", "9"], "head 9 was requested"),
    (["explain", "the key", "--head", "-1"], "head -1 was requested"),
    (["explain", "the key", "--head", "²"], "head '²' is not known"),
    (["explain", "half \udcff"], "surrogate"),
    (["explain", "the key", "--position", "99"], "position 99 was requested"),
    (["explain", "the key", "--position", "first"], "'mean' for the mean of all"),
    (["explain", "the key", "--prepend-token", "begin"], "BertForSequenceClassification is no decoder"),
    (["explain", "the key", "--method", "rolout"], "did you mean 'rollout'"),
    (["explain", "the key", "--target", "HAPPY"], "NEGATIVE, POSITIVE"),
    (["explain", "hello " * 99], "--truncate"),
    (["explain", "the key", "--output", "x.pdf"], ".safetensors"),
    (["explain", "the key", "--html", "x.pdf"], ".html"),
    (["explain", "the key", "--html", "no/such/folder/x.html"], "no/such/folder"),
    (["explain", "the key", "--output", "no/such/folder/x.safetensors"], "no/such/folder"),
]


@pytest.mark.parametrize(("arguments", "message"), MISTAKES)
def test_a_mistake_is_one_line_and_exit_code_two(saved, monkeypatch, capsys, arguments, message):
    monkeypatch.setattr(sys, "argv", ["attnx", *arguments, "--model", saved])
    with pytest.raises(SystemExit) as stopped:
        main()
    errors = capsys.readouterr().err
    assert stopped.value.code == 2
    assert message in errors
    assert errors.count("\n") == 1
    assert "Traceback" not in errors


def fail(monkeypatch, capsys, *arguments):
    monkeypatch.setattr(sys, "argv", ["attnx", *arguments])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    return capsys.readouterr().err


def test_a_model_that_is_not_there_is_one_line(monkeypatch, capsys):
    errors = fail(monkeypatch, capsys, "explain", "the key", "--model", "./no-such-model")
    assert errors == "attnx: cannot load './no-such-model': there is no such directory or file\n"


def spoil_config(folder, **changes):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | changes))


BROKEN = {
    "junk weights": lambda folder: (folder / "model.safetensors").write_bytes(b"junk"),
    "no weights": lambda folder: (folder / "model.safetensors").unlink(),
    "another width": lambda folder: spoil_config(folder, hidden_size=64),
    "not an architecture": lambda folder: spoil_config(folder, architectures=["pipeline"]),
    "an unknown architecture": lambda folder: spoil_config(folder, architectures=["BertForJuggling"]),
    "a head without weights": lambda folder: spoil_config(folder, architectures=["BertForMultipleChoice"]),
    "pickled weights": lambda folder: (folder / "model.safetensors").rename(folder / "pytorch_model.bin"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_checkpoint_is_one_line(kind, saved, tmp_path, monkeypatch, capsys):
    folder = tmp_path / "model"
    shutil.copytree(saved, folder)
    BROKEN[kind](folder)
    errors = fail(monkeypatch, capsys, "explain", "the key", "--model", str(folder))
    assert errors.splitlines()[-1].startswith("attnx: ")
    assert "Traceback" not in errors


def test_code_in_a_checkpoint_is_not_run(saved, tmp_path, monkeypatch, capsys):
    folder, proof = tmp_path / "model", tmp_path / "ran"
    shutil.copytree(saved, folder)
    (folder / "evil.py").write_text(f"open({str(proof)!r}, 'w')\n")
    spoil_config(folder, model_type="evil", auto_map={"AutoConfig": "evil.Config", "AutoModel": "evil.Model"})
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    fail(monkeypatch, capsys, "explain", "the key", "--model", str(folder))
    assert not proof.exists()


def test_without_a_model_the_embedded_one_answers(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["attnx", "explain", "the key to the cabinets", "--json"])
    with pytest.raises(SystemExit):
        main()
    assert json.loads(capsys.readouterr().out)["prediction"]["label"] == "singular"


def test_layers_are_columns_of_plain_text(saved, monkeypatch, capsys):
    monkeypatch.setattr(
        sys, "argv", ["attnx", "explain", "the key", "--model", saved, "--all-layers", "--method", "raw"]
    )
    with pytest.raises(SystemExit):
        main()
    _, _, _, head, first, second = capsys.readouterr().out.splitlines()
    assert (head.split(), first.split()[0], second.split()[0]) == (["layer", "1", "2", "3"], "the", "key")
    rows = attnx.explain(zoo.classifier(), zoo.wordpiece_tokenizer(), "the key", methods="raw")["raw"]
    assert [float(number) for number in second.split()[1:]] == pytest.approx(rows[:, 2].tolist(), abs=1e-3)


def printed(capsys, monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["attnx", "explain", *arguments])
    with pytest.raises(SystemExit):
        main()
    return capsys.readouterr().out


@pytest.mark.parametrize(("option", "view"), [([], "words"), (["--content-only"], "content")])
def test_the_page_opens_as_it_was_asked_for(option, view, saved, monkeypatch, capsys, tmp_path):
    printed(capsys, monkeypatch, "the key, dull", "--model", saved, "--html", str(tmp_path / "x.html"), *option)
    assert f'"view":"{view}"' in (tmp_path / "x.html").read_text(encoding="utf-8").replace('": "', '":"')


def test_the_verdict_is_the_second_line_and_content_leaves_punctuation_out(saved, monkeypatch, capsys):
    lines = printed(capsys, monkeypatch, "the key, dull", "--model", saved, "--content-only").splitlines()
    assert lines[1].startswith("lrp: measured by lrp alone")
    assert [line.split()[0] for line in lines[2:5]] == ["the", "key", "dull"]


def test_the_mean_of_all_positions_is_a_word_away(saved, monkeypatch, capsys):
    out = printed(capsys, monkeypatch, "the key", "--model", saved, "--method", "rollout", "--position", "mean")
    assert "as seen from the mean of all positions" in out


def test_parts_of_the_text_are_rows(saved, monkeypatch, capsys, tmp_path):
    page = tmp_path / "report.html"
    text = "The key. To the cabinets!"
    asked = ("--method", "rollout", "--spans", "sentences", "--html", str(page))
    out = printed(capsys, monkeypatch, text, "--model", saved, *asked)
    assert [line.split("  ")[0].strip() for line in out.splitlines() if line[1:3] == ". "] == [
        "1. The key.",
        "2. To the cabinets!",
    ]
    assert "2. To the cabinets!" in page.read_text(encoding="utf-8")


def test_a_first_token_is_put_in_front_of_a_decoders_text(tmp_path, monkeypatch, capsys):
    zoo.causal_lm().save_pretrained(tmp_path)
    zoo.bytelevel_tokenizer().save_pretrained(tmp_path)
    out = printed(capsys, monkeypatch, "the key", "--model", str(tmp_path), "--prepend-token", "begin")
    assert "\nnote: <|endoftext|> was put in front of the text" in out


def test_a_note_cannot_steer_the_terminal(saved, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["attnx", "explain", "the \x1b[31mkey", "--model", saved])
    with pytest.raises(SystemExit):
        main()
    shown = capsys.readouterr()
    assert "\x1b" not in shown.out + shown.err


def test_the_page_and_the_terminal_show_one_explanation(saved, monkeypatch, capsys, tmp_path):
    path, runs = tmp_path / "report.html", []
    explain = pipeline.explain
    monkeypatch.setattr(pipeline, "explain", lambda *given, **named: runs.append(explain(*given, **named)) or runs[-1])
    monkeypatch.setattr(sys, "argv", ["attnx", "explain", "the key", "--model", saved, "--html", str(path)])
    with pytest.raises(SystemExit):
        main()
    out, err = capsys.readouterr()
    page = path.read_text(encoding="utf-8")
    (e,) = runs
    assert page == e.to_html()
    assert "lrp: measured by lrp alone; " in out
    assert '"verdict":"measured by lrp alone; ' in page
    methods = " ".join(f"--method {name}" for name in ("lrp", "rollout", "raw", "flow", "blankout"))
    assert err == f"attnx: {methods} adds a measurement on the model\n"
    assert "references=" not in page + out
    assert "--reference" not in page


def test_a_page_has_the_rows_of_all_words(saved, monkeypatch, capsys, tmp_path):
    path = tmp_path / "report.html"
    monkeypatch.setattr(sys, "argv", ["attnx", "explain", TEXT, "--model", saved, "--html", str(path)])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 0
    (result,) = json.loads(path.read_text().split('id="data">')[1].split("</script>")[0])["results"]
    assert list(result["references"]) == ["lrp"]
    assert result["first"] == "lrp"
    assert result["maps"]["edges"] == len(result["positions"])


@pytest.mark.skipif(os.name != "posix", reason="a shell pipe")
@pytest.mark.slow
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_goes_away_gets_no_traceback(children, saved, unbuffered):
    command = shlex.join(attnx_command("explain", "the key", "--model", saved, "--json"))
    environment = os.environ | {"PYTHONUNBUFFERED": unbuffered}
    assert children.run(["bash", "-c", f"{command} | true"], env=environment).stderr == ""


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a disk that is always full")  # noqa: PTH110
@pytest.mark.slow
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_is_one_line(children, unbuffered):
    command = shlex.join(attnx_command("methods"))
    done = children.run(["bash", "-c", f"{command} > /dev/full"], env=os.environ | {"PYTHONUNBUFFERED": unbuffered})
    assert done.stderr == f"attnx: {OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))}\n"
    assert done.returncode == 2


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals are sent as on POSIX systems")
def test_control_c_stops_without_a_traceback(children, saved):
    code = """
        import sys
        from attnx.cli.main import main

        class Telling:
            def read(self):
                print("reading", flush=True)
                return sys.__stdin__.read()

        sys.stdin = Telling()
        main()
    """
    command = python(code, "explain", "-", "--model", saved)
    process = children.start(command, **dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE))
    assert process.stdout.readline() == "reading\n"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert errors == "attnx: stopped\n"
    assert "Traceback" not in errors


def test_a_decoder_can_be_left_as_it_is(tmp_path, monkeypatch, capsys):
    zoo.causal_lm().save_pretrained(tmp_path)
    zoo.bytelevel_tokenizer().save_pretrained(tmp_path)
    settings = {}
    for chosen in ([], ["--normalize", "none", "--drop-sink"], ["--normalize", "column"]):
        command = ["attnx", "explain", "the key", "--model", str(tmp_path), "--method", "rollout", "--json", *chosen]
        monkeypatch.setattr(sys, "argv", command)
        with pytest.raises(SystemExit):
            main()
        found = json.loads(capsys.readouterr().out)["provenance"]["settings"]
        settings[" ".join(chosen)] = (found["normalize"], found["drop_sink"])
    assert settings == {
        "": ("prefix", False),
        "--normalize none --drop-sink": (None, True),
        "--normalize column": ("column", False),
    }


SOURCE = "on friday the third of march 1998"


def test_an_encoder_decoder_goes_on_from_what_it_has_written(monkeypatch, capsys):
    arguments = ("explain", "--model", "dates", SOURCE, "--target-text", "1998 03", "--layer", "cross 1")
    monkeypatch.setattr(sys, "argv", ["attnx", *arguments, "--method", "raw"])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert not stopped.value.code
    out = capsys.readouterr().out
    assert "prediction: 03" in out
    assert "raw: 100% from the source, 0% from the output so far, because one attention block reads one sequence" in out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--target-text", "1998", "--position", "all"), "attnx generate --continuation"),
        (("--layer", "decoder 1"), "one of encoder, self, cross"),
        (("--layer", "cross 7"), "cross 1 to cross 2"),
        (("--target-text", " "), "target_text is empty"),
    ],
)
def test_mistakes_about_an_output_are_one_line(monkeypatch, capsys, arguments, says):
    assert says in fail(monkeypatch, capsys, "explain", "--model", "dates", SOURCE, *arguments)
