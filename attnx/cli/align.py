"""`attnx align`: which source word each written word is from, for the lines of two files."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from attnx.cli.checks import check_asked, check_file
from attnx.cli.options import FORMS, AsJson, check_output, number_or_word, print_inert, print_text, say
from attnx.errors import InputError
from attnx.references.registry import REFERENCES

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
    check_output(output, (*_PHARAOH, *_OTHERS))
    for given, option in ((source, "--source"), (target, "--target"), (gold, "--gold")):
        check_file(given, option)
    if target is not None and (written is not None or max_new_tokens is not None):
        raise InputError("--written and --max-new-tokens are of what the model writes, and a --target is given")
    check_asked(None if method in REFERENCES else method, model=model)
    from attnx.inputs.files import lines_of
    from attnx.inputs.link_files import read_links

    sources, targets = lines_of(source), None if target is None else lines_of(target)
    wanted = None if gold is None else read_links(gold, first=gold_first)
    # Loaded here, so that --help and mistakes in the files answer at once.
    from attnx.comparison.align import NEW_TOKENS, align
    from attnx.render.word_alignment import error_lines
    from attnx.running.loading import load

    options: dict[str, Any] = {"method": method, "layer": number_or_word(layer)}
    options |= {"choice": choice.value, "row": row.value}
    options["max_new_tokens"] = NEW_TOKENS if max_new_tokens is None else max_new_tokens
    found = align(*load(model), sources, targets, gold=wanted, **options)
    if written is not None:
        written.write_text("".join(" ".join(one.target) + "\n" for one in found.sentences), encoding="utf-8")
        say([f"wrote {written}"])
    if output is not None:
        form = FORMS.get(output.suffix.lower()) if output.suffix.lower() in _OTHERS else None
        output.write_text(found.to_pharaoh() if form is None else form(found) + "\n", encoding="utf-8")
        say([f"wrote {output}"])
    elif as_json:
        print_inert(found.to_json())
    else:
        print_text(found.to_pharaoh().removesuffix("\n"))
    say([*error_lines(found), *found.notes])
