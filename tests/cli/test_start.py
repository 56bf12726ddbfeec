"""What needs no model loads neither torch nor transformers: help, versions, every mistake that is seen without one.

Modules are counted, not seconds; `python -m tests.benchmarks.start` has those.
"""

import json
import subprocess
import sys

import pytest
import typer
from rich.text import Text

from attnx.cli.app import app
from tests.children import attnx_command

HEAVY = ("torch", "transformers", "numpy", "scipy", "matplotlib", "captum", "numba", "PIL")
ALL_IN_ONE_PROCESS = f"""
import contextlib, io, json, sys
from attnx.cli.main import main

for arguments in json.load(sys.stdin):
    sys.argv, said, code = ["attnx", *arguments], io.StringIO(), 0
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
    loaded = [name for name in {HEAVY!r} if name in sys.modules]
    print(json.dumps([code, said.getvalue(), loaded]))
"""
TEXT = "the key to the cabinets"
NONE = "/nowhere/at/all"
MISTAKES = {
    ("explain", TEXT, "--layer", "two"): "is not a layer",
    ("explain", TEXT, "--layer", "0"): "counted from 1",
    ("explain", TEXT, "--method", "rolout"): "did you mean 'rollout'?",
    ("explain", TEXT, "--method", "rollout:nrm"): "edge weight 'nrm' is not known",
    ("explain", TEXT, "--reference", "gradients"): "did you mean 'gradient'?",
    ("explain", TEXT, "--head", "middle"): "head 'middle' is not known",
    ("explain", TEXT, "--head", "-2"): "counted from 0",
    ("explain", TEXT, "--position", "first"): "position must be a whole number",
    ("explain", TEXT, "--normalize", "prefixes"): "did you mean 'prefix'?",
    ("explain", TEXT, "--discard-ratio", "1.5"): "at least 0 and less than 1",
    ("explain", TEXT, "--model", NONE): "no such directory or file",
    ("explain", TEXT, "--second-model", NONE): "no such directory or file",
    ("explain", TEXT, "--output", "x.png"): "ends in .safetensors",
    ("explain",): "give a text",
    ("generate", "k3 v7 k3", "--method", "nope"): "method 'nope' is not known",
    ("generate", "k3 v7 k3", "--normalize", "no"): "normalize 'no' is not known",
    ("generate", "k3 v7 k3", "--layer", "0"): "counted from 1",
    ("compare", TEXT, "--method", "nope"): "method 'nope' is not known",
    ("compare", TEXT, "--measure", "spearmen"): "did you mean 'spearman'?",
    ("compare", "--data", NONE): NONE,
    ("compare",): "no text: give one",
    ("head-atlas", TEXT, "--method", "nope"): "method 'nope' is not known",
    ("recommend", TEXT, "--reference", "nope"): "reference 'nope' is not known",
    ("benchmark", "--suite", "recal"): "did you mean 'recall'?",
    ("benchmark", "--method", "nope"): "method 'nope' is not known",
    ("benchmark", "--rows", "0"): "at least 1",
    ("benchmark", "--data", NONE): "there is no file",
    ("run", "--data", "x.csv"): "a run needs data and a folder",
    ("run", "--data", "x.csv", "--run-dir", "run", "--method", "nope"): "method 'nope' is not known",
    ("align", "--model", "dates", "--source-file", NONE, "--target-file", NONE): "there is no file",
    ("probe", "pronouns"): "give a sentence with a mask",
    ("probe", "pronouns", "--data", NONE): "there is no file",
    ("probe", "pronouns", "a [MASK]", "--model", "bert", "--method", "nope"): "method 'nope' is not known",
    ("reproduce", "table1", "--protocol", "mine"): "not one of",
    ("reproduce", "table1", "--data", NONE): "there is no file",
    ("reproduce", "table2", "--model", NONE): "is not a directory of a saved model",
    ("reproduce", "table2", "--plot", "x.doc"): ".png",
    ("reproduce", "table3", "--model", NONE): "no such directory or file",
    ("reproduce", "subject", "--held-out"): "--held-out needs",
    ("reproduce", "figure1", "--output", "x.doc"): ".png",
    ("reproduce", "figure4", "--model", NONE): "no such directory or file",
}
"""Arguments that are wrong, and a part of what is said."""


def _commands(typer_app, before=()):
    """Every command of the application, those of groups with the group in front."""
    for one in typer_app.registered_commands:
        yield (*before, one.name)
    for group in typer_app.registered_groups:
        yield from _commands(group.typer_instance, (*before, group.name))


@pytest.fixture(scope="module")
def answered():
    """(code, what was said, heavy modules that are loaded) by arguments; all of them in one process, in turn."""
    asked = [("--version",), ("--help",), *((*one, "--help") for one in _commands(app)), *MISTAKES]
    done = subprocess.run(
        [sys.executable, "-c", ALL_IN_ONE_PROCESS], input=json.dumps(asked), capture_output=True, text=True, check=True
    )
    return dict(zip(asked, map(json.loads, done.stdout.splitlines()), strict=True))


@pytest.mark.slow
def test_help_of_every_command_loads_nothing_heavy(answered):
    asked = [one for one in answered if one not in MISTAKES]
    assert len(asked) > 20
    assert {one: answered[one] for one in asked if answered[one] != [0, "", []]} == {}


@pytest.mark.parametrize("arguments", MISTAKES, ids=" ".join)
def test_a_mistake_is_reported_with_what_to_change(answered, arguments):
    code, said, _ = answered[arguments]
    assert code == 2
    assert MISTAKES[arguments] in " ".join(said.split())


def test_the_surface_needs_no_torch_until_a_name_of_it_is_used(children):
    code = "import attnx, sys; dir(attnx); print([one for one in ('torch', 'numpy') if one in sys.modules])"
    assert children.run([sys.executable, "-c", code]).stdout == "[]\n"


UNUSED = (
    *("captum", "numba", "networkx", "matplotlib", "scipy.stats", "pandas", "pyarrow"),
    *("attnx.evaluation", "attnx.runs", "attnx.benchmarks", "attnx.pronouns", "attnx.demo", "attnx.page_sections"),
    *("attnx.methods.alti_logit", "attnx.attribution.gradients"),
)
EXPLAINED = f"""
import atexit, sys
sys.argv = ["attnx", "explain", {TEXT!r}]
atexit.register(lambda: print("loaded:", *[name for name in {UNUSED!r} if name in sys.modules]))
from attnx.cli.main import main
main()
"""


@pytest.mark.slow
def test_explain_loads_only_what_it_uses(children):
    done = children.run([sys.executable, "-c", EXPLAINED])
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].strip() == "loaded:"


def _helps(command):
    """All texts of help in a command and those below it."""
    yield from filter(None, (command.help, *(getattr(one, "help", None) for one in command.params)))
    for below in getattr(command, "commands", {}).values():
        yield from _helps(below)


def test_no_word_of_a_help_text_is_taken_for_markup():
    """A word in square brackets that is not escaped is left out of what is printed, as in attnx[demo]."""
    texts = list(_helps(typer.main.get_command(app)))
    assert len(texts) > 100
    assert any("attnx\\[demo]" in text for text in texts)
    assert [text for text in texts if Text.from_markup(text).plain != text.replace("\\[", "[")] == []


@pytest.mark.parametrize(
    ("closing", "arguments", "code", "expected"),
    [
        (">&-", ("--version",), 0, ""),
        ("2>&-", ("explain", TEXT, "--method", "nope"), 2, ""),
        (">/dev/full", ("--version",), 2, "attnx: [Errno 28] No space left on device"),
        ("2>/dev/full", ("explain", TEXT, "--method", "nope"), 2, ""),
        ("| true", ("--help",), 0, ""),
    ],
)
def test_a_stream_that_is_closed_or_full_gives_no_traceback(children, closing, arguments, code, expected):
    done = children.run(["sh", "-c", f'"$@" {closing}', "sh", *attnx_command(*arguments)])
    assert (done.returncode, done.stdout, done.stderr.strip()) == (code, "", expected)


@pytest.mark.slow
def test_a_closed_standard_input_is_an_empty_text(children):
    done = children.run(["sh", "-c", '"$@" <&-', "sh", *attnx_command("generate", "-")])
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "empty" in done.stderr
