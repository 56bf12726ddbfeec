"""`attnx atlas`: every head of every layer by itself, over many texts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from attnx.cli.compare import asked_model, asked_texts
from attnx.cli.output import AsJson, AsMarkdown, check_output, show


def atlas_command(
    texts: Annotated[list[str] | None, typer.Argument(help="The texts to look at.")] = None,
    data: Annotated[
        Path | None, typer.Option("--data", help="A file: one text a line, or a .csv, .tsv or .jsonl with a column.")
    ] = None,
    column: Annotated[str | None, typer.Option("--column", help="The column that has the texts.")] = None,
    samples: Annotated[int | None, typer.Option("--samples", help="Only so many texts of the file.")] = None,
    model: Annotated[
        str | None, typer.Option("--model", help="A saved model's directory or hub id; else the embedded one.")
    ] = None,
    method: Annotated[str, typer.Option("--method", help="raw, rollout or flow.")] = "rollout",
    reference: Annotated[
        list[str] | None, typer.Option("--reference", help="What heads are held against; may be repeated.")
    ] = None,
    measure: Annotated[str, typer.Option("--measure", help="spearman, kendall or top_k.")] = "spearman",
    target: Annotated[str | None, typer.Option("--target", help="The class or token that references explain.")] = None,
    truncate: Annotated[bool, typer.Option("--truncate", help="Cut texts that are too long for the model.")] = False,
    as_json: AsJson = False,
    as_markdown: AsMarkdown = False,
    output: Annotated[
        Path | None, typer.Option("--output", help="Also write to a file: .html, .json, .md, or plain text.")
    ] = None,
) -> None:
    """Show which heads carry most to the explained position, as a grid of layers and heads."""
    check_output(output)
    chosen = asked_texts(texts, data, column, samples)
    options: dict[str, Any] = {"method": method, "measure": measure, "target": target, "truncate": truncate}
    options |= {"references": reference} if reference else {}
    from attnx.atlas import head_atlas

    with asked_model(model) as (loaded, tokenizer):
        atlas = head_atlas(loaded, tokenizer, chosen, **options)
    page = output is not None and output.suffix == ".html"
    show(atlas, as_json, as_markdown, None if page else output)
    if page:
        from attnx.render.html import to_html

        to_html(atlas, output)
