"""`attnx methods`: all methods and references, what each is about, needs and costs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnx.arguments import PAGES, SAVED
from attnx.cli.options import (
    check_asked,
    check_output,
    file_notes,
    level,
    number_or_word,
    print_inert,
    print_text,
    read_input,
    say,
    say_options,
)
from attnx.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from attnx.methods import Listed


@dataclass(frozen=True)
class Counterpart:
    """Words and what replaces them, or a model."""

    changes: tuple[tuple[str, str], ...] = ()
    model: str | None = None

    @classmethod
    def of(
        cls, replaced: list[str] | None, beside: str | None, part: Path | None, alone: Mapping[str, bool]
    ) -> Counterpart | None:
        """As it is asked for on the command line; None where it is not. What one `alone` can have is refused."""
        if not replaced and beside is None:
            return None
        if part is not None:
            raise InputError(
                "--replace and --beside are for texts: words stand side by side, an image has none, nor has a sound"
            )
        if replaced and beside is not None:
            raise InputError("--replace changes the text and --beside the model: give one of them")
        for option in (name for name, flag in alone.items() if flag):
            raise InputError(f"{option} is for one explanation; --replace and --beside show two: leave it out")
        return cls(tuple(_change(name) for name in replaced or ()), beside)

    def beside(self, model: Any, tokenizer: Any, explanation: Any, text: Any, options: dict[str, Any]) -> Any:
        """The explanation with its counterpart, word by word."""
        from attnx.counterfactuals.counterfactual import counterfactual
        from attnx.counterfactuals.side_by_side import side_by_side
        from attnx.pipeline import load
        from attnx.pipeline.explain import explain

        if self.model is not None:
            other = explain(*load(self.model), text, **options)
            return side_by_side([explanation, other])
        words = {word.text for word in explanation.words}
        # A number is a word's place, unless it is a word of the text itself.
        changes = {int(word) if word.isdecimal() and word not in words else word: new for word, new in self.changes}
        chosen = {"truncate": options["truncate"]} | ({"target": options["target"]} if options["target"] else {})
        return counterfactual(model, tokenizer, explanation, changes, **chosen)


def show_both(both: Any, as_json: bool, output: Path | None) -> None:
    """Saved where it was asked for, and printed."""
    from rich.console import Console

    if output is not None:
        both.save(output)
    if as_json:
        print_inert(both.to_json())
        return
    console = Console(highlight=False)
    if console.color_system is None or console.no_color:
        console.file.write(f"{both}\n")
    else:
        console.print(both)


def _change(name: str) -> tuple[str, str]:
    word, sign, new = name.partition("=")
    if not sign or not word:
        raise InputError(f'--replace takes a word and what replaces it, "wonderful=dull", found {name!r}')
    return word, new


PICTURES = (".png", ".jpg", ".jpeg", ".webp")
"""What an overlay can be saved as."""


def check_arguments(
    text: str | None, pair: str | None, image: Path | None, audio: Path | None, model: str | None, output: Path | None
) -> None:
    """A text, an image or a sound, or a text with an image for a model that reads both, with what belongs to it."""
    if (text is None and image is None and audio is None) or (audio is not None and (text or image)):
        raise InputError("give a text, or an image with --image, or a sound with --sound, and not both")
    if (text is None or image is not None) and pair is not None:
        raise InputError("--pair is a second text; an image has none, nor has a sound")
    if image is not None and model is None:
        raise InputError("--image needs a vision model: --model directory-or-hub-id")
    if audio is not None and model is None:
        raise InputError("--sound needs a model that hears: --model directory-or-hub-id")
    check_output(output, SAVED if text is not None else (*SAVED, *PICTURES))


def save_output(explanation: Any, output: Path, names: list[str]) -> None:
    """The explanation, or for a picture's name its overlay; several methods and references stand side by side."""
    if output.suffix.lower() not in PICTURES:
        explanation.save(output)
    elif explanation.seconds is not None:
        from attnx.views import time_strips

        time_strips(explanation, names).savefig(output, dpi=150)
    elif len(names) > 1:
        from attnx.views import image_panels

        image_panels(explanation, names).savefig(output, dpi=150)
    else:
        explanation.overlay(names[0]).save(output)


SHORT = 128
"""Positions up to which a page has the rows of all positions: of a longer text they take minutes and megabytes."""


def has_room_for_maps(model: Any, tokenizer: Any, text: Any, options: dict[str, Any]) -> bool:
    """Whether the input is so short that a page has a row for each position that may be clicked on."""
    from attnx.pipeline import Call

    requests = Call.of(model, tokenizer, text, **options).requests
    return all(len(request.prepared.positions) <= SHORT for request in requests)


def explain_command(
    text: Annotated[
        str | None, typer.Argument(help="The text to explain; - reads it from standard input.", show_default=False)
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", help="A directory, hub id or embedded model; else verb-number.")
    ] = None,
    image: Annotated[Path | None, typer.Option("--image", help="An image to explain, for vision models.")] = None,
    audio: Annotated[Path | None, typer.Option("--sound", help="A WAV file to explain, for models of sound.")] = None,
    pair: Annotated[str | None, typer.Option("--pair", help="The second text, for models that take two.")] = None,
    method: Annotated[
        list[str] | None,
        typer.Option("--method", help="What to compute, by a name of `attnx methods`; may be repeated."),
    ] = None,
    reference: Annotated[
        list[str] | None,
        typer.Option(
            "--reference", help="What to measure on the model, by a name of `attnx methods`; may be repeated."
        ),
    ] = None,
    layer: Annotated[
        str | None, typer.Option("--layer", help='One layer, counted from 1 next to the input; or a name: "cross 2".')
    ] = None,
    layers: Annotated[bool, typer.Option("--layers", help="Show every layer, the last on top.")] = False,
    head: Annotated[
        str | None, typer.Option("--head", help="A head from 0, or mean, max, min: how they merge.")
    ] = None,
    position: Annotated[
        str | None, typer.Option("--position", help="The position to explain, from 0; mean: the mean of all.")
    ] = None,
    target: Annotated[
        str | None, typer.Option("--target", help="The class or token to explain; else the prediction.")
    ] = None,
    target_text: Annotated[
        str | None,
        typer.Option("--target-text", help="What an encoder–decoder has written; the next token is explained."),
    ] = None,
    normalize: Annotated[
        str, typer.Option("--normalize", help="For decoders: auto, prefix, receptive_field, column or none.")
    ] = "auto",
    drop_sink: Annotated[
        bool, typer.Option("--drop-sink", help="Leave out what goes to a decoder's first token.")
    ] = False,
    prepend_token: Annotated[
        str | None,
        typer.Option("--first-token", help="A neutral token in front of a decoder's text; begin: the tokenizer's own."),
    ] = None,
    spans: Annotated[
        str | None, typer.Option("--spans", help="Parts of the text to sum over: sentences or lines.")
    ] = None,
    truncate: Annotated[bool, typer.Option("--truncate", help="Cut a text that is too long for the model.")] = False,
    discard_ratio: Annotated[
        float, typer.Option("--discard", help="Share of a layer's lowest weights to leave out of rollout.")
    ] = 0.0,
    interpolate: Annotated[
        bool, typer.Option("--interpolate", help="Let a vision model read an image of another size.")
    ] = False,
    module: Annotated[
        str, typer.Option("--module", help="One stack of several: the beginning of its modules' names.")
    ] = "",
    content_only: Annotated[
        bool, typer.Option("--content-only", help="Leave punctuation out of what is shown.")
    ] = False,
    replaced: Annotated[
        list[str] | None,
        typer.Option("--replace", help='Change the text and see both: "wonderful=dull", "3=dull"; may be repeated.'),
    ] = None,
    beside: Annotated[
        str | None, typer.Option("--beside", help="A second model on the same text: its directory or hub id.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
    output: Annotated[
        Path | None, typer.Option("--output", help="Save it: .safetensors, or .png of an image or a sound.")
    ] = None,
    html: Annotated[Path | None, typer.Option("--html", help="Write a page to look at, in one file.")] = None,
    data: Annotated[str | None, typer.Option("--data", hidden=True)] = None,
) -> None:
    """Show what a model looked at in a text, in an image or in a sound."""
    if data is not None:
        raise InputError(f"explain is for one text; a whole file is a run: attnx run --data {data} --run-dir run/")
    check_arguments(text, pair, image, audio, model, output)
    counterpart = Counterpart.of(replaced, beside, image or audio, {"--content-only": content_only, "--layers": layers})
    check_output(html, PAGES, "--html")
    options: dict[str, Any] = {
        "layer": level(layer),
        "head": number_or_word(head),
        "position": number_or_word(position),
        "normalize": None if normalize == "none" else normalize,
        "discard_ratio": discard_ratio,
    }
    check_asked(method, reference, model=model, **options)
    check_asked(model=beside)
    typed = text or ""
    text = read_input() if text == "-" else text
    given: Any = (image or audio) if text is None else text if pair is None else (text, pair)
    if image is not None and text is not None:
        given = {"image": image, "text": text}
    explanation, both = _explain(model, given, method, html, counterpart, {
        **options,
        "target": target,
        "target_text": target_text,
        "drop_sink": drop_sink,
        "prepend_token": number_or_word(prepend_token),
        "spans": spans,
        "truncate": truncate,
        "references": reference or None,
        "interpolate": interpolate,
        "module": module,
    }, content_only=content_only)  # fmt: skip
    if explanation.image_size is None and explanation.seconds is None:  # such a model reads the file of that name
        say(file_notes([typed], "explain"))
    if both is not None:
        show_both(both, as_json, output)
        return
    if as_json:  # every other view has them
        say(explanation.notes)
    if output is not None:
        save_output(explanation, output, _names(explanation, method))
    if as_json:
        print_inert(json.dumps(explanation.to_dict(), ensure_ascii=False, allow_nan=False))
    else:
        _show(explanation, method, layers, content_only)


def _explain(
    model: str | None,
    text: Any,
    method: list[str] | None,
    html: Path | None,
    counterpart: Counterpart | None,
    options: dict[str, Any],
    *,
    content_only: bool,
) -> tuple[Any, Any]:
    """The explanation, and where one was asked for, that with its counterpart beside it."""
    # Loaded here, so that --help and mistakes in the arguments answer at once.
    from attnx.cli.options import chosen_model
    from attnx.pipeline import load
    from attnx.pipeline.explain import explain

    if method:
        options["methods"] = method
    with nullcontext((None, *load(model))) if model is not None else chosen_model() as (_, loaded, tokenizer):
        if html is not None and counterpart is None:
            options["all_queries"] = has_room_for_maps(loaded, tokenizer, text, options)
        explanation = explain(loaded, tokenizer, text, **options)
        if isinstance(explanation, list):
            raise InputError(
                f"--position {options['position']} explains several, and this command shows one: give a number, use "
                "attnx generate --continuation for every token of an output, or attnx.explain in Python"
            )
        if counterpart is not None:
            both = counterpart.beside(loaded, tokenizer, explanation, text, options)
            if html is not None:
                both.to_html(html)
            return explanation, both
        if html is not None:
            explanation.to_html(html, content_only=content_only)
        return explanation, None


def _show(explanation: Any, method: list[str] | None, layers: bool, content_only: bool) -> None:
    from rich.console import Console

    if explanation.image_size is not None or explanation.seconds is not None:
        from attnx.views import patch_table, stretch_table

        table = patch_table if explanation.seconds is None else stretch_table
        every = explanation.layers[::-1] if layers else (None,)
        rows = [
            (name, at)
            for name in _names(explanation, method, layers)
            for at in ((None,) if name in explanation.references else every)
        ]
        print_text("\n\n".join(table(explanation, name, at) for name, at in rows))
        say_options(explanation.remarks())
        return
    from attnx.views import show

    show(explanation, Console(highlight=False), method or (), layers=layers, content_only=content_only)
    say_options(explanation.remarks())


def _names(explanation: Any, method: list[str] | None, layers: bool = False) -> list[str]:
    """What is drawn of a picture: what is shown first, or with layers what has them, and what was measured."""
    if explanation.first is not None and not layers:
        return [explanation.row_name()]
    return [*(method or [explanation.default_method]), *explanation.references]


def methods_command(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, with all there is to know.")] = False,
) -> None:
    """List what --method and --reference take: what each is about, and what it costs."""
    import json

    from attnx.attribution import listed_references

    # Loaded here, so that --help answers at once.
    from attnx.methods import listed_methods

    rows = (*listed_methods(), *listed_references())
    print(json.dumps([row.to_dict() for row in rows], ensure_ascii=False) if as_json else text(rows))


def text(rows: Sequence[Listed]) -> str:
    """A line each, methods before references."""
    from attnx.graph import EDGE_WEIGHTS
    from attnx.views import aligned

    lines = [["", "about", "long", "heads", "costs"]]
    for kind in dict.fromkeys(row.kind for row in rows):
        lines.append([f"{kind}s", "", "", "", ""])
        lines += [
            [f"  {row.name}", row.about, _yes(row.long_inputs), _yes(row.heads), row.costs]
            for row in rows
            if row.kind == kind
        ]
    edges = aligned([[f"  {name}", EDGE_WEIGHTS[name].paper] for name in EDGE_WEIGHTS.names()])
    return f"{aligned(lines)}\n\nrollout:NAME and flow:NAME run on other edges; NAME is one of\n{edges}"


def _yes(flag: bool) -> str:
    return "yes" if flag else "no"
