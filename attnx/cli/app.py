"""All commands, one file each."""

from __future__ import annotations

from typing import Annotated

import typer

import attnx
from attnx.cli import pronouns as probe
from attnx.cli import reproduce
from attnx.cli.data import run_command, show_command
from attnx.cli.evaluate import atlas_command, compare_command, recommend_command, truth_command
from attnx.cli.explain import explain_command, methods_command
from attnx.cli.generate import align_command, generate_command
from attnx.cli.tools import demo_command, doctor_command

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False)
app.command("explain")(explain_command)
app.command("run")(run_command)
app.command("show")(show_command)
app.command("generate")(generate_command)
app.command("align")(align_command)
app.command("compare")(compare_command)
app.command("recommend")(recommend_command)
app.command("truth")(truth_command)
app.add_typer(probe.app, name="probe")
app.command("atlas")(atlas_command)
app.add_typer(reproduce.app, name="reproduce")
app.command("methods")(methods_command)
app.command("demo")(demo_command)
app.command("doctor")(doctor_command)


def _version(flag: bool) -> None:
    if flag:
        typer.echo(f"attnx {attnx.__version__}")
        raise typer.Exit


@app.callback()
def attention(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show it and exit.")
    ] = False,
) -> None:
    """Follow attention through every layer of a model, and see how far to trust it."""
