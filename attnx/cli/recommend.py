"""`attnx recommend`: which methods and references hold on a model and its texts."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from attnx.cli.checks import check_asked
from attnx.cli.options import (
    TABLES,
    AsJson,
    AsMarkdown,
    Column,
    Data,
    EngineName,
    KeepingOptions,
    Model,
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


def recommend_command(
    texts: Texts = None,
    data: Data = None,
    column: Column = None,
    samples: Samples = None,
    model: Model = None,
    method: Annotated[
        list[str] | None, typer.Option("--method", help="Only this one, and others so named; else all.")
    ] = None,
    reference: Annotated[
        list[str] | None, typer.Option("--reference", help="Only this one, and others so named; else all.")
    ] = None,
    target: TargetName = None,
    truncate: Truncate = False,
    random: Annotated[
        int | None, typer.Option("--random", min=1, help="Random orders of each text; by default as many as it needs.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, max=2**31 - 1, help="Of chance and of the verdicts.")] = 0,
    run: RunFolder = None,
    engine: EngineName = None,
    workers: Workers = None,
    as_json: AsJson = False,
    as_markdown: AsMarkdown = False,
    output: TableOutput = None,
) -> None:
    """Say which methods hold on these texts: what they put first is removed, beside random orders."""
    check_output(output, TABLES)
    check_asked(method, reference, model=model)
    keeping = KeepingOptions(run, engine, workers)
    chosen, more = keeping.texts(texts, data, column, samples)
    options: dict[str, Any] = {"target": target, "truncate": truncate, "random": random, "seed": seed, **more}
    options |= {"methods": method} if method else {}
    options |= {"references": reference} if reference else {}
    # Loaded here, so that --help answers at once.
    from attnx.comparison.recommend import recommend

    with asked_model(model) as (loaded, tokenizer), kept(keeping):
        result = recommend(loaded, tokenizer, chosen, **options)
    say(f"{name} was left out: {reason}" for name, reason in result.left_out.items())
    show(result, as_json, as_markdown, output)
    if output is not None:
        say([f"wrote {output}"])
