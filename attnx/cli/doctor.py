"""`attnx doctor`: what matters for a report, what is wrong on this machine, and what to do."""

from __future__ import annotations

from typing import Annotated

import typer


def doctor_command(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for a report.")] = False,
) -> None:
    """Say what is wrong on this machine, and what to do. Exit code 1 if a plain `explain` does not work here."""
    # Loaded here, so that --help answers at once.
    from attnx.doctor import report
    from attnx.doctor.examination import examine

    findings = examine()
    print(report.as_json(findings) if as_json else report.text(findings))
    if not report.explain_works(findings):
        raise typer.Exit(1)
