"""An input of two streams: a source, and what is written of the output so far, their positions in one count."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from attnx.adapters.adapter import Adapter, PreparedInput
from attnx.adapters.audio import accepts_audio, prepare_audio
from attnx.adapters.model_config import generation_setting, max_decoder_positions
from attnx.adapters.positions import Position, Positions, Word, group_words
from attnx.adapters.text import TokenizerState, end_token_ids, prepare_text, special_token_ids
from attnx.errors import CaptureError, InputError
from attnx.registry import quoted


@dataclass(frozen=True, eq=False)
class Output:
    """The tokens so far, each named, and what the user should know of them."""

    ids: list[int]
    positions: list[Position]
    text: str | None
    notes: tuple[str, ...] = ()


def decoder_prefix(model: nn.Module, tokenizer: Any, given: Any) -> Output:
    """What the decoder reads: the start, and the text or the token ids that were given; None is nothing yet."""
    if given is None:
        return start_prefix(tokenizer, [*_started(model), *_language(model, tokenizer)])
    if isinstance(given, str):
        return _of_text(model, tokenizer, given)
    ids = _numbers(given)
    start = _started(model)
    if ids[: len(start)] != start:
        raise InputError(
            f"the target begins with token {ids[0]}, and what {type(model).__name__} reads begins with its start token "
            f"{start[0]}: put it in front, or give target_text as a text"
        )
    return Output(ids, _named(tokenizer, ids), None)


def start_prefix(tokenizer: Any, ids: list[int]) -> Output:
    """Nothing but the tokens with which a model begins."""
    return Output(ids, _specials(tokenizer, ids), None)


def _of_text(model: nn.Module, tokenizer: Any, text: str) -> Output:
    if not text.strip():
        raise InputError("target_text is empty: give what is written so far, or leave it out for the first token")
    with TokenizerState(tokenizer):
        encoding = tokenizer(text_target=text, truncation=False, verbose=False, return_special_tokens_mask=True)
    ids = [int(one) for one in encoding["input_ids"]]
    offsets = encoding.encodings[0].offsets if getattr(encoding, "encodings", None) else None
    ends, unknown = end_token_ids(model, tokenizer), tokenizer.unk_token_id
    specials = special_token_ids(tokenizer) - ({unknown} - ends)  # Whisper's end token is also its unknown token
    added = [bool(one) for one in encoding["special_tokens_mask"]]
    special = [added[place] or index in specials for place, index in enumerate(ids)]
    places = list(range(len(ids)))
    while places and (added[places[-1]] or ids[places[-1]] in ends):  # the end is what comes next, and not yet written
        places.pop()
    if all(special[place] for place in places):
        raise InputError(f"nothing is left of target_text={quoted(text)} after tokenisation; give at least one word")
    start = _started(model)
    front = [] if ids[: len(start)] == start else start
    forced = _language(model, tokenizer)
    leading = [place for place in places if special[place]][: len(forced) or 1]
    notes = _language_notes(tokenizer, forced, [ids[place] for place in leading])
    if offsets is not None and unknown not in ends:
        notes += _unknown_notes(tokenizer, text, [offsets[place] for place in places if ids[place] == unknown])
    if forced and not (leading and leading[0] == 0):
        front = [*front, *forced]
    positions = _specials(tokenizer, front)
    for place in places:
        token = tokenizer.convert_ids_to_tokens(ids[place])
        where = {} if special[place] or offsets is None else {"start": offsets[place][0], "end": offsets[place][1]}
        positions.append(Position(len(positions), token, special=special[place], **where))
    return Output([*front, *(ids[place] for place in places)], positions, text, notes)


def _started(model: nn.Module) -> list[int]:
    found = generation_setting(model, "decoder_start_token_id")
    start = found if found is not None else generation_setting(model, "bos_token_id")
    if not isinstance(start, int):
        raise InputError(
            f"{type(model).__name__} names no start token, so a target is needed: set "
            "model.config.decoder_start_token_id, or give target_text as token ids"
        )
    return [start]


def _language(model: nn.Module, tokenizer: Any) -> list[int]:
    """The token of the language that is written, where one is set: forced by `generate`, or by the tokenizer."""
    forced = generation_setting(model, "forced_bos_token_id")
    if forced is not None:
        return _several(forced)
    if getattr(tokenizer, "tgt_lang", None) is None:
        return []
    with TokenizerState(tokenizer):
        ids = [int(one) for one in tokenizer(text_target="", verbose=False)["input_ids"]]
    frame = {getattr(tokenizer, "eos_token_id", None), getattr(tokenizer, "bos_token_id", None)}
    return [index for index in ids if index not in frame][:1]


def _language_notes(tokenizer: Any, forced: Sequence[int], leading: Sequence[int]) -> tuple[str, ...]:
    notes = []
    if forced and leading and leading[0] not in forced and _is_language(tokenizer, leading[0]):
        asked, found = (tokenizer.convert_ids_to_tokens(index) for index in (forced[0], leading[0]))
        notes.append(
            f"the target was read as {found}, and the model is set to write {asked}: set tokenizer.tgt_lang, or "
            "generation_config.forced_bos_token_id"
        )
    source, target = (getattr(tokenizer, name, None) for name in ("src_lang", "tgt_lang"))
    if source is not None and source == target:
        notes.append(f"the tokenizer has {source} for the source and for the target: set tokenizer.tgt_lang")
    return tuple(notes)


def _unknown_notes(tokenizer: Any, text: str, spans: Sequence[tuple[int, int]]) -> tuple[str, ...]:
    words = dict.fromkeys(text[start:end].strip() for start, end in spans)
    return (f"not in the vocabulary, read as {tokenizer.unk_token} in the target: {', '.join(words)}",) if words else ()


def _is_language(tokenizer: Any, token: int) -> bool:
    return token not in {getattr(tokenizer, f"{role}_token_id", None) for role in ("bos", "eos", "pad", "unk")}


def _numbers(given: Any) -> list[int]:
    given = given.get("input_ids", given.get("decoder_input_ids")) if isinstance(given, Mapping) else given
    try:
        ids = torch.as_tensor(given)
    except (TypeError, ValueError, RuntimeError):
        ids = torch.empty(0)
    ids = ids[0] if ids.ndim == 2 and len(ids) == 1 else ids
    if ids.ndim != 1 or not len(ids) or ids.is_floating_point():
        raise InputError(f"target_text must be a text, or the token ids of one target, found {quoted(given)}")
    return [int(one) for one in ids]


def _named(tokenizer: Any, ids: Sequence[int]) -> list[Position]:
    specials = special_token_ids(tokenizer)
    tokens = tokenizer.convert_ids_to_tokens(list(ids))
    # The first is the start, whatever else it is.
    return [Position(i, str(token), special=i == 0 or ids[i] in specials) for i, token in enumerate(tokens)]


def _specials(tokenizer: Any, ids: Sequence[int]) -> list[Position]:
    return [Position(i, str(token), special=True) for i, token in enumerate(tokenizer.convert_ids_to_tokens(list(ids)))]


def _several(found: Any) -> list[int]:
    return [] if found is None else [int(one) for one in found] if isinstance(found, (list, tuple)) else [int(found)]


SOURCE, OUTPUT = "source", "output"
WRITING = {"self": "the output to itself", "cross": "the output to the source"}
"""The kinds of levels that write the output, each in words."""


def prepare_encoder_decoder(
    model: nn.Module, processor: Any, source: Any, *, truncate: bool = False, target_text: Any = None
) -> PreparedInput:
    """The source, and the output as far as `target_text` says; the next token of it is what is explained."""
    tokenizer = getattr(processor, "tokenizer", processor)
    read = prepare_audio if accepts_audio(model) else prepare_text
    prepared = read(model, processor, source, truncate=truncate)
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
    strange = next((index for index in output.ids if rows is not None and not 0 <= index < rows), None)
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
        sequences={SOURCE: length, OUTPUT: len(ids)},
    )


def _texts(source: PreparedInput, output: Output) -> tuple[str, str] | None:
    """The text of each stream; that of sound is empty, and where a source came tokenised none is known."""
    audio_input = "" if source.audio_input is not None else None
    read = audio_input if source.text is None else source.text
    return (read, output.text or "") if isinstance(read, str) else None


def encoder_only_input(prepared: PreparedInput) -> PreparedInput:
    """The source without the output."""
    return replace(
        prepared,
        inputs={name: input_ for name, input_ in prepared.inputs.items() if name != "decoder_input_ids"},
        positions=prepared.positions[: prepared.encoder_length],
        words=tuple(word for word in prepared.words if word.segment == 0),
        text=prepared.text[0] if isinstance(prepared.text, tuple) else prepared.text,
        sequences={},
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
            "the decoder reads is not known; register an adapter with decoder_embeddings=… (see docs/adapters.md)"
        )
    return module


def attention_kind(adapter: Adapter) -> str:
    """Of two streams the one kind of levels that is followed, "self" or "cross"; empty for all, and for one stream."""
    return "" if adapter.decoder_embeddings is None else adapter.module


def last_decoder_position(model: nn.Module, processor: Any, prepared: PreparedInput) -> int:
    """The last token of the output so far: from it the next is predicted."""
    return len(prepared.positions) - 1


def _placed(output: Output, length: int, words: int) -> tuple[list[Position], list[Word]]:
    """Positions and words of the output, counted behind those of the source, in a text of their own."""
    positions, found = group_words(output.positions, None if output.text is None else [output.text])
    placed = [
        replace(
            position,
            index=position.index + length,
            segment=1,
            word=None if position.word is None else position.word + words,
        )
        for position in positions
    ]
    moved = [
        replace(word, index=word.index + words, segment=1, positions=tuple(place + length for place in word.positions))
        for word in found
    ]
    return placed, moved
