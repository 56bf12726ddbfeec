"""`attnx explain`: one text or image, its relevance in the terminal, as JSON, or saved."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from attnx.cli.image import check_arguments, save_output
from attnx.cli.output import check_output
from attnx.cli.page import check_page, write_page
from attnx.render.printable import printable


def explain_command(
    text: Annotated[
        str | None, typer.Argument(help="The text to explain; - reads it from standard input.", show_default=False)
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", help="A saved model's directory or hub id; else the embedded one.")
    ] = None,
    image: Annotated[Path | None, typer.Option("--image", help="An image to explain, for vision models.")] = None,
    pair: Annotated[str | None, typer.Option("--pair", help="The second text, for models that take two.")] = None,
    method: Annotated[list[str] | None, typer.Option("--method", help="What to compute; may be repeated.")] = None,
    reference: Annotated[
        list[str] | None, typer.Option("--reference", help="What to measure on the model; may be repeated.")
    ] = None,
    layer: Annotated[int | None, typer.Option("--layer", help="One layer, counted from 1 next to the input.")] = None,
    layers: Annotated[bool, typer.Option("--layers", help="Show every layer, the last on top.")] = False,
    head: Annotated[
        str | None, typer.Option("--head", help="A head from 0, or mean, max, min: how they merge.")
    ] = None,
    position: Annotated[int | None, typer.Option("--position", help="The position to explain, from 0.")] = None,
    target: Annotated[
        str | None, typer.Option("--target", help="The class or token that the prediction is of.")
    ] = None,
    normalize: Annotated[
        str, typer.Option("--normalize", help="For decoders: auto, receptive_field, column or none.")
    ] = "auto",
    drop_sink: Annotated[
        bool, typer.Option("--drop-sink", help="Leave out what goes to a decoder's first token.")
    ] = False,
    truncate: Annotated[bool, typer.Option("--truncate", help="Cut a text that is too long for the model.")] = False,
    discard: Annotated[
        float | None, typer.Option("--discard", help="Share of a layer's lowest weights to leave out of rollout.")
    ] = None,
    interpolate: Annotated[
        bool, typer.Option("--interpolate", help="Let a vision model read an image of another size.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
    output: Annotated[Path | None, typer.Option("--output", help="Save it: .safetensors, or .png of an image.")] = None,
    html: Annotated[Path | None, typer.Option("--html", help="Write a page to look at, in one file.")] = None,
) -> None:
    """Show what a model looked at in a text or in an image."""
    check_arguments(text, pair, image, model, output)
    check_output(output)
    check_page(html)
    text = sys.stdin.read() if text == "-" else text
    given = image if image is not None else text if pair is None else (text, pair)
    explanation = _explain(model, given, method, html, {
        "layer": layer,
        "head": _head(head),
        "position": position,
        "target": target,
        "normalize": None if normalize == "none" else normalize,
        "drop_sink": drop_sink,
        "truncate": truncate,
        "references": reference or (),
        "discard": discard,
        "interpolate": interpolate,
    })  # fmt: skip
    for note in explanation.notes:
        print(f"attnx: {printable(note)}", file=sys.stderr)
    if output is not None:
        save_output(explanation, output, _names(explanation, method))
    if as_json:
        print(json.dumps(explanation.to_dict(), ensure_ascii=False, allow_nan=False))
    else:
        _show(explanation, method, layers)


def _explain(model: str | None, text: Any, method: list[str] | None, html: Path | None, options: dict[str, Any]) -> Any:
    # Loaded here, so that --help and mistakes in the arguments answer at once.
    from attnx.cli.verb_number_model import chosen_model
    from attnx.explain import explain
    from attnx.loading import load

    if method:
        options["methods"] = method
    with nullcontext((None, *load(model))) if model is not None else chosen_model() as (_, loaded, tokenizer):
        explanation = explain(loaded, tokenizer, text, **options)
        if html is not None:
            write_page(html, loaded, tokenizer, text, explanation, options)
        return explanation


def _head(head: str | None) -> int | str | None:
    return int(head) if head is not None and head.lstrip("-").isdecimal() else head


def _show(explanation: Any, method: list[str] | None, layers: bool) -> None:
    from rich.console import Console

    if explanation.image_size is not None:
        from attnx.render.patch_table import patch_table

        every = explanation.layers[::-1] if layers else (None,)
        rows = [
            (name, at)
            for name in _names(explanation, method)
            for at in ((None,) if name in explanation.references else every)
        ]
        print("\n\n".join(patch_table(explanation, name, at) for name, at in rows))
        return
    from attnx.render.terminal import show

    show(explanation, Console(highlight=False), method or (), layers=layers)


def _names(explanation: Any, method: list[str] | None) -> list[str]:
    return [*(method or [explanation.default_method]), *explanation.references]
