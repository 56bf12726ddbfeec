"""`attnx probe pronouns` and `attnx reproduce figure4` as a user types them."""

import json
import os
import signal
import subprocess
import sys

import pytest

from attnx.cli.main import main
from tests import zoo
from tests.children import PATIENCE, attnx_command

SENTENCE = "The author talked to Sara about [MASK] book"
ASKED = ["--candidates", "author|Sara", "--implies", "his=author|her=Sara"]
CSV = f"sentence,candidates,answer,implies\n{SENTENCE},author|Sara,Sara,his=author|her=Sara\n" + (
    "Sara said the author was on [MASK] book,Sara|author,author,his=author|her=Sara\n"
)


def save(model, tokenizer, folder):
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    return save(zoo.masked_lm(), zoo.wordpiece_tokenizer(), tmp_path_factory.mktemp("model"))


@pytest.fixture
def attnx(saved, monkeypatch, capsys, tmp_path):
    """Run a command in a directory of its own: (exit code, standard output, standard error)."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.csv").write_text(CSV)

    def run(*arguments, model=saved):
        monkeypatch.setattr(sys, "argv", ["attnx", *map(str, arguments), "--model", str(model)])
        with pytest.raises(SystemExit) as stopped:
            main()
        captured = capsys.readouterr()
        return stopped.value.code or 0, captured.out, captured.err

    return run


def test_a_sentence_is_answered_in_the_terminal(attnx):
    code, out, err = attnx("probe", "pronouns", SENTENCE, *ASKED)
    assert (code, err) == (0, "")
    assert out.startswith(SENTENCE)
    assert "refers to Sara" in out
    assert out.count("consistent") == 10
    assert "lrp" in out


def test_a_sentence_as_json_and_as_a_picture(attnx, tmp_path):
    code, out, err = attnx("probe", "pronouns", SENTENCE, *ASKED, "--json", "--output", "x.svg", "--method", "raw")
    assert (code, err) == (0, "attnx: x.svg\n")
    assert list(json.loads(out)["relevance"]) == ["raw"]
    assert ">Sara<" in (tmp_path / "x.svg").read_text(encoding="utf-8")


def kept(folder):
    return {one.name: one.read_bytes() for one in folder.glob("part-*")}


@pytest.mark.slow
def test_a_data_set_is_a_table_a_plot_and_a_folder_of_results(attnx, tmp_path):
    code, out, err = attnx("probe", "pronouns", "--data", "mine.csv")
    assert code == 0
    assert "2 sentences of mine.csv" in out
    assert "nearest candidate" in out
    assert "attnx: 2 sentences asked in " in err
    assert err.endswith("; mine.pronouns has 2\nattnx: mine.pronouns.png, mine.pronouns.svg\n")
    before = kept(tmp_path / "mine.pronouns")
    assert len(before) == 1
    _, again, err = attnx("probe", "pronouns", "--data", "mine.csv")
    assert again == out
    assert err.startswith("attnx: 0 sentences asked in ")
    assert kept(tmp_path / "mine.pronouns") == before


def test_words_outside_the_vocabulary_are_told_of(attnx, tmp_path):
    (tmp_path / "mine.csv").write_text(CSV.replace("Sara", "Zoe"))
    _, _, err = attnx("probe", "pronouns", "--data", "mine.csv")
    assert "attnx: not in the vocabulary, read as [UNK]: Zoe (in 2 sentences)\n" in err


def test_every_pronoun_written_out_makes_twice_as_many(attnx, tmp_path):
    code, out, _ = attnx("probe", "pronouns", "--data", "mine.csv", "--written", "--markdown", "--output", "w.png")
    assert code == 0
    assert "**Pronouns: 4 sentences of mine.csv, pronouns written out" in out
    assert kept(tmp_path / "w")
    assert (tmp_path / "w.png").is_file()


@pytest.mark.slow
def test_figure_4_is_two_files_with_both_sentences(attnx, tmp_path):
    code, out, err = attnx("reproduce", "figure4")
    assert (code, out) == (0, "figure4.png\nfigure4.svg\n")
    assert err.startswith("attnx: the figure shows ")
    assert (tmp_path / "figure4.png").read_bytes().startswith(b"\x89PNG")
    svg = (tmp_path / "figure4.svg").read_text(encoding="utf-8")
    for text in ("The author talked to Sara about [MASK] book", "Mary convinced John of [MASK] love", "John"):
        assert f">{text}<" in svg


MISTAKES = [
    ([], "give a sentence with a mask"),
    ([SENTENCE, "--data", "mine.csv"], "or --data FILE"),
    ([SENTENCE], "a sentence needs --candidates"),
    ([SENTENCE, "--candidates", "author|Sara"], "and --pronouns"),
    ([SENTENCE, "--candidates", "author|Peter", "--pronouns", "his|her"], "'Peter' is not in the sentence"),
    ([SENTENCE, *ASKED, "--pronouns", "his"], "needs two, found 1"),
    ([SENTENCE, *ASKED, "--written"], "--written is for --data"),
    (["no pronoun here", *ASKED], "the sentence has no mask"),
    ([SENTENCE, "--candidates", "author|Sara", "--implies", "his"], "expected pronoun=candidate"),
    (["--data", "mine.csv", *ASKED], "with --data the file has them"),
    (["--data", "nothing.csv"], "there is no file nothing.csv"),
    (["--data", "bad.csv"], "bad.csv, line 2: answer 'Peter' is not known"),
    (["--data", "mine.csv", "--method", "rolout"], "did you mean 'rollout'"),
    (["--data", "mine.csv", "--output", "no/such/x"], "there is no directory no/such"),
    (["--data", "mine.csv", "--output", "notes"], "holds no run of attnx, but mine.txt"),
]


@pytest.mark.parametrize(("arguments", "message"), MISTAKES)
def test_a_mistake_is_one_line_and_exit_code_two(attnx, tmp_path, arguments, message):
    (tmp_path / "bad.csv").write_text(CSV.replace(",Sara,", ",Peter,"))
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "mine.txt").write_text("mine\n")
    code, out, errors = attnx("probe", "pronouns", *arguments)
    assert (code, out) == (2, "")
    assert message in errors
    assert errors.count("\n") == 1


def test_a_sentence_that_cannot_be_asked_is_left_out_and_told_of(attnx, tmp_path):
    (tmp_path / "unmasked.csv").write_text(CSV.replace("on [MASK] book,Sara", "on a book,Sara"))
    code, out, err = attnx("probe", "pronouns", "--data", "unmasked.csv")
    assert (code, "1 sentences of unmasked.csv" in out) == (0, True)
    assert "attnx: left out: unmasked.csv, line 3: the sentence has no mask" in err


def test_results_of_another_model_are_refused(attnx, tmp_path):
    attnx("probe", "pronouns", "--data", "mine.csv")
    other = save(zoo.roberta_masked_lm(), zoo.roberta_tokenizer(), tmp_path / "other")
    code, _, errors = attnx("probe", "pronouns", "--data", "mine.csv", model=other)
    assert (code, errors.count("\n")) == (2, 1)
    assert "holds another run: other weights; another config of the model; another tokenizer. Give another" in errors


@pytest.mark.parametrize("command", [["reproduce", "figure4"], ["probe", "pronouns", SENTENCE, *ASKED]])
def test_a_model_without_a_masked_lm_head_is_one_line(attnx, tmp_path, command):
    folder = save(zoo.classifier(), zoo.wordpiece_tokenizer(), tmp_path / "classifier")
    code, _, errors = attnx(*command, model=folder)
    assert (code, errors.count("\n")) == (2, 1)
    assert "has no masked-LM head" in errors


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals are sent as on POSIX systems")
def test_control_c_keeps_what_was_asked_and_the_same_command_goes_on(children, attnx, saved, tmp_path):
    head, *lines = CSV.splitlines(keepends=True)
    (tmp_path / "many.csv").write_text(head + "".join(lines) * 100)
    arguments = ["probe", "pronouns", "--data", "many.csv", "--model", str(saved)]
    process = children.start(attnx_command(*arguments), stderr=subprocess.PIPE)
    results = tmp_path / "many.pronouns"
    children.wait_for(process, lambda: bool(kept(results)))
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert errors.endswith("is in many.pronouns; the same command resumes the run\nattnx: stopped\n")
    assert "Traceback" not in errors
    before = kept(results)
    assert 1 <= len(before) <= 4
    assert attnx(*arguments[:4])[0] == 0
    assert len(kept(results)) == 4
    assert kept(results).items() >= before.items()
