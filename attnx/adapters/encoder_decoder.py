"""An input of two sequences: a source, and the output as far as it is generated, their positions in one count."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from attnx.adapters.adapter import Adapter, PreparedInput
from attnx.adapters.audio import accepts_audio, prepare_audio
from attnx.adapters.model_config import generation_setting, max_decoder_positions
from attnx.adapters.positions import Position, Positions, group_words
from attnx.adapters.text import TokenizerState, end_token_ids, prepare_text, special_token_ids
from attnx.errors import CaptureError, InputError
from attnx.registry import quoted

SOURCE, OUTPUT = "source", "output"
OUTPUT_KINDS = {"self": "the output to itself", "cross": "the output to the source"}
"""The kinds of layers that generate the output, each in words."""


@dataclass(frozen=True, eq=False)
class Output:
    """The tokens that the decoder reads, each named, and what the user should know of them."""

    ids: list[int]
    positions: list[Position]
    text: str | None
    notes: tuple[str, ...] = ()


def decoder_prefix(model: nn.Module, tokenizer: Any, target: Any) -> Output:
    """What the decoder reads: the start, and the text or the token ids of the target; None is nothing yet."""
    if target is None:
        return start_prefix(tokenizer, [*_start_ids(model), *_language_ids(model, tokenizer)])
    if isinstance(target, str):
        return _prefix_of_text(model, tokenizer, target)
    ids = _token_ids(target)
    start = _start_ids(model)
    if ids[: len(start)] != start:
        raise InputError(
            f"the target begins with token {ids[0]}, and what {type(model).__name__} reads begins with its start token "
            f"{start[0]}: put it in front, or give target_text as a text"
        )
    specials = special_token_ids(tokenizer)
    tokens = tokenizer.convert_ids_to_tokens(ids)
    # The first is the start, whatever else it is.
    positions = [Position(i, str(token), special=i == 0 or ids[i] in specials) for i, token in enumerate(tokens)]
    return Output(ids, positions, None)


def start_prefix(tokenizer: Any, ids: list[int]) -> Output:
    """Nothing but the tokens with which a model begins."""
    return Output(ids, _special_positions(tokenizer, ids), None)


def _special_positions(tokenizer: Any, ids: Sequence[int]) -> list[Position]:
    return [Position(i, str(token), special=True) for i, token in enumerate(tokenizer.convert_ids_to_tokens(list(ids)))]


def _prefix_of_text(model: nn.Module, tokenizer: Any, text: str) -> Output:
    if not text.strip():
        raise InputError("target_text is empty: give what is generated so far, or leave it out for the first token")
    with TokenizerState(tokenizer):
        encoding = tokenizer(text_target=text, truncation=False, verbose=False, return_special_tokens_mask=True)
    ids = [int(token) for token in encoding["input_ids"]]
    offsets = encoding.encodings[0].offsets if getattr(encoding, "encodings", None) else None
    ends, unknown = end_token_ids(model, tokenizer), tokenizer.unk_token_id
    specials = special_token_ids(tokenizer) - ({unknown} - ends)  # Whisper's end token is also its unknown token
    added = [bool(flag) for flag in encoding["special_tokens_mask"]]
    special = [added[index] or token in specials for index, token in enumerate(ids)]
    length = len(ids)
    while length and (added[length - 1] or ids[length - 1] in ends):  # the end is what comes next, not generated yet
        length -= 1
    if all(special[:length]):
        raise InputError(f"nothing is left of target_text={quoted(text)} after tokenisation; give at least one word")
    start = _start_ids(model)
    front = [] if ids[: len(start)] == start else start
    forced = _language_ids(model, tokenizer)
    leading = [index for index in range(length) if special[index]][: len(forced) or 1]
    notes = _language_notes(tokenizer, forced, [ids[index] for index in leading])
    if offsets is not None and unknown not in ends:
        pieces = [text[slice(*offsets[index])].strip() for index in range(length) if ids[index] == unknown]
        if pieces:
            words = ", ".join(dict.fromkeys(pieces))
            notes += (f"not in the vocabulary, read as {tokenizer.unk_token} in the target: {words}",)
    if forced and not (leading and leading[0] == 0):
        front = [*front, *forced]
    positions = _special_positions(tokenizer, front)
    for index in range(length):
        token = tokenizer.convert_ids_to_tokens(ids[index])
        span = {} if special[index] or offsets is None else {"start": offsets[index][0], "end": offsets[index][1]}
        positions.append(Position(len(positions), token, special=special[index], **span))
    return Output([*front, *ids[:length]], positions, text, notes)


def _start_ids(model: nn.Module) -> list[int]:
    start = generation_setting(model, "decoder_start_token_id")
    start = generation_setting(model, "bos_token_id") if start is None else start
    if not isinstance(start, int):
        raise InputError(
            f"{type(model).__name__} names no start token, so a target is needed: set "
            "model.config.decoder_start_token_id, or give target_text as token ids"
        )
    return [start]


def _language_ids(model: nn.Module, tokenizer: Any) -> list[int]:
    """The token of the output's language, where one is set: forced by `generate`, or by the tokenizer."""
    forced = generation_setting(model, "forced_bos_token_id")
    if forced is not None:
        return [int(token) for token in forced] if isinstance(forced, (list, tuple)) else [int(forced)]
    if getattr(tokenizer, "tgt_lang", None) is None:
        return []
    with TokenizerState(tokenizer):
        ids = [int(token) for token in tokenizer(text_target="", verbose=False)["input_ids"]]
    frame = {getattr(tokenizer, "eos_token_id", None), getattr(tokenizer, "bos_token_id", None)}
    return [token for token in ids if token not in frame][:1]


def _language_notes(tokenizer: Any, forced: Sequence[int], leading: Sequence[int]) -> tuple[str, ...]:
    notes = []
    no_language = {getattr(tokenizer, f"{role}_token_id", None) for role in ("bos", "eos", "pad", "unk")}
    if forced and leading and leading[0] not in forced and leading[0] not in no_language:
        expected, actual = (tokenizer.convert_ids_to_tokens(token) for token in (forced[0], leading[0]))
        notes.append(
            f"the target was read as {actual}, and the model is set to generate {expected}: set tokenizer.tgt_lang, or "
            "generation_config.forced_bos_token_id"
        )
    source, target = (getattr(tokenizer, name, None) for name in ("src_lang", "tgt_lang"))
    if source is not None and source == target:
        notes.append(f"the tokenizer has {source} for the source and for the target: set tokenizer.tgt_lang")
    return tuple(notes)


def _token_ids(target: Any) -> list[int]:
    if isinstance(target, Mapping):
        target = target.get("input_ids", target.get("decoder_input_ids"))
    try:
        ids = torch.as_tensor(target)
    except (TypeError, ValueError, RuntimeError):
        ids = torch.empty(0)
    ids = ids[0] if ids.ndim == 2 and len(ids) == 1 else ids
    if ids.ndim != 1 or not len(ids) or ids.is_floating_point():
        raise InputError(f"target_text must be a text, or the token ids of one target, found {quoted(target)}")
    return [int(token) for token in ids]


def prepare_encoder_decoder(
    model: nn.Module, processor: Any, source: Any, *, truncate: bool = False, target_text: Any = None
) -> PreparedInput:
    """The source, and the output as far as `target_text` goes; the next token of it is what is explained."""
    tokenizer = getattr(processor, "tokenizer", processor)
    prepare = prepare_audio if accepts_audio(model) else prepare_text
    prepared = prepare(model, processor, source, truncate=truncate)
    if isinstance(prepared.text, tuple):
        raise InputError("an encoder–decoder reads one source; give the second text as target_text=…")
    return with_decoder_prefix(model, prepared, decoder_prefix(model, tokenizer, target_text))


def with_decoder_prefix(model: nn.Module, source: PreparedInput, output: Output) -> PreparedInput:
    """The source with the output behind it."""
    limit = max_decoder_positions(model)
    if limit is not None and len(output.ids) > limit:
        raise InputError(
            f"the target has {len(output.ids)} tokens with its start, and {type(model).__name__} has {limit} positions "
            "for them; give a shorter one"
        )
    rows = getattr(decoder_embedding(model), "num_embeddings", None)
    strange = next((token for token in output.ids if rows is not None and not 0 <= token < rows), None)
    if strange is not None:
        raise InputError(
            f"the target has token {strange}, and {type(model).__name__} embeds {rows} of them, counted from 0"
        )
    length, count = len(source.positions), len(source.words)
    positions, words = group_words(output.positions, None if output.text is None else [output.text])
    # Positions and words are counted behind those of the source, in a text of their own; the text of audio is empty.
    shifted = (
        replace(
            position,
            index=position.index + length,
            segment=1,
            word=None if position.word is None else position.word + count,
        )
        for position in positions
    )
    moved = (
        replace(word, index=word.index + count, segment=1, positions=tuple(index + length for index in word.positions))
        for word in words
    )
    text = "" if source.text is None and source.audio_input is not None else source.text
    return replace(
        source,
        inputs={**source.inputs, "decoder_input_ids": torch.tensor(output.ids)},
        positions=Positions((*source.positions, *shifted)),
        words=(*source.words, *moved),
        text=(text, output.text or "") if isinstance(text, str) else None,
        notes=(*source.notes, *output.notes),
        sequences={SOURCE: length, OUTPUT: len(output.ids)},
    )


def encoder_only_input(prepared: PreparedInput) -> PreparedInput:
    """The source without the output."""
    return replace(
        prepared,
        inputs={name: tensor for name, tensor in prepared.inputs.items() if name != "decoder_input_ids"},
        positions=prepared.positions[: prepared.encoder_length],
        words=tuple(word for word in prepared.words if word.segment == 0),
        text=prepared.text[0] if isinstance(prepared.text, tuple) else prepared.text,
        sequences={},
    )


def decoder_embedding(model: nn.Module) -> nn.Module:
    """The module that embeds the output."""
    decoder: Any = model.get_decoder()  # type: ignore[operator]
    try:
        module: Any = decoder.get_input_embeddings()
    except (AttributeError, NotImplementedError):  # FSMT's is a plain module; M2M100's is silent in older transformers
        module = getattr(decoder, "embed_tokens", None)
    if not isinstance(module, nn.Module):
        raise CaptureError(
            f"{type(model).__name__}: its decoder names no embedding (get_input_embeddings or embed_tokens), so what "
            "the decoder reads is not known; register an adapter with decoder_embeddings=… (see docs/adapters.md)"
        )
    return module


def attention_kind(adapter: Adapter) -> str:
    """Of two sequences the kind of layers that is followed, "self" or "cross"; empty for all, and for one sequence."""
    return "" if adapter.decoder_embeddings is None else adapter.module


def last_decoder_position(model: nn.Module, processor: Any, prepared: PreparedInput) -> int:
    """The last token of the output so far: from it the next is predicted."""
    return len(prepared.positions) - 1
