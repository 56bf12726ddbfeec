"""`attnx truth`: which methods find what is known to decide."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnx.arguments import PAGES
from attnx.cli.checks import check_asked, check_file
from attnx.cli.options import (
    TABLES,
    AsJson,
    AsMarkdown,
    EngineName,
    KeepingOptions,
    RunFolder,
    TableOutput,
    Workers,
    check_output,
    kept,
    say,
    show,
)
from attnx.errors import InputError

if TYPE_CHECKING:
    from attnx.results.truth import Truth


def truth_command(
    suite: Annotated[
        list[str] | None, typer.Option("--suite", help="recall, subject, patch, cues, names …; may be repeated.")
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", help="A saved model's directory or hub id; else the embedded ones.")
    ] = None,
    data: Annotated[
        Path | None, typer.Option("--data", help="A cue file (prefix, good, bad, cue), or texts for faithfulness.")
    ] = None,
    method: Annotated[
        list[str] | None, typer.Option("--method", help="Only this one of `attnx methods`; may be repeated.")
    ] = None,
    reference: Annotated[
        list[str] | None, typer.Option("--reference", help="Only this one of `attnx methods`; may be repeated.")
    ] = None,
    rows: Annotated[int | None, typer.Option("--rows", help="Inputs of each suite, at most.")] = None,
    normalize: Annotated[
        str, typer.Option("--normalize", help="For decoders: auto, prefix, receptive_field, column or none.")
    ] = "auto",
    seed: Annotated[int, typer.Option("--seed", min=0, max=2**31 - 1, help="Of the inputs and of the bootstrap.")] = 0,
    run: RunFolder = None,
    engine: EngineName = None,
    workers: Workers = None,
    as_json: AsJson = False,
    as_markdown: AsMarkdown = False,
    html: Annotated[Path | None, typer.Option("--html", help="Write a page to look at, in one file.")] = None,
    output: TableOutput = None,
) -> None:
    """Hold methods and references against answers that are known."""
    check_output(output, TABLES)
    check_output(html, PAGES, "--html")
    check_file(data, "--data")
    if rows is not None and rows < 1:
        raise InputError(f"rows must be at least 1, found {rows}")
    fair = None if normalize == "none" else normalize
    check_asked(method, reference, model=model, suites=suite, normalize=fair)
    keeping = KeepingOptions(run, engine, workers)
    with kept(keeping):
        found = _measured(
            model,
            suites=suite or None,
            data=data,
            methods=method or None,
            references=reference or None,
            rows=rows,
            normalize=fair,
            seed=seed,
            **keeping.options,
        )
    show(found, as_json, as_markdown, output)
    if html is not None:
        found.to_html(html)
    say([f"wrote {path}" for path in (output, html) if path is not None])


def _measured(name: str | None, **options: Any) -> Truth:
    import torch

    from attnx.running.loading import hush, load
    from attnx.truth.measure import measure_truth

    hush()
    if name is None:
        torch.set_num_threads(1)  # the embedded models are tiny: a second thread costs them more than it brings
    model, tokenizer = (None, None) if name is None else load(name)
    return measure_truth(model, tokenizer, **options)
