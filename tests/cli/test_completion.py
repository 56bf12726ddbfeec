"""The shell completes commands and options, and nothing heavy is loaded for it."""

import os
import sys

import pytest

SHELLS = ("bash", "zsh", "fish")
HEAVY = ("torch", "transformers", "numpy", "matplotlib", "scipy", "captum")
NAMED = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
"""Typer looks which shell started it; here it is said."""

WATCHED = f"""
import atexit, sys
atexit.register(lambda: print("loaded:", *[name for name in {HEAVY} if name in sys.modules], file=sys.stderr))
from attnx.cli.main import main
sys.argv[0] = "attnx"
main()
"""


@pytest.fixture
def run(children, tmp_path):
    def command(*arguments, **environment):
        given = {**os.environ, "HOME": str(tmp_path), **environment}
        return children.run([sys.executable, "-c", WATCHED, *arguments], env=given)

    return command


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_of_a_shell_is_shown_without_torch(run, shell):
    done = run("--show-completion", shell, **NAMED)
    assert done.returncode == 0, done.stderr
    assert "_ATTNX_COMPLETE" in done.stdout
    assert done.stderr == "loaded:\n"


@pytest.mark.parametrize("shell", SHELLS)
def test_it_is_installed_for_the_user_without_torch(run, shell, tmp_path):
    done = run("--install-completion", shell, **NAMED)
    assert done.returncode == 0, done.stderr
    written = [path for path in tmp_path.rglob("*") if path.is_file() and "attnx" in path.name]
    assert any("_ATTNX_COMPLETE" in path.read_text() for path in written)
    assert done.stderr == "loaded:\n"


ASKED = {
    "bash": lambda words: {"COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)},
    "zsh": lambda words: {"_TYPER_COMPLETE_ARGS": words},
    "fish": lambda words: {
        "_TYPER_COMPLETE_ARGS": words,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        "_TYPER_COMPLETE_WORD_TO_COMPLETE": words.split()[-1],
    },
}


@pytest.mark.parametrize("shell", SHELLS)
def test_words_are_completed_without_torch(run, shell):
    done = run(_ATTNX_COMPLETE=f"complete_{shell}", **ASKED[shell]("attnx reproduce fig"))
    assert [f"figure{number}" in done.stdout for number in (1, 2, 3, 4)] == [True] * 4
    assert "table1" not in done.stdout
    assert done.stderr == "loaded:\n"


def test_python_m_attnx_is_attnx(children):
    done = children.run([sys.executable, "-m", "attnx", "--version"])
    assert done.stdout.startswith("attnx ")
    asked = children.run([sys.executable, "-m", "attnx", "--show-completion", "bash"], env={**os.environ, **NAMED})
    assert "complete -o default -F _attnx_completion attnx" in asked.stdout
