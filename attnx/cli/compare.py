"""`attnx compare`: how far attention agrees with what is measured on the model, over many texts."""

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


def compare_command(
    texts: Texts = None,
    data: Data = None,
    column: Column = None,
    samples: Samples = None,
    model: Model = None,
    method: Annotated[list[str] | None, typer.Option("--method", help="What to compare; may be repeated.")] = None,
    reference: References = None,
    measure: Measure = "spearman",
    target: TargetName = None,
    faithful: Annotated[
        bool, typer.Option("--faithfulness", help="Blank the most relevant first instead, beside random orders.")
    ] = False,
    truncate: Truncate = False,
    seed: Annotated[int, typer.Option("--seed", min=0, max=2**31 - 1, help="Of the bootstrap and of chance.")] = 0,
    run: RunFolder = None,
    engine: EngineName = None,
    workers: Workers = None,
    as_json: AsJson = False,
    as_markdown: AsMarkdown = False,
    output: TableOutput = None,
) -> None:
    """Compare attention with gradients and blank-out, over many texts."""
    check_output(output, TABLES)
    keeping = KeepingOptions(run, engine, workers)
    chosen, more = keeping.texts(texts, data, column, samples)
    say(file_notes(texts or (), "compare"))
    check_asked(method, reference, model=model, measure=measure)
    options: dict[str, Any] = {"target": target, "truncate": truncate, "seed": seed, **more}
    options |= {"methods": method} if method else {}
    options |= {"references": reference} if reference else {}
    with asked_model(model) as (loaded, tokenizer), kept(keeping):
        result = _run(loaded, tokenizer, chosen, faithful, measure, options)
    show(result, as_json, as_markdown, output)
    if output is not None:
        say([f"wrote {output}"])


def _run(model: Any, tokenizer: Any, texts: Any, faithful: bool, measure: str, options: dict[str, Any]) -> Any:
    from attnx.comparison.compare import compare
    from attnx.comparison.faithfulness import faithfulness

    if faithful:
        return faithfulness(model, tokenizer, texts, **options)
    return compare(model, tokenizer, texts, measure=measure, **options)
