"""What the tests of the command line share."""

import sys

import pytest

from attnx.cli.main import main


@pytest.fixture
def attnx_main(monkeypatch, capsys, tmp_path):
    """Run `attnx` with arguments in an empty directory: (exit code, standard output, standard error)."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["attnx", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            main()
        captured = capsys.readouterr()
        return stopped.value.code or 0, captured.out, captured.err

    return run
