"""What needs no model loads neither torch nor transformers."""

import subprocess
import sys

import pytest

HEAVY = ("torch", "transformers", "numpy", "scipy", "matplotlib", "captum", "numba")
LOADED = (
    "import atexit, sys; sys.argv = ['attnx', *sys.argv[1:]]\n"
    f"atexit.register(lambda: print('loaded:', *[name for name in {HEAVY!r} if name in sys.modules]))\n"
    "from attnx.cli.main import main\n"
    "main()\n"
)
OTHERS = ("generate", "compare", "truth", "probe", "atlas", "reproduce", "train", "methods", "doctor")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--version"],
        ["--help"],
        ["explain", "--help"],
        ["explain", "--layer", "two", "a text"],
        *(pytest.param([name, "--help"], marks=pytest.mark.slow) for name in OTHERS),
    ],
    ids=" ".join,
)
def test_help_version_and_what_typer_refuses_load_nothing_heavy(arguments):
    done = subprocess.run([sys.executable, "-c", LOADED, *arguments], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1].strip() == "loaded:", done.stdout[-300:]
    assert done.returncode == (2 if "two" in arguments else 0), done.stderr
