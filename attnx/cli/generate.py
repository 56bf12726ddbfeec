"""`attnx generate`: generated tokens, explained; `attnx align`: the source word of each target word."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from attnx.arguments import PAGES
from attnx.cli.explain import DropSink, PrependToken, Spans
from attnx.cli.options import (
    FORMS,
    INPUT,
    OUTPUT,
    RESULTS,
    AsJson,
    Html,
    Methods,
    Normalize,
    References,
    Truncate,
    check_asked,
    check_file,
    check_output,
    file_notes,
    number_or_word,
    option,
    print_inert,
    print_text,
    read_input,
    say,
    say_options,
    write_result,
)
from attnx.errors import InputError

EMBEDDED = "recall"
"""The decoder that ships: it continues with the value that belongs to a key."""
_PHARAOH = (".txt", ".align", ".pharaoh")
_OTHERS = tuple(form for form in FORMS if form not in _PHARAOH)


def generate_command(
    prompts: Annotated[list[str], typer.Argument(metavar="PROMPT", help="Prompts; - reads standard input.")],
    model: Annotated[
        str, option("--model -m NAME", "A decoder: a directory, hub id or a model that ships with attnx.", INPUT)
    ] = EMBEDDED,
    max_new_tokens: Annotated[
        int | None,
        option("--max-new-tokens N", "Number of tokens to generate, at most (default: 20; 1 for recall).", INPUT),
    ] = None,
    continuation: Annotated[
        str | None, option("--continuation TEXT", "Explain this continuation of the prompt; generate nothing.", INPUT)
    ] = None,
    truncate: Truncate = False,
    method: Methods = None,
    reference: References = None,
    contrast: Annotated[bool, option("--contrast", "Explain each token against the runner-up, too.")] = False,
    layer: Annotated[
        str | None,
        option("--layer N", "A layer, counted from 1, or all (default: the last; all for --html)."),
    ] = None,
    normalize: Normalize = "auto",
    spans: Spans = None,
    as_json: Annotated[bool, option("--json", "Print everything as JSON.", OUTPUT)] = False,
    output: Annotated[
        Path | None,
        option(
            "--output -o FILE",
            "Save it: .safetensors, .html, .json, .csv, .md or .txt.",
            OUTPUT,
        ),
    ] = None,
    html: Html = None,
    drop_sink: DropSink = False,
    prepend_token: PrependToken = None,
) -> None:
    """Generate text and explain which prompt tokens influenced each generated token."""
    check_output(output, RESULTS)
    check_output(html, PAGES, "--html")
    if len(prompts) > 1 and (output is not None or continuation is not None):
        raise InputError("--output and --continuation take one prompt; run the command for each prompt")
    normalization: Any = None if normalize == "none" else normalize
    layer_name: Any = number_or_word("all" if layer is None and html is not None else layer)
    say(file_notes(prompts, "generate"))
    check_asked(method, reference, model=model, normalize=normalization, layer=layer_name)
    # Loaded here, so that --help and mistakes in the arguments answer at once.
    from attnx.generation import NEW_TOKENS, explain_generation, plain
    from attnx.pipeline import load
    from attnx.views import to_html

    if max_new_tokens is None:
        max_new_tokens = 1 if model == EMBEDDED else NEW_TOKENS  # what recall generates after a value means nothing
    texts = [read_input(prompt) for prompt in prompts]
    loaded, tokenizer = load(model)
    explanations = explain_generation(
        loaded,
        tokenizer,
        texts if len(texts) > 1 else texts[0],
        max_new_tokens=max_new_tokens,
        continuation=continuation,
        methods=method or None,
        references=reference or None,
        contrast=contrast,
        layer=layer_name,
        normalize=normalization,
        drop_sink=drop_sink,
        prepend_token=number_or_word(prepend_token),
        spans=spans,
        truncate=truncate,
        progress=True,
    )
    results = explanations if isinstance(explanations, list) else [explanations]
    if output is not None:  # files first: a reader of the output may stop reading
        write_result(results[0], output)
    if html is not None:
        to_html(results, html)
    if as_json:
        say(dict.fromkeys(note for result in results for note in result.notes))
        dictionaries = [result.to_dict() for result in results]
        shown = dictionaries[0] if len(dictionaries) == 1 else dictionaries
        print_inert(json.dumps(shown, ensure_ascii=False, allow_nan=False))
        return
    rows = [(result, name) for result in results for name in method or [result.methods[0]]]
    print_text("\n\n".join(plain(result, name) for result, name in rows))
    say_options(warning for result, name in rows for warning in result.remarks(name))


class LinkChoice(StrEnum):
    argmax = "argmax"
    intersection = "intersection"


class RowOfWord(StrEnum):
    predicts = "predicts"
    reads = "reads"


def align_command(
    model: Annotated[
        str, option("--model -m NAME", "An encoder–decoder: a directory or hub id, or dates, which ships.", INPUT)
    ],
    source_file: Annotated[
        Path, option("--source-file FILE", "Source sentences, one per line, words separated by spaces.", INPUT)
    ],
    target_file: Annotated[
        Path | None,
        option("--target-file FILE", "Target sentences (default: the model generates them).", INPUT),
    ] = None,
    gold: Annotated[
        Path | None,
        option("--gold FILE", "Links by annotators (0-0 1-2, or 1p2 for possible): report the error rate.", INPUT),
    ] = None,
    gold_first: Annotated[
        int | None,
        option("--gold-first N", "Number of the first word in it, 0 or 1 (default: 0; 1 for .talp files).", INPUT),
    ] = None,
    max_new_tokens: Annotated[
        int | None, option("--max-new-tokens N", "Tokens to generate for a source, at most (default: 128).", INPUT)
    ] = None,
    method: Annotated[str, option("--method NAME", "The method that links are chosen by, see attnx methods.")] = "raw",
    layer: Annotated[
        str | None, option("--layer N", '"cross 2", or a number (default: the last cross-attention but one).')
    ] = None,
    choice: Annotated[
        LinkChoice, option("--choice NAME", "argmax, or intersection: highest in both directions.")
    ] = LinkChoice.argmax,
    row: Annotated[
        RowOfWord, option("--row NAME", "The row of a word: of the position that predicts it, or that reads it.")
    ] = RowOfWord.predicts,
    generated: Annotated[
        Path | None, option("--generated FILE", "Write the targets that the model generates.", OUTPUT)
    ] = None,
    as_json: AsJson = False,
    output: Annotated[
        Path | None,
        option("--output -o FILE", "Write there instead: links as .txt, or .json, .csv, .md, .html.", OUTPUT),
    ] = None,
    html: Html = None,
) -> None:
    """Align words: print for each sentence its links of source and target words, as in 0-2 1-0."""
    from attnx.attribution import REFERENCES

    check_output(output, (*_PHARAOH, *_OTHERS))
    check_output(html, PAGES, "--html")
    for path, flag in ((source_file, "--source-file"), (target_file, "--target-file"), (gold, "--gold")):
        check_file(path, flag)
    if target_file is not None and (generated is not None or max_new_tokens is not None):
        raise InputError("--generated and --max-new-tokens are for targets that the model generates: no --target-file")
    check_asked(None if method in REFERENCES else [method], model=model)
    from attnx.adapters import read_lines
    from attnx.word_alignment import NEW_TOKENS, error_lines, read_links

    sources, targets = read_lines(source_file), None if target_file is None else read_lines(target_file)
    links = None if gold is None else read_links(gold, first=gold_first)
    # Loaded here, so that --help and mistakes in the files answer at once.
    from attnx.pipeline import load
    from attnx.word_alignment.align import align

    options: dict[str, Any] = {"layer": number_or_word(layer), "choice": choice.value, "row": row.value, "gold": links}
    options["max_new_tokens"] = NEW_TOKENS if max_new_tokens is None else max_new_tokens
    alignment = align(*load(model), sources, targets, method=method, **options)
    if generated is not None:
        lines = [" ".join(sentence.target) + "\n" for sentence in alignment.sentences]
        generated.write_text("".join(lines), encoding="utf-8")
    if html is not None:
        alignment.to_html(html)
    if output is not None:
        if output.suffix.lower() in _PHARAOH:
            output.write_text(alignment.to_pharaoh(), encoding="utf-8")
        else:
            write_result(alignment, output)
    elif as_json:
        print_inert(alignment.to_json())
    else:
        print_text(alignment.to_pharaoh().removesuffix("\n"))
    say([f"wrote {path}" for path in (generated, html, output) if path is not None])
    say([*error_lines(alignment), *alignment.notes])
