"""`attnx reproduce table3`: the correlations on SST-2, which take a model and sentences from elsewhere."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from attnx.cli.checks import check_asked
from attnx.cli.options import (
    TABLES,
    AsJson,
    AsMarkdown,
    KeepingOptions,
    RunFolder,
    TableOutput,
    check_output,
    kept,
    show,
)


class ProtocolName(StrEnum):
    published = "published"
    corrected = "corrected"
    both = "both"


WhichProtocol = Annotated[
    ProtocolName, typer.Option("--protocol", help="As the authors' code did it, as the paper says it, or both.")
]


def table3_command(
    model: Annotated[
        str | None,
        typer.Option("--model", help="A sentiment model's directory, file or hub id; else the paper's, from the hub."),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option("--data", help="A .tsv, .csv or .jsonl with label and sentence; by default GLUE, from the hub."),
    ] = None,
    samples: Annotated[int, typer.Option("--samples", help="How many sentences, from the first.")] = 100,
    seed: Annotated[int, typer.Option("--seed", min=0, max=2**31 - 1, help="Of the bootstrap.")] = 0,
    protocol: WhichProtocol = ProtocolName.both,
    run: RunFolder = None,
    as_json: AsJson = False,
    as_markdown: AsMarkdown = False,
    output: TableOutput = None,
) -> None:
    """Correlation of raw attention, rollout and flow with input gradients, for DistilBERT on SST-2."""
    check_output(output, TABLES)
    if data is not None and not data.is_file():
        raise typer.BadParameter(f"there is no file {data}", param_hint="--data")
    check_asked(model=model)
    from attnx.reproduce.protocols import PROTOCOLS_TABLE_3
    from attnx.reproduce.sentences import reviews
    from attnx.reproduce.table3 import MODEL, NEEDED, table3
    from attnx.running.loading import load

    chosen = [one for name, one in PROTOCOLS_TABLE_3.items() if protocol.value in (name, "both")]
    loaded, tokenizer = load(model or MODEL, NEEDED)
    sentences = reviews(loaded, tokenizer, data, samples)
    keeping = KeepingOptions(run)
    with kept(keeping):
        table = table3(loaded, tokenizer, sentences, protocols=chosen, seed=seed, progress=True, **keeping.options)
    show(table, as_json, as_markdown, output)
