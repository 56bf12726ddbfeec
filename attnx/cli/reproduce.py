"""`attnx reproduce`: the paper's tables and figures, and the subject check."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
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
    from attnx.paper import OverModels, Sentences, Trained
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

    chosen = [one for name, one in PROTOCOLS_TABLE_3.items() if protocol.value in (name, "both")]
    loaded, tokenizer = load(model or MODEL, NEEDED)
    sentences = reviews(loaded, tokenizer, data, samples)
    keeping = RunDirOptions(run)
    with kept(keeping):
        table = table3(loaded, tokenizer, sentences, protocols=chosen, seed=seed, progress=True, **keeping.options)
    show(table, as_json, as_markdown, output)


SHIPPED = "verb-number"
_TABLE = ".json"

Model = Annotated[
    Path | None, typer.Option("--model", help="A directory with a verb-number model; by default the embedded one.")
]
Models = Annotated[
    list[Path] | None,
    typer.Option(
        "--models",
        metavar="DIR…",
        help=f"Several models in one table, by the recipes that trained them: directories, one after the other; "
        f"{SHIPPED} is the embedded one, and a .json file of such a table brings its models along.",
    ),
]
More = Annotated[list[Path] | None, typer.Argument(metavar="DIR", hidden=True, help="Further directories of --models.")]
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
class AskedTrainings:
    """Which models, and which sentences of them."""

    model: Path | None
    models: list[Path] | None
    more: list[Path] | None
    data: list[Path] | None
    held_out: bool
    samples: int
    seed: int
    attractors: int | None = None
    with_subject: bool = False

    def __post_init__(self) -> None:
        from attnx.demo_models import saved_model

        if self.more and not self.models:
            raise InputError(f"{self.more[0]} is no option; directories of models stand after --models")
        if self.models and self.model is not None:
            raise InputError("give --model for one model or --models for many, not both")
        if self.held_out and not self.data:
            raise InputError("--held-out needs the files of the model's training: --data FILE --data FILE …")
        for path in self.data or ():
            check_file(path, "--data")
        for place in (self.model, *self.places):
            if place is not None:
                saved_model(place)

    @property
    def places(self) -> list[Path | None]:
        """The directories of several models; None is the embedded one."""
        return [None if str(path) == SHIPPED else path for path in self._several if path.suffix != _TABLE]

    @property
    def tables(self) -> list[Path]:
        """The tables among them that were saved."""
        return [path for path in self._several if path.suffix == _TABLE]

    @property
    def _several(self) -> tuple[Path, ...]:
        return (*(self.models or ()), *(self.more or ()))


def measured(
    measure: Callable[..., Any],
    over: Callable[..., OverModels[Any]],
    kind: type[OverModels[Any]],
    asked: AskedTrainings,
    options: dict[str, Any],
) -> Result:
    """The table of the model, or `over` all that were asked for, joined with tables of that kind that were saved."""
    table: Result
    if not asked.models:
        with chosen_model(asked.model) as (directory, loaded, tokenizer):
            table = measure(loaded, tokenizer, _sentences(asked, directory, loaded, tokenizer), **options)
        return table
    from attnx.adapters import read_lines

    saved = [kind.from_json("\n".join(read_lines(table))) for table in asked.tables]
    parts = [*saved, *([over(_trained(asked), **options)] if asked.places else [])]
    return parts[0] if len(parts) == 1 else kind.merge(parts)


def check_plot(plot: Path | None) -> None:
    """Before minutes of work, not after them."""
    from attnx.arguments import picture_paths

    if plot is not None:
        picture_paths(plot)


def draw(table: Result, plot: Path | None) -> None:
    from attnx.paper import save_picture

    if plot is not None:
        say(f"drawn in {path}" for path in save_picture(table.plot(), plot))


def _trained(asked: AskedTrainings) -> Iterator[Trained]:
    """One model after the other."""
    from attnx.demo_models import read_note
    from attnx.paper import UNNAMED, Trained

    for place in asked.places:
        with chosen_model(place) as (directory, model, tokenizer):
            name = SHIPPED if place is None else place.resolve().name
            recipe = read_note(directory).get("name") or UNNAMED
            say([f"{name} ({recipe})"])
            trained = Trained(name, recipe, model, tokenizer, _sentences(asked, directory, model, tokenizer))
        yield trained


def _sentences(asked: AskedTrainings, directory: Path, model: Any, tokenizer: Any) -> Sentences:
    from attnx.paper import sentences

    if not asked.data:
        chosen = sentences.generated(asked.samples, asked.seed, asked.attractors)
    elif asked.held_out:
        chosen = sentences.never_trained_on(directory, asked.data, asked.samples, with_subject=asked.with_subject)
    else:
        chosen = sentences.from_files(asked.data, asked.samples, asked.seed)
    ready = sentences.prepare(model, tokenizer, *chosen)
    say(ready.notes)
    return ready


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
    from attnx.paper import table1

    _table(table1, asked, protocol, RunDirOptions(run), as_json, as_markdown, output, plot)


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
    from attnx.paper import table2

    _table(table2, asked, protocol, RunDirOptions(run), as_json, as_markdown, output, plot)


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
    from attnx.paper import SubjectTrainings, subject_over_trainings
    from attnx.paper.subject import subject

    keeping = RunDirOptions(run)
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


def _table(
    measure: Callable[..., Any],
    asked: AskedTrainings,
    protocol: ProtocolName,
    keeping: RunDirOptions,
    as_json: bool,
    as_markdown: bool,
    output: Path | None,
    plot: Path | None,
) -> None:
    from attnx.paper import PROTOCOLS, Trainings, over_trainings

    protocols = [one for name, one in PROTOCOLS.items() if protocol.value in (name, "both")]
    options = {"protocols": protocols, "seed": asked.seed, "progress": True, **keeping.options}
    with kept(keeping):
        table = measured(measure, partial(over_trainings, measure), Trainings, asked, options)
    show(table, as_json, as_markdown, output)
    draw(table, plot)


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
