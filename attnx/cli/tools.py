"""`attnx doctor` and `attnx demo`."""

from __future__ import annotations

from typing import Annotated

import typer


def demo_command(
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model", help="A directory or hub id to offer in front of the embedded models; may be repeated."
        ),
    ] = None,
    host: Annotated[str, typer.Option("--host", help="Where to listen; by default this machine alone.")] = "127.0.0.1",
    port: Annotated[int | None, typer.Option("--port", help="By default the first free one from 7860 on.")] = None,
    browser: Annotated[bool, typer.Option("--browser", help="Open it in a browser.")] = False,
) -> None:
    r"""Serve a page on which to type a text or drop a picture. Needs Gradio: pip install "attnx\[demo]"."""
    # Loaded here, so that --help answers at once.
    from attnx.demo import serve
    from attnx.pipeline import hush

    hush()
    serve(model or (), host, port, browser=browser)


def doctor_command(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for a report.")] = False,
) -> None:
    """Say what is wrong on this machine, and what to do. Exit code 1 if a plain `explain` does not work here."""
    from attnx import doctor

    findings = doctor.examine()
    print(doctor.to_json(findings) if as_json else doctor.to_text(findings))
    if not doctor.explain_works(findings):
        raise typer.Exit(1)
