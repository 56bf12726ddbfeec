"""What commands over many texts have in common: where the texts and the model come from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from attnx.errors import InputError

Texts = Annotated[list[str] | None, typer.Argument(help="The texts to look at.")]
Data = Annotated[
    Path | None, typer.Option("--data", help="A file: one text a line, or a .csv, .tsv or .jsonl with a column.")
]
Column = Annotated[str | None, typer.Option("--column", help="The column that has the texts.")]
Samples = Annotated[int | None, typer.Option("--samples", help="Only so many texts of the file.")]
Model = Annotated[
    str | None, typer.Option("--model", help="A saved model's directory or hub id; else the embedded one.")
]
References = Annotated[
    list[str] | None, typer.Option("--reference", help="What to hold attention against; may be repeated.")
]
Measure = Annotated[str, typer.Option("--measure", help="spearman, kendall or top_k.")]
TargetName = Annotated[str | None, typer.Option("--target", help="The class or token that references explain.")]
Truncate = Annotated[bool, typer.Option("--truncate", help="Cut texts that are too long for the model.")]


def asked_texts(texts: list[str] | None, data: Path | None, column: str | None, samples: int | None) -> list[str]:
    """The texts of the command line, or those of a file."""
    from attnx.texts import read_texts

    if texts and data is not None:
        raise InputError("give texts or --data, not both")
    if data is not None:
        return [one.text for one in read_texts(data, column=column, limit=samples)]
    if not texts:
        raise InputError('no text to look at: give one or more, as in "the key to the cabinets", or --data FILE')
    if column is not None or samples is not None:
        raise InputError("--column and --samples are for a file: --data FILE")
    return texts


@contextmanager
def asked_model(name: str | None) -> Iterator[tuple[Any, Any]]:
    """(model, tokenizer): the one that was named, or the embedded one."""
    from attnx.cli.verb_number_model import chosen_model
    from attnx.loading import load

    if name is not None:
        yield load(name)
    else:
        with chosen_model() as (_, loaded, tokenizer):
            yield loaded, tokenizer
