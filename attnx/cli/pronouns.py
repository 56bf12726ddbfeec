"""`attnx probe`: questions about a thing that is known, for a sentence or a whole data set."""

from __future__ import annotations

import time
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from attnx.arguments import FIGURES, file_of
from attnx.cli.options import AsJson, AsMarkdown, check_asked, check_file, print_inert, print_text, say, show
from attnx.errors import InputError

_NOTES = 5
"""So many remarks are printed; the results have all of them."""

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Ask a model where it looks, where that is known.")


class SpanName(StrEnum):
    sum = "sum"
    mean = "mean"


@app.callback()
def probes() -> None:
    """Ask a model where it looks, where that is known."""


@app.command("pronouns")
def pronouns_command(
    sentence: Annotated[
        str | None, typer.Argument(help="A sentence with [MASK] for its pronoun; or give --data.", show_default=False)
    ] = None,
    data: Annotated[
        Path | None, typer.Option("--data", help="Winogender templates, or a CSV file: sentence, candidates, answer.")
    ] = None,
    model: Annotated[
        str, typer.Option("--model", help="A saved masked language model's directory or hub id.")
    ] = "bert-large-uncased",
    candidates: Annotated[str | None, typer.Option("--candidates", help='Of the sentence: "author|Sara".')] = None,
    pronouns: Annotated[str | None, typer.Option("--pronouns", help='Of the sentence: "his|her".')] = None,
    implies: Annotated[
        str | None, typer.Option("--implies", help='Who goes with which pronoun: "his=author|her=Sara".')
    ] = None,
    method: Annotated[list[str] | None, typer.Option("--method", help="What to compute; may be repeated.")] = None,
    reference: Annotated[
        list[str] | None, typer.Option("--reference", help="What to measure on the model; by default lrp.")
    ] = None,
    written: Annotated[
        bool, typer.Option("--written", help="Write every pronoun in the mask's place, and explain it instead.")
    ] = False,
    span: Annotated[
        SpanName, typer.Option("--span", help="How the word pieces of a candidate become one number.")
    ] = SpanName.sum,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            help="A .png, .svg or .pdf, else the first two; of a data set also the folder of its results.",
        ),
    ] = None,
    batch_size: Annotated[int, typer.Option("--batch-size", min=1, help="Sentences in one run of the model.")] = 8,
    seed: Annotated[int, typer.Option("--seed", min=0, max=2**31 - 1, help="Draws the bootstrap.")] = 0,
    as_json: AsJson = False,
    as_markdown: AsMarkdown = False,
) -> None:
    """Which candidate does a masked pronoun draw from, layer by layer, and does that agree with the prediction?

    With --data, results are kept in a folder as they come: the same command goes on where it was stopped.
    """
    if (sentence is None) == (data is None):
        raise InputError('give a sentence with a mask ("The author talked to Sara about [MASK] book"), or --data FILE')
    check_asked(method, reference, model=model)
    check_file(data, "--data")
    options: dict[str, Any] = {"span": span.value, "references": reference or None}
    options |= {"methods": method} if method else {}
    if data is not None:
        if candidates or pronouns or implies:
            raise InputError("--candidates, --pronouns and --implies are of a sentence; with --data the file has them")
        names = _names(output, f"{data.name.split('.')[0]}.{'written' if written else 'pronouns'}")
        report = _run(model, data, *names, written=written, batch_size=batch_size, seed=seed, **options)
        show(report, as_json, as_markdown, None)
    else:
        if written:
            raise InputError("--written is for --data; in a sentence, put the pronoun in place of the mask in Python")
        _ask(model, str(sentence), candidates, pronouns, implies, output, as_json, options)


def _run(model: str, data: Path, folder: Path, pictures: Sequence[Path], *, written: bool, **options: Any) -> Any:
    # Loaded here, so that --help and mistakes in the arguments answer at once.
    from attnx.paper import save_picture
    from attnx.pipeline import load
    from attnx.pronouns import read, run, written_out

    sentences = written_out(read(data)) if written else read(data)
    source = f"{data.name}, pronouns written out" if written else data.name
    if not folder.parent.is_dir():
        raise InputError(f"there is no directory {folder.parent}; create it first")
    loaded, tokenizer = load(model)
    there = _kept(folder)
    begun = time.perf_counter()
    try:
        report = run(loaded, tokenizer, sentences, source=source, run_dir=folder, progress=True, **options)
    except KeyboardInterrupt:
        say([f"what was asked is in {folder}; the same command resumes the run"])
        raise
    index, seconds = _kept(folder) - there, time.perf_counter() - begun
    say(f"{note} (in {count:,} sentences)" for note, count in list(report.notes.items())[:_NOTES])
    say([f"{index:,} sentences asked in {seconds:.1f} s; {folder} has {len(sentences):,}"])
    if report.applicable("right") or report.applicable("implied"):
        figure = report.plot()
        say([", ".join(str(path) for image in pictures for path in save_picture(figure, image))])
    return report


def _ask(
    model: str,
    sentence: str,
    candidates: str | None,
    pronouns: str | None,
    implies: str | None,
    output: Path | None,
    as_json: bool,
    options: dict[str, Any],
) -> None:
    import json

    from attnx.arguments import picture_paths
    from attnx.pronouns import mapping, pieces

    if output is not None:
        picture_paths(output)
    implied = mapping(implies or "")
    names = pieces(pronouns or "") or tuple(implied)
    if not candidates or not names:
        raise InputError('a sentence needs --candidates "author|Sara" and --pronouns "his|her"')
    from attnx.paper import save_picture
    from attnx.pipeline import load
    from attnx.pronouns.probe import probe

    result = probe(*load(model), sentence, candidates=pieces(candidates), pronouns=names, implies=implied, **options)
    say(result.notes)
    if as_json:
        print_inert(json.dumps(result.to_dict(), ensure_ascii=False, allow_nan=False))
    else:
        print_text(str(result))
    if output is not None:
        say([", ".join(map(str, save_picture(result.plot(), output)))])


def _kept(folder: Path) -> int:
    """Sentences that the folder has results of."""
    from attnx.runs import RunDir, parts

    return sum(part.rows for part in parts(RunDir.of(folder)).values())


def _names(output: Path | None, name: str) -> tuple[Path, list[Path]]:
    """Of a data set: the folder of its results, and its pictures, a .png and a .svg unless the name ends like one."""
    if output is None or not output.suffix:
        folder = Path(name) if output is None else output
        return folder, [folder.with_name(folder.name + suffix) for suffix in FIGURES[:2]]
    file_of(output, FIGURES, "--output")
    return output.with_suffix(""), [output]
