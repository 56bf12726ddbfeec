"""`attnx run`: a whole data set into a folder, which the same command resumes; `attnx show`: what is in it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from attnx.arguments import PAGES
from attnx.cli.options import (
    AsJson,
    Model,
    asked_model,
    check_asked,
    check_output,
    number_or_word,
    print_inert,
    print_text,
    say,
)
from attnx.errors import InputError

_FAILED = 5
"""So many failed rows are listed; the column `error` has all of them."""
_STOPPED = "stopped; the same command resumes it"


def run_command(
    data: Annotated[
        str | None, typer.Option("--data", help="A .txt, .csv, .tsv, .jsonl or .parquet file, or a folder of images.")
    ] = None,
    column: Annotated[
        list[str] | None, typer.Option("--column", help="The column that has the texts; given twice, pairs of them.")
    ] = None,
    gold: Annotated[str | None, typer.Option("--gold", help="The column that has the right labels.")] = None,
    id_column: Annotated[str | None, typer.Option("--id", help="The column that has the names of the rows.")] = None,
    model: Model = None,
    run_dir: Annotated[
        str | None, typer.Option("--run-dir", help="The folder of the run, or an address: s3://…")
    ] = None,
    method: Annotated[
        list[str] | None, typer.Option("--method", help="What to compute, by a name of `attnx methods`; repeatable.")
    ] = None,
    reference: Annotated[
        list[str] | None, typer.Option("--reference", help="What to measure on the model; repeatable.")
    ] = None,
    layer: Annotated[str | None, typer.Option("--layer", help="One layer from 1, or all; by default the last.")] = None,
    target: Annotated[str | None, typer.Option("--target", help="The class or token that is explained.")] = None,
    truncate: Annotated[bool, typer.Option("--truncate", help="Cut texts that are too long for the model.")] = False,
    batch_size: Annotated[int, typer.Option("--batch-size", min=1, help="Texts in one run of the model.")] = 8,
    shard_rows: Annotated[
        int | None, typer.Option("--shard-rows", min=1, help="Rows of one file; by default half a minute's.")
    ] = None,
    engine: Annotated[
        str | None, typer.Option("--engine", help="ray, or the address of a cluster: ray://head:10001.")
    ] = None,
    workers: Annotated[int | None, typer.Option("--workers", help="How many, of a cluster; by default all.")] = None,
    num_gpus: Annotated[float, typer.Option("--num-gpus", help="Of each worker.")] = 0,
    status: Annotated[str | None, typer.Option("--status", help="Say how far the run in this folder is.")] = None,
) -> None:
    """Explain a whole data set. The same command resumes a stopped or killed run."""
    if status is not None:
        _status(status)
        return
    if data is None or run_dir is None:
        raise InputError("a run needs data and a folder: attnx run --data reviews.csv --column text --run-dir run/")
    check_asked(method, reference, model=model, layer=number_or_word(layer))
    from attnx.runs import explain_dataset

    options: dict[str, Any] = {"methods": method or None, "references": reference or None, "target": target}
    options |= {"truncate": truncate} if truncate else {}
    columns = None if not column else column[0] if len(column) == 1 else tuple(column)
    with _model(model) as (loaded, tokenizer):
        try:
            run = explain_dataset(
                loaded,
                tokenizer,
                data,
                column=columns,
                gold=gold,
                id_column=id_column,
                run_dir=run_dir,
                layer=number_or_word(layer),
                batch_size=batch_size,
                shard_rows=shard_rows,
                engine=engine,
                workers=workers,
                num_gpus=num_gpus,
                **{name: value for name, value in options.items() if value is not None},
            )
        except KeyboardInterrupt:
            say([f"what was done is in {run_dir}; the same command resumes the run"])
            raise
    _say_failed(run.failed)
    say([f"{len(run):,} rows are in {run_dir}; attnx show {run_dir}"])
    if not run.complete:  # memory was short for some rows
        raise typer.Exit(1)


def show_command(
    folder: Annotated[str, typer.Argument(help="The folder of a run.")],
    row: Annotated[int | None, typer.Option("--row", help="One explanation, by its row from 0.")] = None,
    method: Annotated[str | None, typer.Option("--method", help="By which the words are summed up.")] = None,
    html: Annotated[Path | None, typer.Option("--html", help="Write a page to search, filter and sort.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show what a run found: for each label the words that contribute most, or one row, or a page of all."""
    check_output(html, PAGES, "--html")
    from attnx.runs import Run

    run = Run.load(folder)
    if html is not None:
        run.to_html(html)
        say([f"wrote {html}"])
    result: Any = run.summary(method) if row is None else run[row]
    print_inert(result.to_json()) if as_json else print_text(result.to_text())


def _model(name: str | None) -> Any:
    """The name is handed on as it is, so that workers can load the model by themselves."""
    from contextlib import nullcontext

    return nullcontext((name, None)) if name is not None else asked_model(None)


def _status(folder: str) -> None:
    from attnx.runs import status_of

    status = status_of(folder)
    total, there = status.manifest.rows, status.rows
    state = "complete" if status.complete else "being written now" if status.running else _STOPPED
    share = f" of {total:,} ({there / total:.0%})" if total and not status.complete else ""
    print_text(f"{folder}: {status.manifest.task}, {there:,}{share} rows in {status.parts:,} shards, {state}")
    settings = status.manifest.fingerprint["settings"]
    described = "; ".join(f"{name} {_in_words(setting)}" for name, setting in settings.items())
    print_text(f"data {status.manifest.source}; {described}")
    _say_failed(status.failed)


def _in_words(setting: Any) -> str:
    return ", ".join(map(str, setting)) if isinstance(setting, (list, dict)) else str(setting)


def _say_failed(failed: Any) -> None:
    if failed:
        say([f"{len(failed):,} rows could not be explained, and say why in the column error:"])
        say(f"  row {row.row} ({row.id}): {row.error}" for row in failed[:_FAILED])
