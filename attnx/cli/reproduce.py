"""`attnx reproduce`: the paper's tables and figures, and the subject check."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from attnx.cli.options import TABLES, AsJson, AsMarkdown, TableOutput, check_output, chosen_model, print_text, say, show
from attnx.cli.table3 import ProtocolName, WhichProtocol, table3_command
from attnx.errors import InputError

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Reproduce the tables and figures of the paper.")


Model = Annotated[
    Path | None, typer.Option("--model", help="A directory with a verb-number model; by default the embedded one.")
]
Data = Annotated[
    list[Path] | None,
    typer.Option("--data", help="A file in Linzen's format; may be repeated. By default sentences are generated."),
]
HeldOut = Annotated[
    bool,
    typer.Option("--held-out", help="Only lines the model never trained on; --data names its training files in order."),
]
Samples = Annotated[int, typer.Option("--samples", help="How many sentences.")]
Seed = Annotated[
    int, typer.Option("--seed", min=0, max=2**31 - 1, help="Draws the sentences, unless --held-out, and the bootstrap.")
]
FigureOutput = Annotated[
    Path, typer.Option("--output", help="A .png, .svg or .pdf; without an ending, a .png and a .svg.")
]
Texts = Annotated[list[str] | None, typer.Option("--text", help="Another sentence; may be repeated.")]


@app.command("table1")
def table1_command(
    model: Model = None,
    data: Data = None,
    held_out: HeldOut = False,
    samples: Samples = 2000,
    seed: Seed = 0,
    protocol: WhichProtocol = ProtocolName.both,
    as_json: AsJson = False,
    as_markdown: AsMarkdown = False,
    output: TableOutput = None,
) -> None:
    """Correlation of raw attention, rollout and flow with blank-out."""
    from attnx.reproduce.table1 import table1

    _table(table1, model, data, held_out, samples, seed, protocol, as_json, as_markdown, output)


@app.command("table2")
def table2_command(
    model: Model = None,
    data: Data = None,
    held_out: HeldOut = False,
    samples: Samples = 2000,
    seed: Seed = 0,
    protocol: WhichProtocol = ProtocolName.both,
    as_json: AsJson = False,
    as_markdown: AsMarkdown = False,
    output: TableOutput = None,
) -> None:
    """Correlation of raw attention, rollout and flow with input gradients."""
    from attnx.reproduce.table2 import table2

    _table(table2, model, data, held_out, samples, seed, protocol, as_json, as_markdown, output)


app.command("table3")(table3_command)


@app.command("subject")
def subject_command(
    model: Model = None,
    data: Data = None,
    held_out: HeldOut = False,
    samples: Samples = 2000,
    seed: Seed = 0,
    attractors: Annotated[
        int | None, typer.Option("--attractors", help="Generate sentences with exactly so many attractors.")
    ] = None,
    layer: Annotated[int | None, typer.Option("--layer", help="From 1 next to the input; by default the last.")] = None,
    as_json: AsJson = False,
    as_markdown: AsMarkdown = False,
    output: TableOutput = None,
) -> None:
    """How much relevance lies on the subject, on attractors and elsewhere, for right and for wrong predictions."""
    from attnx.reproduce.subject import subject

    check_output(output, TABLES)
    if data and attractors is not None:
        raise InputError("--attractors is for generated sentences; leave it away with --data")
    loaded, tokenizer, sentences = _sentences(model, data, held_out, samples, seed, attractors, with_subject=True)
    show(subject(loaded, tokenizer, sentences, layer=layer, seed=seed, progress=True), as_json, as_markdown, output)


@app.command("figure1")
def figure1_command(
    model: Model = None,
    text: Annotated[str | None, typer.Option("--text", help="Another sentence than the paper's.")] = None,
    output: FigureOutput = Path("figure1"),
) -> None:
    """One sentence as a layered graph, in raw attention, rollout and flow."""
    from attnx.reproduce.figure1 import figure1

    _figure(figure1, model, text, output)


@app.command("figure2")
def figure2_command(
    model: Model = None,
    text: Texts = None,
    output: FigureOutput = Path("figure2"),
) -> None:
    """Raw attention of CLS at each layer."""
    from attnx.reproduce.figure2 import figure2

    _figure(figure2, model, text, output)


@app.command("figure3")
def figure3_command(
    model: Model = None,
    text: Texts = None,
    output: FigureOutput = Path("figure3"),
) -> None:
    """Rollout and flow to CLS at each layer."""
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
    from attnx.reproduce.figure4 import NEEDED, figure4
    from attnx.reproduce.pictures import picture_paths
    from attnx.running.loading import load

    picture_paths(output)
    loaded, tokenizer = load(model, NEEDED)
    _show_figure(figure4(loaded, tokenizer), loaded, output)


def _table(
    measure: Callable[..., Any],
    model: Path | None,
    data: list[Path] | None,
    held_out: bool,
    samples: int,
    seed: int,
    protocol: ProtocolName,
    as_json: bool,
    as_markdown: bool,
    output: Path | None,
) -> None:
    from attnx.reproduce.protocols import PROTOCOLS

    check_output(output, TABLES)
    protocols = [one for name, one in PROTOCOLS.items() if protocol.value in (name, "both")]
    loaded, tokenizer, sentences = _sentences(model, data, held_out, samples, seed)
    table = measure(loaded, tokenizer, sentences, protocols=protocols, seed=seed, progress=True)
    show(table, as_json, as_markdown, output)


def _sentences(
    model: Path | None,
    data: list[Path] | None,
    held_out: bool,
    samples: int,
    seed: int,
    attractors: int | None = None,
    with_subject: bool = False,
) -> tuple[Any, Any, Any]:
    from attnx.reproduce import sentences

    with chosen_model(model) as (directory, loaded, tokenizer):
        if not data:
            if held_out:
                raise InputError("--held-out needs the files of the model's training: --data FILE --data FILE …")
            chosen = sentences.generated(samples, seed, attractors)
        elif held_out:
            chosen = sentences.never_trained_on(directory, data, samples, with_subject=with_subject)
        else:
            chosen = sentences.from_files(data, samples, seed)
        ready = sentences.prepare(loaded, tokenizer, *chosen)
        say(ready.notes)
        return loaded, tokenizer, ready


def _figure(draw: Callable[..., Any], model: Path | None, texts: Any, output: Path) -> None:
    from attnx.inputs.families import adapter_for
    from attnx.reproduce.pictures import picture_paths

    picture_paths(output)
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
