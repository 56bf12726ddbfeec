"""Options and checks that commands share, and what they print."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path, PurePath
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnx.arguments import check_file_to_write
from attnx.errors import InputError
from attnx.views import json_line, printable, printable_lines

if TYPE_CHECKING:
    from attnx.results import Result, Said

Texts = Annotated[list[str] | None, typer.Argument(help="The texts to look at.")]
Data = Annotated[
    Path | None, typer.Option("--data", help="A file: one text a line, or a .csv, .tsv or .jsonl with a column.")
]
Column = Annotated[str | None, typer.Option("--column", help="The column that has the texts.")]
Samples = Annotated[int | None, typer.Option("--samples", help="Only so many texts of the file.")]
Model = Annotated[str | None, typer.Option("--model", help="A directory, hub id or embedded model; else verb-number.")]
References = Annotated[
    list[str] | None, typer.Option("--reference", help="What to hold attention against; may be repeated.")
]
Measure = Annotated[str, typer.Option("--measure", help="spearman, kendall or top_k.")]
TargetName = Annotated[str | None, typer.Option("--target", help="The class or token that references explain.")]
Truncate = Annotated[bool, typer.Option("--truncate", help="Cut texts that are too long for the model.")]


def asked_texts(texts: list[str] | None, data: Path | None, column: str | None, samples: int | None) -> list[str]:
    """The texts of the command line, or those of a file."""
    from attnx.adapters import read_texts

    if texts and data is not None:
        raise InputError("give texts or --data, not both")
    if data is not None:
        return [text.text for text in read_texts(data, column=column, limit=samples)]
    if not texts:
        raise InputError('no text to look at: give one or more, as in "the key to the cabinets", or --data FILE')
    if column is not None or samples is not None:
        raise InputError("--column and --samples are for a file: --data FILE")
    return texts


RunFolder = Annotated[
    str | None,
    typer.Option("--run-dir", help="Keep the work in this folder, or address: the same command goes on from there."),
]
EngineName = Annotated[
    str | None, typer.Option("--engine", help="Of --run-dir: ray, or the address of a cluster: ray://head:10001.")
]
Workers = Annotated[int | None, typer.Option("--workers", help="Of --engine: how many; by default all.")]


@dataclass(frozen=True)
class RunDirOptions:
    """Where a command over many inputs keeps its work, and who does it."""

    run: str | None
    engine: str | None = None
    workers: int | None = None

    def __post_init__(self) -> None:
        if self.run is None and (self.engine is not None or self.workers is not None):
            raise InputError("--engine and --workers are for work that is kept: --run-dir DIR")

    @property
    def options(self) -> dict[str, Any]:
        told = {"run_dir": self.run, "engine": self.engine, "workers": self.workers}
        return {name: value for name, value in told.items() if value is not None}

    def texts(
        self, texts: list[str] | None, data: Path | None, column: str | None, samples: int | None
    ) -> tuple[Any, dict[str, Any]]:
        """What to look at, and the further options for it: a file whose work is kept is read as it is needed."""
        if self.run is None or data is None or texts or samples is not None:
            return asked_texts(texts, data, column, samples), self.options
        return data, {**self.options, **({} if column is None else {"column": column})}


@contextmanager
def kept(keeping: RunDirOptions) -> Iterator[None]:
    """Work that may be stopped: who stops it is told how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        if keeping.run is not None:
            say([f"what was done is in {keeping.run}; the same command goes on from there"])
        raise


@contextmanager
def asked_model(name: str | None) -> Iterator[tuple[Any, Any]]:
    """(model, tokenizer): the one that was named, or the embedded one."""
    from attnx.pipeline import load

    if name is not None:
        yield load(name)
    else:
        with chosen_model() as (_, loaded, tokenizer):
            yield loaded, tokenizer


AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, with all digits.")]
AsMarkdown = Annotated[bool, typer.Option("--markdown", help="Print Markdown.")]
TableOutput = Annotated[
    Path | None, typer.Option("--output", help="Also write to a file: .json, .md, .csv, .html or .txt.")
]


def check_output(output: Path | None, suffixes: Sequence[str], name: str = "--output") -> None:
    """Before minutes of work, not after them."""
    if output is None:
        return
    check_file_to_write(output, suffixes, name)


def show(table: Result, as_json: bool, as_markdown: bool, output: Path | None) -> None:
    """Write a table where the user asked, and print it: in that order, for whoever reads the print may hang up."""
    if output is not None:
        output.write_text(FORMS[output.suffix.lower()](table).rstrip("\n") + "\n", encoding="utf-8")
    print_inert(table.to_json()) if as_json else print_text(table.to_markdown() if as_markdown else table.to_text())


def level(given: str | None) -> int | str | None:
    """A layer by its number, or by its name in an encoder–decoder; all else is a mistake that needs no model."""
    from attnx.attention import KINDS

    name = number_or_word(given)
    if isinstance(name, str) and name.partition(" ")[0] not in KINDS:
        raise InputError(
            f"--layer {name!r} is no layer: give a number from 1, or of an encoder–decoder one of {', '.join(KINDS)} "
            'with its place ("cross 2")'
        )
    return name


def number_or_word(given: str | None) -> int | str | None:
    """A number where it is one, and else the word."""
    try:
        return given if given is None else int(given)
    except ValueError:
        return given


def read_input() -> str:
    """All of standard input."""
    try:
        return sys.stdin.read()
    except UnicodeDecodeError as error:
        raise InputError(f"standard input is no UTF-8 text ({error.reason} at byte {error.start}); encode it") from None


def say(notes: Iterable[str]) -> None:
    """On standard error, where it is in nobody's way."""
    for note in notes:
        print(f"attnx: {printable(str(note))}", file=sys.stderr)


def print_text(text: str) -> None:
    """Lines for people: whatever stood in a label or a file's name, it steers no terminal."""
    print(printable_lines(text))


def say_options(remarks: Iterable[Said]) -> None:
    """What the remarks on a result advise, as options of the command line, on standard error."""
    from attnx.results import options

    say(dict.fromkeys(options(remarks)))


def print_inert(text: str) -> None:
    """JSON for programs, on a terminal too."""
    print(json_line(text))


FORMS: Mapping[str, Callable[[Result], str]] = {
    ".json": lambda table: table.to_json(),
    ".md": lambda table: table.to_markdown(),
    ".csv": lambda table: table.to_csv(),
    ".html": lambda table: table.to_html(),
    ".txt": lambda table: table.to_text(),
}
TABLES = tuple(FORMS)
"""The end of a file's name says the format of a table in it."""


@contextmanager
def chosen_model(directory: Path | None = None) -> Iterator[tuple[Path, Any, Any]]:
    """(directory, model, tokenizer); the directory tells what the model was trained on."""
    from attnx.demo_models import demo_directory, load_any
    from attnx.pipeline import hush

    hush()
    with demo_directory() if directory is None else nullcontext(directory) as place:
        yield place, *load_any(place)


def check_asked(
    methods: Sequence[str] | str | None = None,
    references: Sequence[str] | None = None,
    *,
    model: str | None = None,
    measure: str | None = None,
    suites: Sequence[str] | None = None,
    **choices: Any,
) -> None:
    """Names of methods, references, measures and suites, a model's path, and what else `explain` takes."""
    from attnx.pipeline import check_choices

    check_choices((methods,) if isinstance(methods, str) else methods, references, **choices)
    if measure is not None:
        from attnx.statistics import MEASURES

        MEASURES.check(measure)
    if suites:
        from attnx.benchmarks import SUITES

        for suite in suites:
            SUITES.check(suite)
    if model is not None:
        from attnx.demo_models import SHIPPED
        from attnx.pipeline import saved_model

        if model not in SHIPPED:
            saved_model(model)


def check_file(path: Path | None, option: str) -> None:
    """A file to read."""
    if path is not None and not path.is_file():
        raise InputError(f"there is no file {path}; give one with {option}")


TABLE_FILES = (".csv", ".tsv", ".jsonl", ".ndjson")
PICTURES = (".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff")
SOUNDS = (".wav", ".wave")
SAVED = (".safetensors",)
WRITTEN = (".txt", ".md", ".text", ".json", ".html", ".py")


def file_notes(texts: Iterable[str], command: str) -> Iterator[str]:
    """A note for each text of `attnx command` that is an existing file's name, or ends like one."""
    for text in texts:
        suffix = PurePath(text).suffix.lower()
        if _exists(text):
            instead = _instead(text, suffix, command)
            yield f"{quote(text)} is the name of a file, and the name is what is read; {instead}"
        elif suffix in (*TABLE_FILES, *PICTURES, *SOUNDS, *SAVED, *WRITTEN) and not text.split()[1:]:
            yield f"{quote(text)} ends like a file's name, but there is no such file: it is read as a text"


def _exists(text: str) -> bool:
    try:
        return Path(text).is_file()
    except (OSError, ValueError):  # too long for a name, or with characters that none has
        return False


def _instead(name: str, suffix: str, command: str) -> str:
    if suffix in PICTURES:
        return f"the picture: attnx explain --image {quote(name)} --model DIRECTORY"
    if suffix in SOUNDS:
        return f"the sound: attnx explain --sound {quote(name)} --model DIRECTORY"
    if suffix in SAVED:
        return f"a saved explanation: attnx.Explanation.load({name!r}) in Python"
    if command in ("compare", "atlas"):
        return f"the texts in it: attnx {command} --data {quote(name)}"
    if suffix in TABLE_FILES and command == "explain":
        return f"the texts in it: attnx compare --data {quote(name)}, or give one of them"
    return f"the text in it: attnx {command} - < {quote(name)}"
