"""`attnx generate`: what each token drew from that a decoder writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from attnx.arguments import PAGES, SAVED
from attnx.cli.checks import check_asked
from attnx.cli.file_names import file_notes
from attnx.cli.options import check_output, number_or_word, print_inert, print_text, read_input, say, say_options
from attnx.errors import InputError

if TYPE_CHECKING:
    from attnx.methods.normalization import Normalization
    from attnx.results.generation import GenerationExplanation

EMBEDDED = "recall"
"""The decoder that ships: it goes on with the value that belongs to a key."""


def generate_command(
    prompts: Annotated[list[str], typer.Argument(help="Texts to go on from; - reads one from standard input.")],
    model: Annotated[
        str, typer.Option("--model", help="A saved decoder's directory, hub id, or an embedded model.")
    ] = EMBEDDED,
    max_new_tokens: Annotated[
        int | None, typer.Option("--max-new-tokens", help="The most tokens to write; else 20, of the embedded one 1.")
    ] = None,
    continuation: Annotated[
        str | None, typer.Option("--continuation", help="Explain this text behind the prompt instead of writing one.")
    ] = None,
    method: Annotated[list[str] | None, typer.Option("--method", help="What to compute; may be repeated.")] = None,
    reference: Annotated[
        list[str] | None, typer.Option("--reference", help="What to measure on the model; may be repeated.")
    ] = None,
    contrast: Annotated[bool, typer.Option("--contrast", help="Also each token against its runner-up.")] = False,
    layer: Annotated[
        str | None, typer.Option("--layer", help="The layer, counted from 1, or each; else the last, of a page each.")
    ] = None,
    normalize: Annotated[str, typer.Option("--normalize", help="auto, receptive_field, column or none.")] = "auto",
    drop_sink: Annotated[bool, typer.Option("--drop-sink", help="Leave out what goes to the first token.")] = False,
    first_token: Annotated[
        str | None,
        typer.Option("--first-token", help="A neutral token in front of the prompt; begin: the tokenizer's own."),
    ] = None,
    spans: Annotated[
        str | None, typer.Option("--spans", help="Parts of the prompt to sum over: sentences or lines.")
    ] = None,
    truncate: Annotated[bool, typer.Option("--truncate", help="Cut a source that is too long for the model.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
    output: Annotated[Path | None, typer.Option("--output", help="Save it: .safetensors, of one prompt.")] = None,
    html: Annotated[Path | None, typer.Option("--html", help="Write a page to look at, in one file.")] = None,
) -> None:
    """Show what each token drew from that a model writes behind a prompt."""
    check_output(output, SAVED)
    check_output(html, PAGES, "--html")
    if len(prompts) > 1 and (output is not None or continuation is not None):
        raise InputError("--output and --continuation take one prompt; give the others in turn")
    fair = cast("Normalization", None if normalize == "none" else normalize)
    asked_layer = number_or_word("each" if layer is None and html is not None else layer)
    say(file_notes(prompts, "generate"))
    check_asked(method, reference, model=model, normalize=fair, layer=asked_layer)
    # Loaded here, so that --help and mistakes in the arguments answer at once.
    from attnx.explaining.generation import NEW_TOKENS, explain_generation
    from attnx.running.loading import load

    texts = [read_input() if one == "-" else one for one in prompts]
    loaded, tokenizer = load(model)
    usual = 1 if model == EMBEDDED else NEW_TOKENS  # what the embedded one says after a value means nothing
    found = explain_generation(
        loaded,
        tokenizer,
        texts if len(texts) > 1 else texts[0],
        max_new_tokens=usual if max_new_tokens is None else max_new_tokens,
        continuation=continuation,
        methods=method or None,
        references=reference or None,
        contrast=contrast,
        layer=cast("Any", asked_layer),
        normalize=fair,
        drop_sink=drop_sink,
        first_token=number_or_word(first_token),
        spans=spans,
        truncate=truncate,
        progress=True,
    )
    _show(found if isinstance(found, list) else [found], method, as_json=as_json, output=output, html=html)


def _show(
    written: list[GenerationExplanation],
    method: list[str] | None,
    *,
    as_json: bool,
    output: Path | None,
    html: Path | None,
) -> None:
    """Write files first, for whoever reads the print may hang up."""
    from attnx.render.generation import plain
    from attnx.render.page.page import to_html

    if output is not None:
        written[0].save(output)
    if html is not None:
        to_html(written, html)
    if as_json:
        say(dict.fromkeys(note for one in written for note in one.notes))
        told = [one.to_dict() for one in written]
        print_inert(json.dumps(told[0] if len(told) == 1 else told, ensure_ascii=False, allow_nan=False))
        return
    print_text("\n\n".join(plain(one, name) for one in written for name in method or [one.shown_first]))
    say_options(remark for one in written for name in method or [one.shown_first] for remark in one.remarks(name))
