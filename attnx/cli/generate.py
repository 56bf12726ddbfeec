"""`attnx align`: which source word each written word is from, for the lines of two files."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from attnx.arguments import PAGES, SAVED
from attnx.cli.options import (
    FORMS,
    AsJson,
    check_asked,
    check_file,
    check_output,
    file_notes,
    number_or_word,
    print_inert,
    print_text,
    read_input,
    say,
    say_options,
)
from attnx.errors import InputError

if TYPE_CHECKING:
    from attnx.generation import GenerationExplanation
    from attnx.methods import Normalization

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
    prepend_token: Annotated[
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
    asked_layer = number_or_word("all" if layer is None and html is not None else layer)
    say(file_notes(prompts, "generate"))
    check_asked(method, reference, model=model, normalize=fair, layer=asked_layer)
    # Loaded here, so that --help and mistakes in the arguments answer at once.
    from attnx.generation import NEW_TOKENS, explain_generation
    from attnx.pipeline import load

    texts = [read_input() if prompt == "-" else prompt for prompt in prompts]
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
        prepend_token=number_or_word(prepend_token),
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
    from attnx.generation import plain
    from attnx.views import to_html

    if output is not None:
        written[0].save(output)
    if html is not None:
        to_html(written, html)
    if as_json:
        say(dict.fromkeys(note for generation_explanation in written for note in generation_explanation.notes))
        told = [generation_explanation.to_dict() for generation_explanation in written]
        print_inert(json.dumps(told[0] if len(told) == 1 else told, ensure_ascii=False, allow_nan=False))
        return
    print_text(
        "\n\n".join(
            plain(generation_explanation, name)
            for generation_explanation in written
            for name in method or [generation_explanation.shown_first]
        )
    )
    say_options(
        remark
        for generation_explanation in written
        for name in method or [generation_explanation.shown_first]
        for remark in generation_explanation.remarks(name)
    )


_PHARAOH = (".txt", ".align", ".pharaoh")
_OTHERS = tuple(form for form in FORMS if form not in _PHARAOH)


class ChoiceName(StrEnum):
    argmax = "argmax"
    intersection = "intersection"


class RowName(StrEnum):
    predicts = "predicts"
    reads = "reads"


def align_command(
    model: Annotated[
        str, typer.Option("--model", help="A saved encoder–decoder's directory or hub id, or the embedded one: dates.")
    ],
    source: Annotated[Path, typer.Option("--source", help="A file of source sentences, one a line, words by spaces.")],
    target: Annotated[
        Path | None,
        typer.Option("--target", help="A file of what they were rewritten as, line by line; else the model writes."),
    ] = None,
    gold: Annotated[
        Path | None,
        typer.Option("--gold", help="Links by people (0-0 1-2, or 1p2 for possible): tells the error rate."),
    ] = None,
    gold_first: Annotated[
        int | None,
        typer.Option("--gold-first", help="The number of the first word in it: 0, or 1; else 1 for .talp files."),
    ] = None,
    method: Annotated[
        str, typer.Option("--method", help="What links are chosen from, as in explain; a reference, too.")
    ] = "raw",
    layer: Annotated[
        str | None, typer.Option("--layer", help='"cross 2", or a number; else the last cross-attention but one.')
    ] = None,
    choice: Annotated[
        ChoiceName, typer.Option("--choice", help="argmax, or intersection: highest both ways.")
    ] = ChoiceName.argmax,
    row: Annotated[
        RowName, typer.Option("--row", help="Whose row stands for a word: the position that predicts it, or reads it.")
    ] = RowName.predicts,
    max_new_tokens: Annotated[
        int | None, typer.Option("--max-new-tokens", help="The most tokens to write for a source; else 128.")
    ] = None,
    written: Annotated[
        Path | None, typer.Option("--written", help="Keep there what the model writes where there is no --target.")
    ] = None,
    as_json: AsJson = False,
    output: Annotated[
        Path | None, typer.Option("--output", help="Write there instead: .txt for links, or .json, .csv, .md, .html.")
    ] = None,
) -> None:
    """Align words: for each written word the source word that it is from, as 0-2 1-0 … a line.

    Without --target the model writes the targets itself.
    """
    from attnx.attribution import REFERENCES

    check_output(output, (*_PHARAOH, *_OTHERS))
    for path, option in ((source, "--source"), (target, "--target"), (gold, "--gold")):
        check_file(path, option)
    if target is not None and (written is not None or max_new_tokens is not None):
        raise InputError("--written and --max-new-tokens are of what the model writes, and a --target is given")
    check_asked(None if method in REFERENCES else method, model=model)
    from attnx.adapters import read_lines
    from attnx.word_alignment import read_links

    sources, targets = read_lines(source), None if target is None else read_lines(target)
    wanted = None if gold is None else read_links(gold, first=gold_first)
    # Loaded here, so that --help and mistakes in the files answer at once.
    from attnx.pipeline import load
    from attnx.word_alignment import NEW_TOKENS, error_lines
    from attnx.word_alignment.align import align

    options: dict[str, Any] = {"method": method, "layer": number_or_word(layer)}
    options |= {"choice": choice.value, "row": row.value}
    options["max_new_tokens"] = NEW_TOKENS if max_new_tokens is None else max_new_tokens
    alignment = align(*load(model), sources, targets, gold=wanted, **options)
    if written is not None:
        written.write_text(
            "".join(" ".join(sentence.target) + "\n" for sentence in alignment.sentences), encoding="utf-8"
        )
        say([f"wrote {written}"])
    if output is not None:
        form = FORMS.get(output.suffix.lower()) if output.suffix.lower() in _OTHERS else None
        output.write_text(alignment.to_pharaoh() if form is None else form(alignment) + "\n", encoding="utf-8")
        say([f"wrote {output}"])
    elif as_json:
        print_inert(alignment.to_json())
    else:
        print_text(alignment.to_pharaoh().removesuffix("\n"))
    say([*error_lines(alignment), *alignment.notes])
