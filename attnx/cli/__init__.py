"""The command line: `attnx explain "a text"`."""

from __future__ import annotations

import io
import sys

from attnx.errors import AttnxError


def main() -> None:
    """Run the command. What the user can mend is one line on standard error and exit code 2, never a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without Unicode still gets the numbers
    try:
        from attnx.cli.app import app

        app()
    except (AttnxError, OSError) as error:
        print(f"attnx: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("attnx: stopped", file=sys.stderr)
        sys.exit(130)
    except SystemExit as done:
        if done.code == 130:  # what typer makes of Ctrl-C, without a word
            print("attnx: stopped", file=sys.stderr)
        raise
