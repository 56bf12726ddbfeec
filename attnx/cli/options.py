"""Options that commands share, each declared once with its help text; checks of them; and printing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path, PurePath
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from attnx.arguments import PAGES, SAVED, check_file_to_write
from attnx.errors import InputError
from attnx.views import json_line, printable, printable_lines

if TYPE_CHECKING:
    from attnx.results import Result, Said

EMBEDDED = "verb-number"
"""The model that is explained where none is named."""
INPUT, METHODS, OUTPUT, RUN, ADVANCED = "Input", "Methods", "Output", "Long runs", "Advanced"
"""Panels of options in the help of a command."""


def fields_as_parameters(function: Callable[..., None]) -> Callable[..., None]:
    """The function of a command, with the fields of its dataclass parameters as parameters of their own."""
    kinds: dict[str, Any] = {}
    parameters: list[Parameter] = []
    for name, parameter in signature(function, eval_str=True).parameters.items():
        if not is_dataclass(parameter.annotation):
            parameters.append(parameter.replace(kind=Parameter.KEYWORD_ONLY))
            continue
        kinds[name] = parameter.annotation
        types = get_type_hints(parameter.annotation, include_extras=True)
        parameters += [
            Parameter(field.name, Parameter.KEYWORD_ONLY, default=field.default, annotation=types[field.name])
            for field in fields(parameter.annotation)
        ]

    @wraps(function)
    def call(**values: Any) -> None:
        groups = {
            name: kind(**{field.name: values.pop(field.name) for field in fields(kind)}) for name, kind in kinds.items()
        }
        function(**values, **groups)

    call.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return call


def option(usage: str, help: str, panel: str = METHODS, **settings: Any) -> Any:
    """An option by its usage, such as "--model -m NAME"."""
    words = usage.split()
    flags = [word for word in words if word.startswith("-")]
    metavar = " ".join(words[len(flags) :]) or " "  # of a flag not even the type
    return typer.Option(*flags, metavar=metavar, help=help, rich_help_panel=panel, **settings)


# Options of several commands

Model = Annotated[
    str | None,
    option("--model -m NAME", "A directory, hub id or model that ships with attnx (default: verb-number).", INPUT),
]
Truncate = Annotated[bool, option("--truncate", "Cut texts that are too long for the model.", INPUT)]
Methods = Annotated[list[str] | None, option("--method NAME", "A method, see attnx methods; repeat for several.")]
References = Annotated[
    list[str] | None, option("--reference NAME", "A method that runs the model, such as lrp; repeat for several.")
]
Against = Annotated[
    list[str] | None, option("--against NAME", "A method to compare with, such as lrp; repeat for several.")
]
TargetName = Annotated[
    str | None, option("--target LABEL", "The class or token to explain (default: what the model predicts).")
]
Measure = Annotated[str, option("--measure NAME", "Measure of agreement: spearman, kendall or top_k.")]
Normalize = Annotated[
    str,
    option("--normalize NAME", "Correct for a decoder's causal mask: auto, prefix, receptive_field, column or none."),
]
Seed = Annotated[int, option("--seed N", "Seed of all random numbers.", min=0, max=2**31 - 1)]
RunFolder = Annotated[
    str | None,
    option("--run-dir DIR", "Keep results in this folder; the same command resumes.", RUN),
]
AsJson = Annotated[bool, option("--json", "Print JSON with all digits.", OUTPUT)]
AsMarkdown = Annotated[bool, option("--markdown", "Print Markdown.", OUTPUT)]
TableOutput = Annotated[
    Path | None,
    option("--output -o FILE", "Write the table as .json, .md, .csv, .html, .txt or .tex, by the suffix.", OUTPUT),
]
Html = Annotated[Path | None, option("--html FILE", "Write an interactive page as a single file.", OUTPUT)]


@dataclass(frozen=True)
class TextInputs:
    """The texts on which methods are evaluated, and the model."""

    texts: Annotated[list[str] | None, typer.Argument(metavar="TEXT", help="Texts.", show_default=False)] = None
    data: Annotated[
        Path | None,
        option("--data FILE", "Texts: one per line, or a .csv, .tsv or .jsonl file with a column of texts.", INPUT),
    ] = None
    column: Annotated[str | None, option("--column NAME", "The column of texts in the file.", INPUT)] = None
    limit: Annotated[int | None, option("--limit N", "Use only the first N texts of the file.", INPUT)] = None
    model: Model = None
    truncate: Truncate = False

    def read(self) -> list[str]:
        """The texts of the command line, or those of the file."""
        from attnx.adapters import read_texts

        if self.texts and self.data is not None:
            raise InputError("give texts or --data, not both")
        if self.data is not None:
            return [text.text for text in read_texts(self.data, column=self.column, limit=self.limit)]
        if not self.texts:
            raise InputError('no text: give one or more, as in "the key to the cabinets", or --data FILE')
        if self.column is not None or self.limit is not None:
            raise InputError("--column and --limit are for a file: --data FILE")
        return self.texts


@dataclass(frozen=True)
class RunDirOptions:
    """Where a command over many inputs keeps its work, and what does it."""

    run: RunFolder = None
    engine: Annotated[
        str | None, option("--engine NAME", "ray, or the address of a Ray cluster: ray://head:10001.", RUN)
    ] = None
    workers: Annotated[int | None, option("--workers N", "Number of workers of the engine (default: all).", RUN)] = None

    def __post_init__(self) -> None:
        if self.run is None and (self.engine is not None or self.workers is not None):
            raise InputError("--engine and --workers require a folder for the results: --run-dir DIR")

    @property
    def options(self) -> dict[str, Any]:
        """The arguments of a function of attnx that keeps its work."""
        options = {"run_dir": self.run, "engine": self.engine, "workers": self.workers}
        return {name: value for name, value in options.items() if value is not None}

    def texts(self, inputs: TextInputs) -> tuple[Any, dict[str, Any]]:
        """The texts and the options for them; a file is read as it is needed where the work is kept."""
        if self.run is None or inputs.data is None or inputs.texts or inputs.limit is not None:
            return inputs.read(), self.options
        return inputs.data, {**self.options, **({} if inputs.column is None else {"column": inputs.column})}


@contextmanager
def kept(run: RunDirOptions) -> Iterator[None]:
    """Work that may be interrupted: say how to resume it."""
    try:
        yield
    except KeyboardInterrupt:
        if run.run is not None:
            say([f"partial results are in {run.run}; the same command resumes"])
        raise


@contextmanager
def asked_model(name: str | None) -> Iterator[tuple[Any, Any]]:
    """(model, tokenizer) of this name, or the one that ships with attnx."""
    from attnx.pipeline import load

    yield load(name or EMBEDDED)


@contextmanager
def chosen_model(directory: Path | None = None) -> Iterator[tuple[Path, Any, Any]]:
    """(directory, model, tokenizer); the directory has the record of what the model was trained on."""
    from attnx.demo_models import demo_directory, load_any
    from attnx.pipeline import hush

    hush()
    with demo_directory() if directory is None else nullcontext(directory) as folder:
        yield folder, *load_any(folder)


# Output

FORMS: Mapping[str, Callable[[Result], str]] = {
    ".json": lambda table: table.to_json(),
    ".md": lambda table: table.to_markdown(),
    ".csv": lambda table: table.to_csv(),
    ".html": lambda table: table.to_html(),
    ".txt": lambda table: table.to_text(),
    ".tex": lambda table: latex(table),
}
TABLES = tuple(FORMS)
RESULTS = (*SAVED, ".html", ".json", ".csv", ".md", ".txt")
"""Suffixes of the formats of a table, and of a result that can be loaded again."""


@dataclass(frozen=True)
class TableOutputs:
    """How a table is printed, and the files that it is written to."""

    as_json: AsJson = False
    as_markdown: AsMarkdown = False
    output: TableOutput = None
    html: Html = None

    def __post_init__(self) -> None:
        """Before minutes of work, not after them."""
        check_output(self.output, TABLES)
        check_output(self.html, PAGES, "--html")

    def show(self, table: Result) -> None:
        """Write the files and print the table, in that order: a reader of the output may stop reading."""
        if self.html is not None:
            table.to_html(self.html)
        show(table, self.as_json, self.as_markdown, self.output)
        say([f"wrote {path}" for path in (self.output, self.html) if path is not None])


def write_result(result: Result, path: Path) -> None:
    """Write a result in the format that the suffix names."""
    if path.suffix.lower() in SAVED:
        result.save(path)
    elif path.suffix.lower() in PAGES:
        result.to_html(path)
    else:
        path.write_text(FORMS[path.suffix.lower()](result).rstrip("\n") + "\n", encoding="utf-8")


def latex(result: Result) -> str:
    """The tables of a result in LaTeX."""
    from attnx.results import VIEWS
    from attnx.views import as_latex

    return as_latex(VIEWS[result.kind]().blocks(result))


def show(table: Result, as_json: bool, as_markdown: bool, output: Path | None) -> None:
    if output is not None:
        write_result(table, output)
    print_inert(table.to_json()) if as_json else print_text(table.to_markdown() if as_markdown else table.to_text())


def say(notes: Iterable[str]) -> None:
    """Print notes on standard error."""
    for note in notes:
        print(f"attnx: {printable(str(note))}", file=sys.stderr)


def say_options(warnings: Iterable[Said]) -> None:
    """Print the options that the warnings about a result advise."""
    from attnx.results import options

    say(dict.fromkeys(options(warnings)))


def print_text(text: str) -> None:
    """Print text without the control characters that a label or the name of a file may contain."""
    print(printable_lines(text))


def print_inert(text: str) -> None:
    print(json_line(text))


# Checks before anything heavy is loaded


def check_output(output: Path | None, suffixes: Sequence[str], name: str = "--output") -> None:
    if output is not None:
        check_file_to_write(output, suffixes, name)


def check_file(path: Path | None, option: str) -> None:
    """Check that a file to read exists."""
    if path is not None and not path.is_file():
        raise InputError(f"there is no file {path}; give one with {option}")


def check_asked(
    methods: Sequence[str] | None = None,
    references: Sequence[str] | None = None,
    *,
    model: str | None = None,
    measure: str | None = None,
    suites: Sequence[str] | None = None,
    **choices: Any,
) -> None:
    """Check names of methods, measures and suites, the path of a model, and other options of `explain`."""
    from attnx.pipeline import check_choices

    check_choices(methods, references, **choices)
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


def parse_layer(text: str | None) -> int | str | None:
    """A layer by its number, or by its name in an encoder–decoder."""
    from attnx.attention import KINDS

    name = number_or_word(text)
    if isinstance(name, str) and name.partition(" ")[0] not in KINDS:
        raise InputError(
            f"--layer {name!r} is not a layer: give a number from 1, or in an encoder–decoder one of "
            f'{", ".join(KINDS)} with its number ("cross 2")'
        )
    return name


def number_or_word(text: str | None) -> int | str | None:
    try:
        return text if text is None else int(text)
    except ValueError:
        return text


def read_input(text: str) -> str:
    """The text, or all of standard input for "-"."""
    if text != "-":
        return text
    try:
        return sys.stdin.read()
    except UnicodeDecodeError as error:
        message = f"standard input is not UTF-8 text ({error.reason} at byte {error.start}); convert it"
        raise InputError(message) from None


TABLE_FILES = (".csv", ".tsv", ".jsonl", ".ndjson")
IMAGES = (".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff")
AUDIO = (".wav", ".wave")
OTHER_FILES = (".safetensors", ".txt", ".md", ".text", ".json", ".html", ".py")


def file_notes(texts: Iterable[str], command: str) -> Iterator[str]:
    """A note for each text of `attnx command` that is the name of a file, or looks like one."""
    for text in texts:
        suffix = PurePath(text).suffix.lower()
        try:
            exists = Path(text).is_file()
        except (OSError, ValueError):  # too long for a name, or with characters that none has
            exists = False
        if exists:
            yield f"{quote(text)} is the name of a file, but is read as a text; {_instead(text, suffix, command)}"
        elif suffix in (*TABLE_FILES, *IMAGES, *AUDIO, *OTHER_FILES) and not text.split()[1:]:
            yield f"{quote(text)} looks like the name of a file, but there is no such file: it is read as a text"


def _instead(name: str, suffix: str, command: str) -> str:
    if suffix in IMAGES:
        return f"for the image: attnx explain --image {quote(name)} --model DIRECTORY"
    if suffix in AUDIO:
        return f"for the audio: attnx explain --audio {quote(name)} --model DIRECTORY"
    if suffix == ".safetensors":
        return f"for a saved explanation: attnx.Explanation.load({name!r}) in Python"
    if command not in ("explain", "generate"):
        return f"for the texts in it: attnx {command} --data {quote(name)}"
    if suffix in TABLE_FILES and command == "explain":
        return f"for the texts in it: attnx run --data {quote(name)} --run-dir DIR"
    return f"for the text in it: attnx {command} - < {quote(name)}"
