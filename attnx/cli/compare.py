"""`attnx compare`: how far attention agrees with what is measured on the model, over many texts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from attnx.cli.output import AsJson, AsMarkdown, check_output, say
from attnx.errors import InputError

_SUFFIXES = (".md", ".json", ".csv", ".txt", ".html")


def compare_command(
    texts: Annotated[list[str] | None, typer.Argument(help="The texts to compare on.")] = None,
    data: Annotated[
        Path | None, typer.Option("--data", help="A file: one text a line, or a .csv, .tsv or .jsonl with a column.")
    ] = None,
    column: Annotated[str | None, typer.Option("--column", help="The column that has the texts.")] = None,
    samples: Annotated[int | None, typer.Option("--samples", help="Only so many texts of the file.")] = None,
    model: Annotated[
        str | None, typer.Option("--model", help="A saved model's directory or hub id; else the embedded one.")
    ] = None,
    method: Annotated[list[str] | None, typer.Option("--method", help="What to compare; may be repeated.")] = None,
    reference: Annotated[
        list[str] | None, typer.Option("--reference", help="What to compare with; may be repeated.")
    ] = None,
    measure: Annotated[str, typer.Option("--measure", help="spearman, kendall or top_k.")] = "spearman",
    target: Annotated[str | None, typer.Option("--target", help="The class or token that references explain.")] = None,
    faithful: Annotated[
        bool, typer.Option("--faithfulness", help="Blank the most relevant first instead, beside random orders.")
    ] = False,
    truncate: Annotated[bool, typer.Option("--truncate", help="Cut texts that are too long for the model.")] = False,
    seed: Annotated[int, typer.Option("--seed", min=0, max=2**31 - 1, help="Of the bootstrap and of chance.")] = 0,
    as_json: AsJson = False,
    as_markdown: AsMarkdown = False,
    output: Annotated[
        Path | None, typer.Option("--output", help="Also write to a file: .md, .json, .csv, .txt or .html.")
    ] = None,
) -> None:
    """Compare attention with gradients and blank-out, over many texts."""
    check_output(output)
    if output is not None and output.suffix not in _SUFFIXES:
        raise InputError(f"--output takes a file that ends in {', '.join(_SUFFIXES)}, found {output.name!r}")
    chosen = asked_texts(texts, data, column, samples)
    options: dict[str, Any] = {"target": target, "truncate": truncate, "seed": seed}
    options |= {"methods": method} if method else {}
    options |= {"references": reference} if reference else {}
    with asked_model(model) as (loaded, tokenizer):
        result = _run(loaded, tokenizer, chosen, faithful, measure, options)
    print(result.to_json() if as_json else result.markdown() if as_markdown else result.text())
    if output is not None:
        output.write_text(_written(result, output.suffix) + "\n", encoding="utf-8")
        say([f"wrote {output}"])


def asked_texts(texts: list[str] | None, data: Path | None, column: str | None, samples: int | None) -> list[str]:
    from attnx.texts import read_texts

    if texts and data is not None:
        raise InputError("give texts or --data, not both")
    if data is not None:
        return [one.text for one in read_texts(data, column=column, limit=samples)]
    if not texts:
        raise InputError('nothing to compare: give texts (attnx compare "the key to the cabinets") or --data FILE')
    if column is not None or samples is not None:
        raise InputError("--column and --samples are for a file: --data FILE")
    return texts


def _run(model: Any, tokenizer: Any, texts: list[str], faithful: bool, measure: str, options: dict[str, Any]) -> Any:
    from attnx.comparison import compare, faithfulness

    if faithful:
        return faithfulness(model, tokenizer, texts, **options)
    return compare(model, tokenizer, texts, measure=measure, **options)


@contextmanager
def asked_model(name: str | None) -> Iterator[tuple[Any, Any]]:
    from attnx.cli.verb_number_model import chosen_model
    from attnx.loading import load

    if name is not None:
        yield load(name)
    else:
        with chosen_model() as (_, loaded, tokenizer):
            yield loaded, tokenizer


def _written(result: Any, suffix: str) -> str:
    rendered: str
    if suffix == ".html":
        from attnx.render.html import to_html

        return to_html(result)
    if suffix == ".csv":
        rendered = result.to_csv()
        return rendered.rstrip("\n")
    rendered = {".json": result.to_json, ".md": result.markdown}.get(suffix, result.text)()
    return rendered
