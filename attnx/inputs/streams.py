"""An input of two streams: a source, and what is written of the output so far, their positions in one count."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import nn

from attnx.errors import CaptureError, InputError
from attnx.inputs.adapter import Adapter, Prepared
from attnx.inputs.model_facts import output_limit
from attnx.inputs.output import Output, written_so_far
from attnx.inputs.positions import Position, Positions, Word, group_words
from attnx.inputs.sound import prepare_sound, reads_sound
from attnx.inputs.text import prepare_text

SOURCE, OUTPUT = "source", "output"
WRITING = {"self": "the output to itself", "cross": "the output to the source"}
"""The kinds of levels that write the output, each in words."""


def prepare_source(
    model: nn.Module, processor: Any, source: Any, *, truncate: bool = False, target_text: Any = None
) -> Prepared:
    """The source, and the output as far as `target_text` says; the next token of it is what is explained."""
    tokenizer = getattr(processor, "tokenizer", processor)
    read = prepare_sound if reads_sound(model) else prepare_text
    prepared = read(model, processor, source, truncate=truncate)
    if isinstance(prepared.text, tuple):
        raise InputError("an encoder–decoder reads one source; give the second text as target_text=…")
    return with_output(model, prepared, written_so_far(model, tokenizer, target_text))


def with_output(model: nn.Module, source: Prepared, output: Output) -> Prepared:
    """The source with the output behind it."""
    limit = output_limit(model)
    if limit is not None and len(output.ids) > limit:
        raise InputError(
            f"the target has {len(output.ids)} tokens with its start, and {type(model).__name__} has {limit} positions "
            "for them; give a shorter one"
        )
    rows = getattr(decoder_embedding(model), "num_embeddings", None)
    strange = next((one for one in output.ids if rows is not None and not 0 <= one < rows), None)
    if strange is not None:
        raise InputError(
            f"the target has token {strange}, and {type(model).__name__} embeds {rows} of them, counted from 0"
        )
    length = len(source.positions)
    ids = torch.tensor(output.ids)
    positions, words = _placed(output, length, len(source.words))
    return replace(
        source,
        inputs={**source.inputs, "decoder_input_ids": ids},
        positions=Positions((*source.positions, *positions)),
        words=(*source.words, *words),
        text=_texts(source, output),
        notes=(*source.notes, *output.notes),
        streams={SOURCE: length, OUTPUT: len(ids)},
    )


def _texts(source: Prepared, output: Output) -> tuple[str, str] | None:
    """The text of each stream; that of sound is empty, and where a source came tokenised none is known."""
    heard = "" if source.heard is not None else None
    read = heard if source.text is None else source.text
    return (read, output.text or "") if isinstance(read, str) else None


def source_alone(prepared: Prepared) -> Prepared:
    """The source without the output."""
    return replace(
        prepared,
        inputs={name: one for name, one in prepared.inputs.items() if name != "decoder_input_ids"},
        positions=prepared.positions[: prepared.source_length],
        words=tuple(one for one in prepared.words if one.segment == 0),
        text=prepared.text[0] if isinstance(prepared.text, tuple) else prepared.text,
        streams={},
    )


def decoder_embedding(model: nn.Module) -> nn.Module:
    """The module that embeds what is written."""
    decoder: Any = model.get_decoder()  # type: ignore[operator]
    try:
        module: Any = decoder.get_input_embeddings()
    except (AttributeError, NotImplementedError):  # FSMT's is a plain module; M2M100's is silent in older transformers
        module = getattr(decoder, "embed_tokens", None)
    if not isinstance(module, nn.Module):
        raise CaptureError(
            f"{type(model).__name__}: its decoder names no embedding (get_input_embeddings or embed_tokens), so what "
            "the decoder reads is not known; register an adapter with output_embeddings=… (see docs/adapters.md)"
        )
    return module


def followed_kind(adapter: Adapter) -> str:
    """Of two streams the one kind of levels that is followed, "self" or "cross"; empty for all, and for one stream."""
    return "" if adapter.output_embeddings is None else adapter.within


def last_of_output(model: nn.Module, processor: Any, prepared: Prepared) -> int:
    """The last token of the output so far: from it the next is predicted."""
    return len(prepared.positions) - 1


def _placed(output: Output, length: int, words: int) -> tuple[list[Position], list[Word]]:
    """Positions and words of the output, counted behind those of the source, in a text of their own."""
    positions, found = group_words(output.positions, None if output.text is None else [output.text])
    placed = [
        replace(one, index=one.index + length, segment=1, word=None if one.word is None else one.word + words)
        for one in positions
    ]
    moved = [
        replace(one, index=one.index + words, segment=1, positions=tuple(place + length for place in one.positions))
        for one in found
    ]
    return placed, moved
