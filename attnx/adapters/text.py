"""From text to model inputs: tokens with their offsets, pairs, chats, and multiple choice."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from threading import RLock
from typing import Any

import torch
from torch import Tensor, nn

from attnx._signals import Uninterruptible, in_every_child
from attnx.adapters.adapter import PreparedInput
from attnx.adapters.model_config import generates, generation_setting, has_head, max_positions, vocabulary_size
from attnx.adapters.positions import Position, Positions, group_words
from attnx.errors import InputError, first_line

_NOT_INPUTS = {"offset_mapping", "special_tokens_mask", "length", "overflow_to_sample_mapping", "num_truncated_tokens"}


@dataclass(frozen=True, eq=False)
class TokenizedInput:
    """One row of a `BatchEncoding` without its padding: the tensors, and the tokenizer's own record of it if any."""

    inputs: dict[str, Tensor]
    kept: list[int]
    encoding: Any = None


def prepare_text(model: nn.Module, tokenizer: Any, text: Any, *, truncate: bool = False) -> PreparedInput:
    """Tokenise one text or pair (or take a tokenised row as it is) and name its positions.

    A text that is longer than the model's positions is an error unless `truncate` is true. The tokenizer is left as it
    was; a truncation that is saved inside it is not applied, because it would cut without a word.
    """
    return _prepare(model, tokenizer, text, truncate, open_end=False)


def prepare_prompt(model: nn.Module, tokenizer: Any, text: Any, *, truncate: bool = False) -> PreparedInput:
    """Like `prepare_text`, without the end token that some tokenizers add, where the model continues the text."""
    return _prepare(model, tokenizer, text, truncate, open_end=generates(model))


def _prepare(model: nn.Module, tokenizer: Any, text: Any, truncate: bool, *, open_end: bool) -> PreparedInput:
    if not callable(tokenizer):
        raise InputError(
            f"a text needs a tokenizer, found {type(tokenizer).__name__}; pass AutoTokenizer.from_pretrained(…)"
        )
    notes: list[str] = []
    facts: dict[str, Any] = {}
    texts: tuple[str, ...] | None = None
    if isinstance(text, TokenizedInput):
        row, texts = _decode(tokenizer, text)
    else:
        # A chat template writes its special tokens itself.
        texts = (render_chat(tokenizer, text),) if isinstance(text, Chat) else _texts(text)
        _check_vocabulary(model, tokenizer)
        row = _tokenize(model, tokenizer, texts, truncate, facts, add_special_tokens=not isinstance(text, Chat))
        if open_end and (count := _added_ends(model, tokenizer, texts, row)):
            inputs = {name: tensor[:-count] for name, tensor in row.inputs.items()}
            row = TokenizedInput(inputs, row.kept[:-count], row.encoding)
            notes.append("the end token that the tokenizer adds is left out: the model continues the text")
    _check_ids(model, row)
    template = isinstance(text, Chat) or row is not text
    positions, words = group_words(_positions(row, tokenizer, template=template), texts)
    if not positions.content:
        raise InputError("the text is empty after tokenisation: there is nothing to explain; give at least one word")
    if "cut" in facts:
        notes.append("the text was cut to {} of {} tokens".format(*facts["cut"]))
    unknown = getattr(tokenizer, "unk_token_id", None)
    # In GPT-2 one token is both the unknown word and the end of the text; it can write any text, so nothing is unknown.
    if texts is not None and unknown is not None and unknown != getattr(tokenizer, "eos_token_id", None):
        unread = {index for index, token in enumerate(row.inputs["input_ids"].tolist()) if token == unknown}
        if names := [word.text for word in words if unread & set(word.positions)]:
            facts["unknown"] = names
            notes.append(f"not in the vocabulary, read as {tokenizer.unk_token}: {', '.join(names)}")
    if isinstance(text, Chat) and texts is not None:
        facts["parts"] = _message_positions(tokenizer, text, texts[0], positions)
    original = None if texts is None else texts[0] if len(texts) == 1 else (texts[0], texts[1])
    return PreparedInput(row.inputs, positions, words, original, tuple(notes), facts)


def tokenized_inputs(encoding: Mapping[str, Any]) -> list[TokenizedInput]:
    """The rows of a tokenised batch, each without its padding (or the one row of an encoding without a batch axis)."""
    if "input_ids" not in encoding:
        raise InputError(f"a tokenised input needs 'input_ids', found {', '.join(map(str, encoding)) or 'nothing'}")
    tensors: dict[str, Tensor] = {}
    for name, value in encoding.items():
        if name not in _NOT_INPUTS:
            try:
                tensor = torch.as_tensor(value).detach().cpu()
            except (ValueError, TypeError, RuntimeError) as error:
                raise InputError(
                    f"{name!r} of the tokenised input has rows of different lengths; tokenise with padding=True, "
                    "or pass the texts"
                ) from error
            tensors[name] = tensor[None] if tensor.ndim == 1 else tensor
    ids = tensors["input_ids"]
    if ids.ndim != 2 or ids.is_floating_point() or ids.shape[0] == 0:
        raise InputError(f"'input_ids' must be whole numbers, batch × length; found {ids.dtype} {tuple(ids.shape)}")
    mask = tensors.get("attention_mask", torch.ones_like(ids))
    if mask.shape != ids.shape:
        raise InputError(
            f"'attention_mask' must be batch × length like 'input_ids', {tuple(ids.shape)}; found {tuple(mask.shape)}"
        )
    encodings = getattr(encoding, "encodings", None)
    rows = []
    for index in range(len(ids)):
        kept: list[int] = mask[index].nonzero()[:, 0].tolist()
        if kept and len(kept) != kept[-1] - kept[0] + 1:
            raise InputError(
                "the attention mask hides tokens inside the text; attnx explains a text as a whole: leave them out, "
                "or put the mask token in their place"
            )
        inputs = {name: tensor[index][kept] for name, tensor in tensors.items() if tensor.shape[:2] == ids.shape}
        rows.append(TokenizedInput(inputs, kept, encodings[index] if encodings else None))
    return rows


def _texts(text: Any) -> tuple[str, ...]:
    texts = (text,) if isinstance(text, str) else tuple(text) if isinstance(text, tuple) else ()
    if len(texts) not in (1, 2) or not all(isinstance(part, str) for part in texts):
        raise InputError(
            f"cannot explain {type(text).__name__}: give a text, a pair (text, text), a list of them, or a tokenised "
            "input; an image needs a vision model"
        )
    if any("\ud800" <= character <= "\udfff" for part in texts for character in part):
        raise InputError("the text has half a character (a lone surrogate): it was decoded wrongly; read it as UTF-8")
    if not all(part.strip() for part in texts):
        raise InputError("the text is empty: give at least one word")
    return texts


def _tokenize(
    model: nn.Module,
    tokenizer: Any,
    texts: tuple[str, ...],
    truncate: bool,
    facts: dict[str, Any],
    *,
    add_special_tokens: bool,
) -> TokenizedInput:
    limit = max_positions(model)
    options = {"padding": False, "return_attention_mask": True, "add_special_tokens": add_special_tokens}
    if not hasattr(tokenizer, "convert_ids_to_tokens"):
        raise InputError(f"a text needs a tokenizer, found {type(tokenizer).__name__}; an image needs a vision model")
    with TokenizerState(tokenizer):
        encoding = tokenizer(*texts, truncation=False, verbose=False, **options)
        length = len(encoding["input_ids"])
        if limit is not None and length > limit:
            if not truncate:
                raise InputError(
                    f"the text has {length} tokens, the model takes {limit}; shorten it, or let explain cut it: "
                    "truncate=True (--truncate)"
                )
            encoding = tokenizer(*texts, truncation=True, max_length=limit, **options)
            facts["cut"] = [limit, length]
    return tokenized_inputs(encoding)[0]


def _decode(tokenizer: Any, row: TokenizedInput) -> tuple[TokenizedInput, tuple[str, ...] | None]:
    """Ids, as of a chat template, with the text that is tokenised into them; the row alone where there is none."""
    ids = row.inputs["input_ids"].tolist()
    try:
        text = tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)
        with TokenizerState(tokenizer):
            encoding = tokenizer(text, truncation=False, padding=False, verbose=False, add_special_tokens=False)
    except Exception:  # a tokenizer that does not decode, or ids that are not its own
        return row, None
    encodings = getattr(encoding, "encodings", None)
    if not encodings or encoding["input_ids"] != ids:
        return row, None
    return TokenizedInput(row.inputs, list(range(len(ids))), encodings[0]), (text,)


def special_token_ids(tokenizer: Any) -> set[int]:
    """Ids that stand for no text: the tokenizer's named special tokens, and added ones that it marks as special."""
    added: Mapping[int, Any] = getattr(tokenizer, "added_tokens_decoder", {})
    marked = {number for number, token in added.items() if getattr(token, "special", False)}
    return marked | set(getattr(tokenizer, "all_special_ids", ()))


def end_token_ids(model: nn.Module, tokenizer: Any) -> set[int]:
    """Ids behind which nothing is generated, by the tokenizer and the generation config."""
    configured = generation_setting(model, "eos_token_id")
    ids = {getattr(tokenizer, "eos_token_id", None)}
    ids |= set(configured) if isinstance(configured, (list, tuple)) else {configured}
    return {number for number in ids if isinstance(number, int)}


def _added_ends(model: nn.Module, tokenizer: Any, texts: tuple[str, ...], row: TokenizedInput) -> int:
    """How many end tokens the tokenizer added behind the text; those that stand in the text itself do not count."""
    ends, ids = end_token_ids(model, tokenizer), row.inputs["input_ids"].tolist()

    def trailing(tokens: Sequence[int]) -> int:
        return next((count for count, token in enumerate(reversed(tokens)) if token not in ends), len(tokens))

    if not trailing(ids):
        return 0
    with TokenizerState(tokenizer):
        bare = tokenizer(*texts, truncation=False, verbose=False, padding=False, add_special_tokens=False)["input_ids"]
    return max(trailing(ids) - trailing(bare), 0)


_tokenizer_lock = RLock()


def _after_fork() -> None:
    """A thread that held the lock does not exist in a child process."""
    global _tokenizer_lock
    _tokenizer_lock = RLock()


in_every_child(_after_fork)


class TokenizerState(Uninterruptible[None]):
    """Fast tokenizers keep the truncation and padding of the last call, or those saved in their file: put them back."""

    def __init__(self, tokenizer: Any) -> None:
        self._backend = getattr(tokenizer, "backend_tokenizer", None)
        self._lock = _tokenizer_lock
        self._held = False
        self._before: tuple[Any, Any] | None = None

    def _begin(self) -> None:
        self._held = self._lock.acquire()
        self._before = getattr(self._backend, "truncation", None), getattr(self._backend, "padding", None)

    def _end(self) -> None:
        if self._backend is not None and self._before is not None:
            truncation, padding = self._before
            # To set what is set already would take a lock of the tokenizer's, which a fork may leave taken.
            if self._backend.truncation != truncation:
                self._backend.no_truncation() if truncation is None else self._backend.enable_truncation(**truncation)
            if self._backend.padding != padding:
                self._backend.no_padding() if padding is None else self._backend.enable_padding(**padding)
        self._before = None
        if self._held:
            self._held = False
            self._lock.release()


def _positions(row: TokenizedInput, tokenizer: Any, *, template: bool = False) -> list[Position]:
    """What each position is. A `template` writes its special tokens into the text, where nothing else marks them."""
    ids, encoding = row.inputs["input_ids"].tolist(), row.encoding
    specials: set[int] = set()
    if encoding is None or template:
        specials = special_token_ids(tokenizer) - {getattr(tokenizer, "mask_token_id", None), tokenizer.unk_token_id}
    if encoding is None:
        tokens = tokenizer.convert_ids_to_tokens(ids)
        # A vocabulary that is padded to a round number has ids that are no token.
        return [Position(i, token or f"<{ids[i]}>", ids[i] in specials) for i, token in enumerate(tokens)]
    positions = []
    for index, row_index in enumerate(row.kept):
        special = bool(encoding.special_tokens_mask[row_index]) or ids[index] in specials
        start, end = (None, None) if special else encoding.offsets[row_index]
        segment = encoding.sequence_ids[row_index] or 0
        positions.append(Position(index, encoding.tokens[row_index], special, start, end, segment))
    return positions


def _check_vocabulary(model: nn.Module, tokenizer: Any) -> None:
    rows = vocabulary_size(model)
    try:
        size = len(tokenizer)
    except TypeError:
        return
    # Embeddings are often padded to a round number, by a few per cent at most.
    if rows is not None and (size > rows or size < 0.9 * rows):
        raise InputError(
            f"the tokenizer has {size} tokens, the model embeds {rows}: they do not belong together; load both from "
            "the same checkpoint (to insist, pass the tokenised input: tokenizer(text, return_tensors='pt'))"
        )


def _check_ids(model: nn.Module, row: TokenizedInput) -> None:
    rows, limit = vocabulary_size(model), max_positions(model)
    ids = row.inputs["input_ids"]
    if ids.numel() == 0:
        raise InputError("the tokenised input is empty: give at least one token")
    low, high = int(ids.min()), int(ids.max())
    if low < 0 or (rows is not None and high >= rows):
        raise InputError(
            f"token id {low if low < 0 else high} is outside the model's vocabulary of {rows}; use its own tokenizer"
        )
    if limit is not None and ids.numel() > limit:
        raise InputError(f"the input has {ids.numel()} tokens, the model takes {limit}; cut it before tokenising")


@dataclass(frozen=True)
class Chat:
    """A list of {"role": …, "content": …}, which the tokenizer's template makes a text of."""

    messages: tuple[Mapping[str, Any], ...]
    continuation: str = ""
    """The reply as far as it is known, which stands where the assistant's turn begins, or continues its message."""


def is_chat(item: Any) -> bool:
    """Whether a list holds messages, and not texts or tokenised inputs."""
    return isinstance(item, list) and bool(item) and all(isinstance(part, Mapping) and "role" in part for part in item)


def render_chat(tokenizer: Any, chat: Chat) -> str:
    """The text that the model reads. After the user's turn it ends where the assistant's begins."""
    if getattr(tokenizer, "chat_template", None) is None:
        raise InputError(
            f"a list of messages needs a chat template, and {type(tokenizer).__name__} has none; "
            "set tokenizer.chat_template, or give the text itself"
        )
    replied = chat.messages[-1]["role"] == "assistant"
    options = {"continue_final_message": True} if replied and chat.continuation else {}
    try:
        return _apply_template(tokenizer, chat.messages, prompt=not replied, **options) + chat.continuation
    except Exception as error:
        raise InputError(
            f"the chat template refused the messages ({first_line(error)}); see the model's card"
        ) from error


def _apply_template(tokenizer: Any, messages: Sequence[Mapping[str, Any]], *, prompt: bool, **options: bool) -> str:
    copies = [dict(message) for message in messages]
    text: str = tokenizer.apply_chat_template(copies, tokenize=False, add_generation_prompt=prompt, **options)
    return text


def _message_positions(tokenizer: Any, chat: Chat, text: str, positions: Positions) -> list[list[Any]]:
    """Role, first position and one past the last of each message's content in the `text` that the template made.

    What the template puts around a message belongs to none. A message that the template has changed is left out.
    """
    parts, end = [], 0
    text = text.removesuffix(chat.continuation)
    for number, message in enumerate(chat.messages, start=1):
        content = message.get("content")
        content = content.strip() if isinstance(content, str) else ""
        try:
            beginning = _apply_template(tokenizer, chat.messages[:number], prompt=False)
        except Exception:  # a template may insist on who speaks last
            beginning = None
        # The content stands last in its turn; a short one may be a word of the template's, too.
        known = beginning is not None and text.startswith(beginning)
        start = text.rfind(content, end, len(beginning or "")) if known else text.find(content, end)
        if content and start >= 0:
            end = start + len(content)
            inside = positions.overlapping(start, end)
            parts += [[str(message["role"]), inside[0], inside[-1] + 1]] if inside else []
    return parts


def takes_choices(model: nn.Module) -> bool:
    return has_head(model, "ForMultipleChoice")


def questions(item: Any) -> tuple[list[Any], bool]:
    """Every question with its choices, and whether the caller gave one and not a list.

    A question is (text, [choice, …]), or a tokenised one, choice × length; of several it is batch × choice × length.
    """
    if isinstance(item, Mapping):
        ids = torch.as_tensor(item.get("input_ids", ()))
        if ids.ndim != 3:
            return [tokenized_inputs(item)], True
        batch = [{name: value[row] for name, value in item.items()} for row in range(len(ids))]
        return [tokenized_inputs(question) for question in batch], len(batch) == 1
    if isinstance(item, list):
        if not item:
            raise InputError("the list of questions is empty: give at least one, (text, [choice, …])")
        return [question for part in item for question in questions(part)[0]], False
    return [item], True


def prepare_choices(prepare: Callable[[Any], PreparedInput], question: Any) -> PreparedInput:
    """The first choice, with all of them as its `choices`."""
    rows = isinstance(question, list) and all(isinstance(row, TokenizedInput) for row in question)
    pair = isinstance(question, tuple) and len(question) == 2
    if not rows and not (pair and isinstance(question[0], str) and isinstance(question[1], (list, tuple))):
        raise InputError(
            "a model of multiple choice reads a text and what may follow it; give (text, [choice, choice, …])"
        )
    several = question if rows else [(question[0], choice) for choice in question[1]]
    if len(several) < 2:
        raise InputError(f"{len(several)} choices are nothing to choose from; give at least two: (text, [choice, …])")
    choices = tuple(prepare(choice) for choice in several)
    return replace(choices[0], choices=choices)
