"""Commands that evaluate methods: `attnx compare`, `recommend`, `atlas`, `truth`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnx.arguments import PAGES
from attnx.cli.options import (
    TABLES,
    AsJson,
    AsMarkdown,
    Column,
    Data,
    EngineName,
    Measure,
    Model,
    References,
    RunDirOptions,
    RunFolder,
    Samples,
    TableOutput,
    TargetName,
    Texts,
    Truncate,
    Workers,
    asked_model,
    check_asked,
    check_file,
    check_output,
    file_notes,
    kept,
    say,
    show,
)
from attnx.errors import InputError

if TYPE_CHECKING:
    from attnx.benchmarks import BenchmarkTable


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
    keeping = RunDirOptions(run, engine, workers)
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
    from attnx.evaluation.compare import compare
    from attnx.evaluation.faithfulness import faithfulness

    if faithful:
        return faithfulness(model, tokenizer, texts, **options)
    return compare(model, tokenizer, texts, measure=measure, **options)


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
    keeping = RunDirOptions(run, engine, workers)
    chosen, more = keeping.texts(texts, data, column, samples)
    options: dict[str, Any] = {"target": target, "truncate": truncate, "random": random, "seed": seed, **more}
    options |= {"methods": method} if method else {}
    options |= {"references": reference} if reference else {}
    # Loaded here, so that --help answers at once.
    from attnx.evaluation.recommend import recommend

    with asked_model(model) as (loaded, tokenizer), kept(keeping):
        result = recommend(loaded, tokenizer, chosen, **options)
    say(f"{name} was left out: {reason}" for name, reason in result.left_out.items())
    show(result, as_json, as_markdown, output)
    if output is not None:
        say([f"wrote {output}"])


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
    keeping = RunDirOptions(run, engine, workers)
    chosen, more = keeping.texts(texts, data, column, samples)
    say(file_notes(texts or (), "atlas"))
    check_asked(method, reference, model=model, measure=measure)
    options: dict[str, Any] = {"methods": method, "measure": measure, "target": target, "truncate": truncate}
    options |= {"references": reference, **more} if reference else more
    from attnx.evaluation.head_atlas import head_atlas

    with asked_model(model) as (loaded, tokenizer), kept(keeping):
        atlas = head_atlas(loaded, tokenizer, chosen, **options)
    show(atlas, as_json, as_markdown, output)


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
    keeping = RunDirOptions(run, engine, workers)
    with kept(keeping):
        benchmark_table = _measured(
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
    show(benchmark_table, as_json, as_markdown, output)
    if html is not None:
        benchmark_table.to_html(html)
    say([f"wrote {path}" for path in (output, html) if path is not None])


def _measured(name: str | None, **options: Any) -> BenchmarkTable:
    import torch

    from attnx.benchmarks.benchmark import benchmark
    from attnx.pipeline import hush, load

    hush()
    if name is None:
        torch.set_num_threads(1)  # the embedded models are tiny: a second thread costs them more than it brings
    model, tokenizer = (None, None) if name is None else load(name)
    return benchmark(model, tokenizer, **options)
