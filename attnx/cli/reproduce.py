"""`attnx reproduce`: the paper's tables and figures, and the subject check."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from attnx.cli.checks import check_asked
from attnx.cli.options import (
    TABLES,
    AsJson,
    AsMarkdown,
    KeepingOptions,
    RunFolder,
    TableOutput,
    check_output,
    chosen_model,
    kept,
    print_text,
    say,
    show,
)
from attnx.cli.table3 import ProtocolName, WhichProtocol, table3_command
from attnx.cli.trained import (
    AskedTrainings,
    Data,
    HeldOut,
    Model,
    Models,
    More,
    Plot,
    Samples,
    Seed,
    check_plot,
    draw,
    measured,
)
from attnx.errors import InputError
from attnx.reproduce.picture_paths import picture_paths
from attnx.tasks.saved import saved_model

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Reproduce the tables and figures of the paper.")


FigureOutput = Annotated[
    Path, typer.Option("--output", help="A .png, .svg or .pdf; without an ending, a .png and a .svg.")
]
Texts = Annotated[list[str] | None, typer.Option("--text", help="Another sentence; may be repeated.")]


@app.command("table1")
def table1_command(
    more: More = None,
    model: Model = None,
    models: Models = None,
    data: Data = None,
    held_out: HeldOut = False,
    samples: Samples = 2000,
    seed: Seed = 0,
    protocol: WhichProtocol = ProtocolName.both,
    run: RunFolder = None,
    as_json: AsJson = False,
    as_markdown: AsMarkdown = False,
    output: TableOutput = None,
    plot: Plot = None,
) -> None:
    """Correlation of raw attention, rollout and flow with blank-out."""
    asked = AskedTrainings(model, models, more, data, held_out, samples, seed)
    _check_files(output, plot)
    from attnx.reproduce.table1 import table1

    _table(table1, asked, protocol, KeepingOptions(run), as_json, as_markdown, output, plot)


@app.command("table2")
def table2_command(
    more: More = None,
    model: Model = None,
    models: Models = None,
    data: Data = None,
    held_out: HeldOut = False,
    samples: Samples = 2000,
    seed: Seed = 0,
    protocol: WhichProtocol = ProtocolName.both,
    run: RunFolder = None,
    as_json: AsJson = False,
    as_markdown: AsMarkdown = False,
    output: TableOutput = None,
    plot: Plot = None,
) -> None:
    """Correlation of raw attention, rollout and flow with input gradients."""
    asked = AskedTrainings(model, models, more, data, held_out, samples, seed)
    _check_files(output, plot)
    from attnx.reproduce.table2 import table2

    _table(table2, asked, protocol, KeepingOptions(run), as_json, as_markdown, output, plot)


app.command("table3")(table3_command)


@app.command("subject")
def subject_command(
    more: More = None,
    model: Model = None,
    models: Models = None,
    data: Data = None,
    held_out: HeldOut = False,
    samples: Samples = 2000,
    seed: Seed = 0,
    attractors: Annotated[
        int | None, typer.Option("--attractors", help="Generate sentences with exactly so many attractors.")
    ] = None,
    layer: Annotated[int | None, typer.Option("--layer", help="From 1 next to the input; by default the last.")] = None,
    run: RunFolder = None,
    as_json: AsJson = False,
    as_markdown: AsMarkdown = False,
    output: TableOutput = None,
    plot: Plot = None,
) -> None:
    """How much relevance lies on the subject, on attractors and elsewhere, for right and for wrong predictions."""
    _check_files(output, plot)
    if data and attractors is not None:
        raise InputError("--attractors is for generated sentences; leave it away with --data")
    asked = AskedTrainings(model, models, more, data, held_out, samples, seed, attractors, with_subject=True)
    from attnx.reproduce.subject import subject
    from attnx.reproduce.trainings import subject_over_trainings
    from attnx.results.trainings import SubjectTrainings

    keeping = KeepingOptions(run)
    options = {"layer": layer, "seed": seed, "progress": True, **keeping.options}
    with kept(keeping):
        table = measured(subject, subject_over_trainings, SubjectTrainings, asked, options)
    show(table, as_json, as_markdown, output)
    draw(table, plot)


@app.command("figure1")
def figure1_command(
    model: Model = None,
    text: Annotated[str | None, typer.Option("--text", help="Another sentence than the paper's.")] = None,
    output: FigureOutput = Path("figure1"),
) -> None:
    """One sentence as a layered graph, in raw attention, rollout and flow."""
    _check_figure(model, output)
    from attnx.reproduce.figure1 import figure1

    _figure(figure1, model, text, output)


@app.command("figure2")
def figure2_command(
    model: Model = None,
    text: Texts = None,
    output: FigureOutput = Path("figure2"),
) -> None:
    """Raw attention of CLS at each layer."""
    _check_figure(model, output)
    from attnx.reproduce.figure2 import figure2

    _figure(figure2, model, text, output)


@app.command("figure3")
def figure3_command(
    model: Model = None,
    text: Texts = None,
    output: FigureOutput = Path("figure3"),
) -> None:
    """Rollout and flow to CLS at each layer."""
    _check_figure(model, output)
    from attnx.reproduce.figure3 import figure3

    _figure(figure3, model, text, output)


@app.command("figure4")
def figure4_command(
    model: Annotated[
        str, typer.Option("--model", help="A masked language model's directory, file or hub id.")
    ] = "bert-large-uncased",
    output: FigureOutput = Path("figure4"),
) -> None:
    """Two masked pronouns: what the model predicts, and whom raw attention, rollout and flow point at."""
    picture_paths(output)
    check_asked(model=model)
    from attnx.reproduce.figure4 import NEEDED, figure4
    from attnx.running.loading import load

    loaded, tokenizer = load(model, NEEDED)
    _show_figure(figure4(loaded, tokenizer), loaded, output)


def _check_files(output: Path | None, plot: Path | None) -> None:
    check_output(output, TABLES)
    check_plot(plot)


def _check_figure(model: Path | None, output: Path) -> None:
    picture_paths(output)
    if model is not None:
        saved_model(model)


def _table(
    measure: Callable[..., Any],
    asked: AskedTrainings,
    protocol: ProtocolName,
    keeping: KeepingOptions,
    as_json: bool,
    as_markdown: bool,
    output: Path | None,
    plot: Path | None,
) -> None:
    from attnx.reproduce.protocols import PROTOCOLS
    from attnx.reproduce.trainings import over_trainings
    from attnx.results.trainings import Trainings

    protocols = [one for name, one in PROTOCOLS.items() if protocol.value in (name, "both")]
    options = {"protocols": protocols, "seed": asked.seed, "progress": True, **keeping.options}
    with kept(keeping):
        table = measured(measure, partial(over_trainings, measure), Trainings, asked, options)
    show(table, as_json, as_markdown, output)
    draw(table, plot)


def _figure(draw: Callable[..., Any], model: Path | None, texts: Any, output: Path) -> None:
    from attnx.inputs.families import adapter_for

    with chosen_model(model) as (_, loaded, tokenizer):
        figure = draw(loaded, tokenizer, texts) if texts else draw(loaded, tokenizer)
        for text in [texts] if isinstance(texts, str) else texts or ():
            say(adapter_for(loaded).prepare(loaded, tokenizer, text).notes)
        _show_figure(figure, loaded, output)


def _show_figure(figure: Any, model: Any, output: Path) -> None:
    """Write it; the paths are printed, one a line, and beside them whose figure it is."""
    from attnx.reproduce.captions import model_title
    from attnx.reproduce.pictures import save_picture

    for path in save_picture(figure, output):
        print_text(str(path))
    say([f"the figure shows {model_title(model)}"])
