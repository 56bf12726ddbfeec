"""`attnx atlas`: every head of every layer by itself, over many texts."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from attnx.cli.checks import check_asked
from attnx.cli.file_names import file_notes
from attnx.cli.options import (
    TABLES,
    AsJson,
    AsMarkdown,
    Column,
    Data,
    EngineName,
    KeepingOptions,
    Measure,
    Model,
    References,
    RunFolder,
    Samples,
    TableOutput,
    TargetName,
    Texts,
    Truncate,
    Workers,
    asked_model,
    check_output,
    kept,
    say,
    show,
)


def atlas_command(
    texts: Texts = None,
    data: Data = None,
    column: Column = None,
    samples: Samples = None,
    model: Model = None,
    method: Annotated[str, typer.Option("--method", help="raw, rollout or flow.")] = "rollout",
    reference: References = None,
    measure: Measure = "spearman",
    target: TargetName = None,
    truncate: Truncate = False,
    run: RunFolder = None,
    engine: EngineName = None,
    workers: Workers = None,
    as_json: AsJson = False,
    as_markdown: AsMarkdown = False,
    output: TableOutput = None,
) -> None:
    """Show which heads carry most to the explained position, as a grid of layers and heads."""
    check_output(output, TABLES)
    keeping = KeepingOptions(run, engine, workers)
    chosen, more = keeping.texts(texts, data, column, samples)
    say(file_notes(texts or (), "atlas"))
    check_asked(method, reference, model=model, measure=measure)
    options: dict[str, Any] = {"methods": method, "measure": measure, "target": target, "truncate": truncate}
    options |= {"references": reference, **more} if reference else more
    from attnx.comparison.head_atlas import head_atlas

    with asked_model(model) as (loaded, tokenizer), kept(keeping):
        atlas = head_atlas(loaded, tokenizer, chosen, **options)
    show(atlas, as_json, as_markdown, output)
