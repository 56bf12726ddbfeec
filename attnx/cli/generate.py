"""`attnx generate`: what a decoder looked at for each token that it writes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, cast

import typer

from attnx.cli.file_names import file_notes
from attnx.cli.options import number_or_word, print_inert, print_text, read_input, say

if TYPE_CHECKING:
    from attnx.explaining.settings import Normalization


def generate_command(
    prompt: Annotated[str, typer.Argument(help="The text to go on from; - reads it from standard input.")],
    model: Annotated[str, typer.Option("--model", help="A saved decoder's directory or hub id.")],
    max_new_tokens: Annotated[int, typer.Option("--max-new-tokens", help="The most tokens to write.")] = 20,
    continuation: Annotated[
        str | None, typer.Option("--continuation", help="Explain this text behind the prompt instead of writing one.")
    ] = None,
    method: Annotated[list[str] | None, typer.Option("--method", help="What to compute; may be repeated.")] = None,
    layer: Annotated[int | None, typer.Option("--layer", help="The layer, counted from 1; else the last.")] = None,
    normalize: Annotated[str, typer.Option("--normalize", help="auto, receptive_field, column or none.")] = "auto",
    drop_sink: Annotated[bool, typer.Option("--drop-sink", help="Leave out what goes to the first token.")] = False,
    first_token: Annotated[
        str | None,
        typer.Option("--first-token", help="A neutral token in front of the prompt; begin: the tokenizer's own."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Show what a model looked at for each token that it writes behind a prompt."""
    # Loaded here, so that --help and mistakes in the arguments answer at once.
    from attnx.explaining.generation import explain_generation
    from attnx.render.generation import plain
    from attnx.running.loading import load

    say(file_notes([prompt], "generate"))
    prompt = read_input() if prompt == "-" else prompt
    loaded, tokenizer = load(model)
    generation = explain_generation(
        loaded,
        tokenizer,
        prompt,
        max_new_tokens=max_new_tokens,
        continuation=continuation,
        methods=method or None,
        layer=layer,
        normalize=cast("Normalization", None if normalize == "none" else normalize),
        drop_sink=drop_sink,
        first_token=number_or_word(first_token),
    )
    if as_json:
        say(generation.notes)
        print_inert(json.dumps(generation.to_dict(), ensure_ascii=False, allow_nan=False))
        return
    for name in method or [generation.shown_first]:
        print_text(plain(generation, name))
