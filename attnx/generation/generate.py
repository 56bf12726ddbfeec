"""A prompt and what follows it: written by the model itself, or given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from inspect import signature
from typing import Any

import torch
from torch import nn

from attnx.adapters import (
    BROKEN,
    TEXT,
    Adapter,
    Chat,
    Output,
    Position,
    Positions,
    PreparedInput,
    Word,
    encoder_only_input,
    end_token_ids,
    group_words,
    is_chat,
    is_image_text,
    max_decoder_positions,
    max_positions,
    special_token_ids,
    start_prefix,
    with_decoder_prefix,
)
from attnx.errors import CaptureError, InputError, in_a_line, whole_number
from attnx.hooks import collate, eval_mode, padding_id
from attnx.pipeline import Options
from attnx.progress import progress_bar
from attnx.registry import quoted
from attnx.results import Explanation, legible

ONCE: Mapping[str, Any] = {"force_unique_generate_call": True}
"""How `generate` of such a model is told to return all tokens of one call, the first and the last among them."""
STEERED_BY = ("language", "task", "prompt_ids")
"""Settings of its `generate` that choose how it begins."""


def begins_itself(model: nn.Module) -> bool:
    return set(ONCE) <= set(signature(model.generate).parameters)  # type: ignore[arg-type]


def with_beginning(
    model: nn.Module, tokenizer: Any, prompt: PreparedInput, options: Mapping[str, Any]
) -> PreparedInput:
    """The sound, and behind it the tokens with which the model begins."""
    inputs = collate(model, [encoder_only_input(prompt)], None)
    told = {name: option for name, option in options.items() if name in STEERED_BY}
    try:
        with eval_mode(model):
            ids = model.generate(**inputs, **told, **ONCE, max_new_tokens=1, max_length=None)  # type: ignore[operator]
    except Exception as error:  # a language that it does not know, or a task
        raise InputError(f"model.generate refused ({in_a_line(error)}); check {', '.join(STEERED_BY)}") from error
    *begun, _ = ids[0].tolist()
    return with_decoder_prefix(model, encoder_only_input(prompt), start_prefix(tokenizer, begun))


def text_alone(prompt: PreparedInput) -> PreparedInput:
    """The positions and words of the text, image tokens among them."""
    length = prompt.text_length
    words = tuple(word for word in prompt.words if max(word.positions) < length)
    return replace(prompt, positions=prompt.positions[:length], words=words)


def beside_picture(begun: PreparedInput, prompt: PreparedInput) -> PreparedInput:
    """The text that goes on from a prompt, with the prompt's picture."""
    length = prompt.text_length
    count = len(begun.positions) - length
    more = {
        name: torch.cat([input_, input_.new_zeros(count)])
        if name not in prompt.joined and len(input_) == length
        else input_
        for name, input_ in prompt.inputs.items()
        if name not in begun.inputs
    }
    patches, words = [], list(begun.words)
    for position in prompt.positions[length:]:
        patches.append(replace(position, index=position.index + count, word=None if position.special else len(words)))
        if not position.special:
            words.append(Word(len(words), position.token, (position.index + count,)))
    readers = prompt.readers
    return replace(
        begun,
        inputs={**begun.inputs, **more},
        positions=Positions((*begun.positions, *patches)),
        words=tuple(words),
        image=prompt.image,
        sequences={name: size + (count if name == TEXT else 0) for name, size in prompt.sequences.items()},
        joined=prompt.joined,
        readers=None if readers is None else torch.where(readers >= 0, readers + count, readers),
    )


def picture_first(step: Explanation) -> Explanation:
    """The same explanation with the patches in front of the text, as one stream."""
    length, whole = step.sequences[TEXT], len(step.positions)
    order = [*range(length, whole), *range(length)]
    places = {old: new for new, old in enumerate(order)}
    return replace(
        step,
        positions=Positions(replace(step.positions[old], index=new) for new, old in enumerate(order)),
        words=tuple(replace(word, positions=tuple(places[place] for place in word.positions)) for word in step.words),
        position=places[step.position],
        relevance={name: scores[..., order].copy() for name, scores in step.relevance.items()},
        references={name: scores[order].copy() for name, scores in step.references.items()},
        maps=None,
        sequences={},
    )


_TAIL = 40
"""Characters of what was written last that are shown meanwhile."""

_OURS = ("max_new_tokens", "max_length", "num_return_sequences", "return_dict_in_generate", "streamer")


@dataclass(frozen=True, eq=False)
class Written:
    """The finished text, ready for the model, and how many of its positions are the prompt's."""

    prepared: PreparedInput
    prompt_length: int
    prompt_end: int | None = None
    """How many characters of the text are the prompt's, where a continuation was given behind it."""


def check_writer(model: nn.Module) -> None:
    """Only a model with a language-model head that looks back alone writes text."""
    can_generate = getattr(model, "can_generate", None)
    if not callable(can_generate) or not can_generate():
        raise CaptureError(
            f"{type(model).__name__} writes no text: load a decoder with its language-model head "
            "(AutoModelForCausalLM); what an encoder or a classifier looked at is attnx.explain"
        )


def write(
    model: nn.Module,
    tokenizer: Any,
    prompt: PreparedInput,
    max_new_tokens: int,
    options: Mapping[str, Any],
    *,
    progress: bool = False,
) -> Written:
    """Let the model go on from the prompt, greedily unless `options` of `model.generate` say otherwise."""
    if begins_itself(model):
        prompt = with_beginning(model, tokenizer, prompt, options)
        options = {name: option for name, option in options.items() if name not in STEERED_BY}
    length = prompt.text_length - prompt.encoder_length
    limit = max_decoder_positions(model) if prompt.is_encoder_decoder else max_positions(model)
    wanted, notes = _room(length, max_new_tokens, limit)
    inputs = collate(model, [prompt], None)
    config = _config(model, tokenizer, wanted, options)
    with progress_bar("writing", wanted, progress, " tokens", estimate=True) as shown:
        watching = _Watching(tokenizer, length, shown) if progress else None
        new = _generated(model, tokenizer, inputs, config, watching)[0, length:].tolist()
    if not new:
        raise InputError(
            "the model wrote nothing: allow it more with max_new_tokens=…, or give the text: continuation=…"
        )
    ends = end_token_ids(model, tokenizer)
    if new[0] in ends:
        notes += ("the model ended the text at once: the one row explains the end-of-text token",)
    if prompt.is_encoder_decoder:
        return Written(_behind_source(model, tokenizer, prompt, new, ends, notes), len(prompt.positions))
    if prompt.joined:
        begun = _joined(tokenizer, text_alone(prompt), new, ends, notes)
        return Written(beside_picture(begun, prompt), length)
    return Written(_joined(tokenizer, prompt, new, ends, notes), length)


def read(
    adapter: Adapter, model: nn.Module, tokenizer: Any, prompt: Any, continuation: str, *, truncate: bool = False
) -> Written:
    """The given text, tokenised as one. A token that reaches over the end of the prompt counts to the continuation.

    `truncate` cuts the source of an encoder–decoder; a prompt and what stands behind it are never cut.
    """
    if adapter.decoder_embeddings is not None:
        prepared = adapter.prepare(model, tokenizer, prompt, truncate=truncate, target_text=continuation)
        written = prepared.positions[prepared.encoder_length :]
        return Written(prepared, written.content[0])
    pictured = is_image_text(prompt)
    text = _continued(prompt["text"] if pictured else prompt, continuation)
    prepared = adapter.prepare(model, tokenizer, {**prompt, "text": text} if pictured else text)
    if not pictured and not prepared.positions.has_offsets:
        raise InputError(
            f"{type(tokenizer).__name__} tells no offsets, so the prompt's end cannot be found; use a fast tokenizer"
        )
    end = len(str(prepared.text)) - len(continuation)
    first = next(
        (position.index for position in prepared.positions if position.end is not None and position.end > end), 0
    )
    if first == 0:
        raise InputError("no token stands before the continuation, or none is left of it; give a longer prompt")
    return Written(prepared, first, end)


def _continued(prompt: Any, continuation: str) -> str | Chat:
    """The prompt with the continuation behind it; that of a chat is the assistant's reply."""
    if continuation and isinstance(prompt, str) and prompt:
        return prompt + continuation
    if continuation and is_chat(prompt):
        return Chat(tuple(prompt), continuation)
    raise InputError(
        "continuation needs a prompt that is a text or a list of messages, and a continuation that is a text, both not "
        f"empty; found {quoted(prompt)} and {quoted(continuation)}"
    )


@dataclass(frozen=True, eq=False)
class _Watching:
    """Shows what was written so far. It stands among the criteria by which generation stops, and stops none."""

    tokenizer: Any
    length: int
    shown: Any

    def __call__(self, ids: torch.Tensor, scores: Any, **_: Any) -> torch.Tensor:
        if self.shown.visible:
            so_far = self.tokenizer.decode(ids[0, self.length :], skip_special_tokens=True)
            self.shown.set_postfix_str(legible(so_far[-_TAIL:]), refresh=False)
        self.shown.update(1)
        return torch.zeros(len(ids), dtype=torch.bool, device=ids.device)


def _generated(
    model: nn.Module, tokenizer: Any, inputs: Mapping[str, Any], config: Any, watching: _Watching | None
) -> Any:
    # Only the search for strings to stop at reads the tokenizer, and insists on it.
    searched: dict[str, Any] = {"tokenizer": tokenizer} if getattr(config, "stop_strings", None) else {}
    searched |= ONCE if begins_itself(model) else {}
    if watching is not None:
        searched["stopping_criteria"] = [watching]
    try:
        with eval_mode(model):
            return model.generate(**inputs, generation_config=config, **searched)  # type: ignore[operator]
    except Exception as error:
        raise InputError(
            f"model.generate refused ({in_a_line(error)}); check the settings that you pass on, and that "
            "the model generates by itself"
        ) from error


def _room(length: int, wanted: int, limit: int | None) -> tuple[int, tuple[str, ...]]:
    """How many tokens may be written before the model's positions end."""
    wanted = whole_number("max_new_tokens", wanted)
    if wanted < 1:
        raise InputError(f"max_new_tokens must be at least 1, found {wanted}: with no new token nothing is explained")
    if limit is None or length + wanted <= limit:
        return wanted, ()
    if length >= limit:
        raise InputError(
            f"the prompt has {length} tokens, and the model takes {limit}: there is no room for a new one; shorten it"
        )
    return limit - length, (
        f"the model takes {limit} positions: {limit - length} new tokens were allowed, not {wanted}",
    )


def _config(model: nn.Module, tokenizer: Any, wanted: int, options: Mapping[str, Any]) -> Any:
    """A copy of the model's own generation config, with what was asked for."""
    taken = [name for name in _OURS if name in options]
    if taken:
        raise InputError(f"{taken[0]} cannot be set here: explain_generation explains one text of max_new_tokens=…")
    config: Any = deepcopy(model.generation_config)
    own = {"max_new_tokens": wanted, "max_length": None, "num_return_sequences": 1, "return_dict_in_generate": False}
    if not options.get("do_sample", False):
        # Settings of sampling that a checkpoint brings along would only raise warnings.
        own |= {"do_sample": False, "temperature": None, "top_p": None, "top_k": None, "min_p": None, "typical_p": None}
    pad = padding_id(model, tokenizer)
    try:
        unknown = config.update(**{**own, **options})
    except Exception as error:  # transformers compares what it is given before it looks at its type
        raise InputError(
            f"{', '.join(options)} is refused by transformers' GenerationConfig: {error!s:.200}"
        ) from error
    for name in own:
        unknown.pop(name, None)
    if unknown:
        other = next((name for name in unknown if name in Options.__annotations__), None)
        hint = f"; {other} is an option of explain: explain(…, target_text=…, {other}=…)" if other else ""
        raise InputError(
            f"{', '.join(unknown)} is no setting of transformers' GenerationConfig, and only those are passed on{hint}"
        )
    if config.pad_token_id is None:
        ends = end_token_ids(model, tokenizer)
        config.pad_token_id = pad if pad is not None else min(ends, default=None)
    return config


def _joined(
    tokenizer: Any, prompt: PreparedInput, new: Sequence[int], ends: set[int], notes: tuple[str, ...]
) -> PreparedInput:
    """The prompt's positions with those of the new tokens behind them; words may go on over the border."""
    length = len(prompt.positions)
    ids = torch.cat([prompt.inputs["input_ids"], torch.tensor(new)])
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    specials = special_token_ids(tokenizer) | ends
    names = tokenizer.convert_ids_to_tokens(list(new))
    text = prompt.text if isinstance(prompt.text, str) else None
    added, spans = _spans(tokenizer, ids.tolist(), length)
    positions = [replace(position, word=None) for position in prompt.positions]
    for index, (one, name, (start, end)) in enumerate(zip(new, names, spans, strict=True), start=length):
        if one in specials:
            positions.append(Position(index, name, special=True))
        elif text is None:
            positions.append(Position(index, name))
        else:
            positions.append(Position(index, name, start=len(text) + start, end=len(text) + end))
    text = None if text is None else text + added
    placed, words = group_words(positions, None if text is None else [text])
    return PreparedInput(inputs, placed, words, text, (*prompt.notes, *notes), prompt.facts, spans=prompt.spans)


def _behind_source(
    model: nn.Module, tokenizer: Any, prompt: PreparedInput, new: Sequence[int], ends: set[int], notes: tuple[str, ...]
) -> PreparedInput:
    """The source with all that was written behind it, in a text of its own."""
    begun = prompt.inputs["decoder_input_ids"].tolist()
    ids = [*begun, *new]
    specials = special_token_ids(tokenizer) | ends
    text, spans = _spans(tokenizer, ids, len(begun))
    names = tokenizer.convert_ids_to_tokens(ids)
    positions = [Position(index, names[index], special=True) for index in range(len(begun))]
    for index, (start, end) in enumerate(spans, start=len(begun)):
        special = ids[index] in specials
        at = (None, None) if special else (start, end)
        positions.append(Position(index, names[index], special, *at))
    return with_decoder_prefix(model, encoder_only_input(prompt), Output(ids, positions, text, notes))


def _spans(tokenizer: Any, ids: Sequence[int], length: int) -> tuple[str, list[tuple[int, int]]]:
    """What the tokens behind the first `length` add to the text, and which part of that each of them wrote.

    The text is decoded as a whole: some tokenizers write a space only between tokens. Tokens that each hold some bytes
    of one character share it.
    """

    def written(start: int, stop: int) -> str:
        chosen = list(ids[start:stop])
        text: str = tokenizer.decode(chosen, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return text

    added, spans, shown = "", [], ""
    whole, before = length, written(0, length)  # so many tokens end with a whole character
    for count in range(length + 1, len(ids) + 1):
        text = written(0, count)
        new = text[len(before) :] if text.startswith(before) else written(whole, count)
        index = len(shown) if new.startswith(shown) and len(new) > len(shown) else 0
        spans.append((len(added) + index, len(added) + len(new)))
        shown = new
        if not new.endswith(BROKEN) or count == len(ids):
            added, shown, whole, before = added + new, "", count, text
    return added, [(min(start, len(added)), min(end, len(added))) for start, end in spans]
