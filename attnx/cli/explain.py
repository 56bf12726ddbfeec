"""`attnx explain`: a text, an image or audio; two texts or two models next to each other."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from attnx.arguments import PAGES
from attnx.cli.options import (
    ADVANCED,
    INPUT,
    OUTPUT,
    RESULTS,
    Html,
    Methods,
    Model,
    Normalize,
    References,
    TargetName,
    Truncate,
    asked_model,
    check_asked,
    check_output,
    file_notes,
    number_or_word,
    option,
    parse_layer,
    print_inert,
    print_text,
    read_input,
    say,
    say_options,
    write_result,
)
from attnx.errors import InputError

IMAGE_FILES = (".png", ".jpg", ".jpeg", ".webp")
"""Suffixes of overlays."""
MAX_POSITIONS_OF_PAGE = 128
"""Up to here a page has the scores of all positions: with more they take minutes and megabytes."""

DropSink = Annotated[bool, option("--drop-sink", "Leave out the attention to a decoder's first token.", ADVANCED)]
PrependToken = Annotated[
    str | None,
    option("--prepend-token TOKEN", "A neutral token in front of a decoder's text, or begin.", ADVANCED),
]
Spans = Annotated[str | None, option("--spans KIND", "Sum the scores of sentences or lines.", OUTPUT)]


def explain_command(
    text: Annotated[
        str | None, typer.Argument(metavar="TEXT", help="The text; - reads standard input.", show_default=False)
    ] = None,
    model: Model = None,
    image: Annotated[Path | None, option("--image FILE", "An image, for vision models.", INPUT)] = None,
    audio: Annotated[Path | None, option("--audio FILE", "A WAV file, for audio models.", INPUT)] = None,
    pair: Annotated[str | None, option("--pair TEXT", "The second text, for models that take two.", INPUT)] = None,
    target_text: Annotated[
        str | None, option("--target-text TEXT", "Decoder prefix of an encoder–decoder: explain the next token.", INPUT)
    ] = None,
    truncate: Truncate = False,
    method: Methods = None,
    reference: References = None,
    target: TargetName = None,
    position: Annotated[
        str | None, option("--position N", "The position to explain, counted from 0; mean: the mean of all.")
    ] = None,
    layer: Annotated[
        str | None, option("--layer N", 'A layer, counted from 1 at the input; in an encoder–decoder "cross 2".')
    ] = None,
    head: Annotated[str | None, option("--head N", "A head, counted from 0, or how to merge: mean, max, min.")] = None,
    normalize: Normalize = "auto",
    replace: Annotated[
        list[str] | None,
        option("--replace OLD=NEW", 'Explain a changed text, too: "witty=dull", or "3=dull" by number; repeatable.'),
    ] = None,
    second_model: Annotated[
        str | None, option("--second-model NAME", "Explain the same text with a second model, too.")
    ] = None,
    all_layers: Annotated[bool, option("--all-layers", "Show every layer, the last one on top.", OUTPUT)] = False,
    content_only: Annotated[bool, option("--content-only", "Show no punctuation.", OUTPUT)] = False,
    spans: Spans = None,
    as_json: Annotated[bool, option("--json", "Print everything as JSON.", OUTPUT)] = False,
    output: Annotated[
        Path | None,
        option(
            "--output -o FILE", "Save it: .safetensors, .html, .json, .csv, .md, .txt, or an image as .png.", OUTPUT
        ),
    ] = None,
    html: Html = None,
    drop_sink: DropSink = False,
    prepend_token: PrependToken = None,
    discard_ratio: Annotated[
        float, option("--discard-ratio SHARE", "Leave out this share of the lowest weights in rollout.", ADVANCED)
    ] = 0.0,
    interpolate: Annotated[
        bool, option("--interpolate", "Let a vision model read an image of another size.", ADVANCED)
    ] = False,
    module: Annotated[
        str, option("--module PREFIX", "Explain one of several stacks, by the prefix of its modules' names.", ADVANCED)
    ] = "",
    data: Annotated[str | None, typer.Option("--data", hidden=True)] = None,
) -> None:
    """Explain the prediction of a model for a text, an image or audio."""
    if data is not None:
        raise InputError(f"explain is for one text; a whole file is a run: attnx run --data {data} --run-dir run/")
    _check_input(text, pair, image, audio, model)
    check_output(output, RESULTS if text is not None else (*RESULTS, *IMAGE_FILES))
    check_output(html, PAGES, "--html")
    changes = _changes(replace or [])
    compared = bool(changes) or second_model is not None
    if compared:
        if image or audio:
            raise InputError("--replace and --second-model are for texts, not for an image or audio")
        if changes and second_model:
            raise InputError("--replace changes the text and --second-model the model: give one of them")
        for flag in [name for name, on in (("--content-only", content_only), ("--all-layers", all_layers)) if on]:
            raise InputError(f"{flag} is for one explanation; --replace and --second-model show two: leave it out")
    options: dict[str, Any] = {
        "layer": parse_layer(layer),
        "head": number_or_word(head),
        "position": number_or_word(position),
        "normalize": None if normalize == "none" else normalize,
        "discard_ratio": discard_ratio,
    }
    check_asked(method, reference, model=model, **options)
    check_asked(model=second_model)
    options |= {"target": target, "target_text": target_text, "drop_sink": drop_sink, "spans": spans}
    options |= {"truncate": truncate, "interpolate": interpolate, "module": module, "references": reference or None}
    options |= {"prepend_token": number_or_word(prepend_token)} | ({"methods": method} if method else {})
    typed, text = text, None if text is None else read_input(text)
    inputs: Any = (image or audio) if text is None else text if pair is None else (text, pair)
    if image is not None and text is not None:
        inputs = {"image": image, "text": text}
    # Loaded here, so that --help and mistakes in the arguments answer at once.
    from attnx.pipeline.explain import explain

    with asked_model(model) as (loaded, processor):
        if not compared and (html is not None or (output is not None and output.suffix.lower() in PAGES)):
            options["all_queries"] = _is_short(loaded, processor, inputs, options)
        explanation = explain(loaded, processor, inputs, **options)
        if isinstance(explanation, list):
            raise InputError(
                f"--position {options['position']} explains several positions, and this command shows one: give a "
                "number, use attnx generate --continuation for every token of an output, or attnx.explain in Python"
            )
        result = explanation
        if compared:
            result = _compared(loaded, processor, explanation, inputs, changes, second_model, options)
    if typed is not None and explanation.image_size is None and explanation.seconds is None:
        say(file_notes([typed], "explain"))  # a model that reads images or audio takes the file of that name
    if html is not None:
        result.to_html(html, **({} if compared else {"content_only": content_only}))
    if as_json and not compared:  # every other view has them
        say(explanation.notes)
    if output is not None:
        _save(result, output, [] if compared else _shown_methods(explanation, method))
    if as_json:
        print_inert(result.to_json())
    elif compared:
        _print_rich(result)
    else:
        _show(explanation, method, all_layers, content_only)


def _check_input(text: str | None, pair: str | None, image: Path | None, audio: Path | None, model: str | None) -> None:
    """A text, an image or audio, or a text with an image, and what belongs to it."""
    if (text is None and image is None and audio is None) or (audio is not None and (text or image)):
        raise InputError("give a text, or an image with --image, or audio with --audio, and not both")
    if (text is None or image is not None) and pair is not None:
        raise InputError("--pair is a second text: an image has none, nor has audio")
    if image is not None and model is None:
        raise InputError("--image needs a vision model: --model directory-or-hub-id")
    if audio is not None and model is None:
        raise InputError("--audio needs an audio model: --model directory-or-hub-id")


def _changes(replacements: list[str]) -> dict[str, str]:
    changes = {}
    for replacement in replacements:
        word, sign, changes[word] = replacement.partition("=")
        if not sign or not word:
            raise InputError(f'--replace takes a word and its replacement, "wonderful=dull", found {replacement!r}')
    return changes


def _compared(
    model: Any,
    tokenizer: Any,
    explanation: Any,
    inputs: Any,
    changes: dict[str, str],
    second_model: str | None,
    options: dict[str, Any],
) -> Any:
    """The explanation next to that of the changed text, or of the second model."""
    from attnx.counterfactuals.counterfactual import counterfactual
    from attnx.counterfactuals.side_by_side import side_by_side
    from attnx.pipeline import load
    from attnx.pipeline.explain import explain

    if second_model is not None:
        return side_by_side([explanation, explain(*load(second_model), inputs, **options)])
    words = {word.text for word in explanation.words}
    # A number is the number of a word, unless it is a word of the text itself.
    numbered = {int(word) if word.isdecimal() and word not in words else word: new for word, new in changes.items()}
    target = {"target": options["target"]} if options["target"] else {}
    return counterfactual(model, tokenizer, explanation, numbered, truncate=options["truncate"], **target)


def _is_short(model: Any, tokenizer: Any, inputs: Any, options: dict[str, Any]) -> bool:
    from attnx.pipeline import Call

    requests = Call.of(model, tokenizer, inputs, **options).requests
    return all(len(request.prepared.positions) <= MAX_POSITIONS_OF_PAGE for request in requests)


def _save(result: Any, output: Path, methods: list[str]) -> None:
    """Save the result, or draw its overlays."""
    if output.suffix.lower() not in IMAGE_FILES:
        write_result(result, output)
    elif result.seconds is None and len(methods) == 1:
        result.overlay(methods[0]).save(output)
    else:
        from attnx.views import image_panels, time_strips

        (image_panels if result.seconds is None else time_strips)(result, methods).savefig(output, dpi=150)


def _shown_methods(explanation: Any, methods: list[str] | None, all_layers: bool = False) -> list[str]:
    """What is shown of an image: the default, or what was chosen."""
    from attnx.results import layered_method

    if all_layers:
        unlayered = [name for name, scores in explanation.attributions.items() if scores.layers is None]
        return list(dict.fromkeys((*(methods or [layered_method(explanation)]), *unlayered)))
    return methods or [explanation.methods[0]]


def _show(explanation: Any, methods: list[str] | None, all_layers: bool, content_only: bool) -> None:
    if explanation.image_size is not None or explanation.seconds is not None:
        from attnx.views import patch_table, segment_table

        table = patch_table if explanation.seconds is None else segment_table
        layers = explanation.layers[::-1] if all_layers else (None,)
        rows = [
            table(explanation, name, layer)
            for name in _shown_methods(explanation, methods, all_layers)
            for layer in ((None,) if explanation.attributions[name].layers is None else layers)
        ]
        print_text("\n\n".join(rows))
    else:
        from rich.console import Console

        from attnx.views import show

        show(explanation, Console(highlight=False), methods or (), layers=all_layers, content_only=content_only)
    say_options(explanation.remarks())


def _print_rich(result: Any) -> None:
    from rich.console import Console

    console = Console(highlight=False)
    if console.color_system is None or console.no_color:
        console.file.write(f"{result}\n")
    else:
        console.print(result)
