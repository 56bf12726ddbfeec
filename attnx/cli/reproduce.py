"""`attnx reproduce`: the paper's tables and figures, and the subject check."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnx.arguments import picture_paths
from attnx.cli.options import (
    TABLES,
    AsJson,
    AsMarkdown,
    RunDirOptions,
    RunFolder,
    TableOutput,
    check_asked,
    check_file,
    check_output,
    chosen_model,
    kept,
    print_text,
    say,
    show,
)
from attnx.errors import InputError

if TYPE_CHECKING:
    from attnx.paper import Sentences
    from attnx.paper.table import Protocol
    from attnx.results import Result


class ProtocolName(StrEnum):
    published = "published"
    corrected = "corrected"
    both = "both"


WhichProtocol = Annotated[
    ProtocolName, typer.Option("--protocol", help="As the authors' code did it, as the paper says it, or both.")
]


def table3_command(
    model: Annotated[
        str | None,
        typer.Option("--model", help="A sentiment model's directory, file or hub id; else the paper's, from the hub."),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option("--data", help="A .tsv, .csv or .jsonl with label and sentence; by default GLUE, from the hub."),
    ] = None,
    samples: Annotated[int, typer.Option("--samples", help="How many sentences, from the first.")] = 100,
    seed: Annotated[int, typer.Option("--seed", min=0, max=2**31 - 1, help="Of the bootstrap.")] = 0,
    protocol: WhichProtocol = ProtocolName.both,
    run: RunFolder = None,
    as_json: AsJson = False,
    as_markdown: AsMarkdown = False,
    output: TableOutput = None,
) -> None:
    """Correlation of raw attention, rollout and flow with input gradients, for DistilBERT on SST-2."""
    check_output(output, TABLES)
    if data is not None and not data.is_file():
        raise typer.BadParameter(f"there is no file {data}", param_hint="--data")
    check_asked(model=model)
    from attnx.paper import MODEL, NEEDED, PROTOCOLS_TABLE_3, reviews, table3
    from attnx.pipeline import load

    loaded, tokenizer = load(model or MODEL, NEEDED)
    sentences = reviews(loaded, tokenizer, data, samples)
    keeping = RunDirOptions(run)
    with kept(keeping):
        table = table3(
            loaded,
            tokenizer,
            sentences,
            protocols=_chosen(PROTOCOLS_TABLE_3, protocol),
            seed=seed,
            progress=True,
            **keeping.options,
        )
    show(table, as_json, as_markdown, output)


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
Plot = Annotated[
    Path | None,
    typer.Option("--plot", help="Also draw it: a .png, .svg or .pdf; without an ending, a .png and a .svg."),
]


@dataclass(frozen=True)
class SentenceOptions:
    """Which model, and which sentences."""

    model: Path | None
    data: list[Path] | None
    held_out: bool
    samples: int
    seed: int
    attractors: int | None = None
    with_subject: bool = False

    def __post_init__(self) -> None:
        from attnx.demo_models import saved_model

        if self.held_out and not self.data:
            raise InputError("--held-out needs the files of the model's training: --data FILE --data FILE …")
        for path in self.data or ():
            check_file(path, "--data")
        if self.model is not None:
            saved_model(self.model)

    def measure(self, table: Callable[..., Any], run: RunDirOptions, **options: Any) -> Result:
        """The table of the model on the sentences."""
        with kept(run), chosen_model(self.model) as (directory, loaded, tokenizer):
            sentences = self._sentences(directory, loaded, tokenizer)
            result: Result = table(
                loaded, tokenizer, sentences, seed=self.seed, progress=True, **run.options, **options
            )
        return result

    def _sentences(self, directory: Path, model: Any, tokenizer: Any) -> Sentences:
        from attnx.paper import sentences

        if not self.data:
            chosen = sentences.generated(self.samples, self.seed, self.attractors)
        elif self.held_out:
            chosen = sentences.never_trained_on(directory, self.data, self.samples, with_subject=self.with_subject)
        else:
            chosen = sentences.from_files(self.data, self.samples, self.seed)
        ready = sentences.prepare(model, tokenizer, *chosen)
        say(ready.notes)
        return ready


def check_plot(plot: Path | None) -> None:
    """Before minutes of work, not after them."""
    from attnx.arguments import picture_paths

    if plot is not None:
        picture_paths(plot)


def draw(table: Result, plot: Path | None) -> None:
    from attnx.paper import save_picture

    if plot is not None:
        say(f"drawn in {path}" for path in save_picture(table.plot(), plot))


app = typer.Typer(no_args_is_help=True, add_completion=False, help="Reproduce the tables and figures of the paper.")


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
    run: RunFolder = None,
    as_json: AsJson = False,
    as_markdown: AsMarkdown = False,
    output: TableOutput = None,
    plot: Plot = None,
) -> None:
    """Correlation of raw attention, rollout and flow with blank-out."""
    options = SentenceOptions(model, data, held_out, samples, seed)
    _check_files(output, plot)
    from attnx.paper import PROTOCOLS, table1

    table = options.measure(table1, RunDirOptions(run), protocols=_chosen(PROTOCOLS, protocol))
    show(table, as_json, as_markdown, output)
    draw(table, plot)


@app.command("table2")
def table2_command(
    model: Model = None,
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
    options = SentenceOptions(model, data, held_out, samples, seed)
    _check_files(output, plot)
    from attnx.paper import PROTOCOLS, table2

    table = options.measure(table2, RunDirOptions(run), protocols=_chosen(PROTOCOLS, protocol))
    show(table, as_json, as_markdown, output)
    draw(table, plot)


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
    options = SentenceOptions(model, data, held_out, samples, seed, attractors, with_subject=True)
    from attnx.paper.subject import subject

    table = options.measure(subject, RunDirOptions(run), layer=layer)
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
    from attnx.paper import figure1

    _figure(figure1, model, text, output)


@app.command("figure2")
def figure2_command(
    model: Model = None,
    text: Texts = None,
    output: FigureOutput = Path("figure2"),
) -> None:
    """Raw attention of CLS at each layer."""
    _check_figure(model, output)
    from attnx.paper import figure2

    _figure(figure2, model, text, output)


@app.command("figure3")
def figure3_command(
    model: Model = None,
    text: Texts = None,
    output: FigureOutput = Path("figure3"),
) -> None:
    """Rollout and flow to CLS at each layer."""
    _check_figure(model, output)
    from attnx.paper import figure3

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
    from attnx.paper import figure4
    from attnx.paper.figures import NEEDED
    from attnx.pipeline import load

    loaded, tokenizer = load(model, NEEDED)
    _show_figure(figure4(loaded, tokenizer), loaded, output)


def _check_files(output: Path | None, plot: Path | None) -> None:
    check_output(output, TABLES)
    check_plot(plot)


def _check_figure(model: Path | None, output: Path) -> None:
    from attnx.demo_models import saved_model

    picture_paths(output)
    if model is not None:
        saved_model(model)


def _chosen(protocols: Mapping[str, Protocol], name: ProtocolName) -> list[Protocol]:
    return [protocol for key, protocol in protocols.items() if name.value in (key, "both")]


def _figure(draw: Callable[..., Any], model: Path | None, texts: Any, output: Path) -> None:
    from attnx.adapters import adapter_for

    with chosen_model(model) as (_, loaded, tokenizer):
        figure = draw(loaded, tokenizer, texts) if texts else draw(loaded, tokenizer)
        for text in [texts] if isinstance(texts, str) else texts or ():
            say(adapter_for(loaded).prepare(loaded, tokenizer, text).notes)
        _show_figure(figure, loaded, output)


def _show_figure(figure: Any, model: Any, output: Path) -> None:
    """Write it; the paths are printed, one a line, and beside them whose figure it is."""
    from attnx.paper import model_title, save_picture

    for path in save_picture(figure, output):
        print_text(str(path))
    say([f"the figure shows {model_title(model)}"])
