"""Messages of a chat, written out by the tokenizer's own template. Nothing else is ever put around a text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from attnx.adapters.positions import Position
from attnx.errors import InputError, first_line


@dataclass(frozen=True)
class Chat:
    """A list of {"role": …, "content": …}: whoever gives that asks for the template."""

    messages: tuple[Mapping[str, Any], ...]
    continuation: str = ""
    """The reply as far as it is known, which stands where the assistant's turn begins, or goes on with its message."""


def is_chat(given: Any) -> bool:
    """Whether a list holds messages, and not texts or tokenised inputs."""
    return isinstance(given, list) and bool(given) and all(isinstance(one, Mapping) and "role" in one for one in given)


def rendered(tokenizer: Any, chat: Chat) -> str:
    """The text that the model reads. After the user's turn it ends where the assistant's begins."""
    if getattr(tokenizer, "chat_template", None) is None:
        raise InputError(
            f"a list of messages needs a chat template, and {type(tokenizer).__name__} has none; "
            "set tokenizer.chat_template, or give the text itself"
        )
    replied = chat.messages[-1]["role"] == "assistant"
    how = {"continue_final_message": True} if replied and chat.continuation else {}
    try:
        return _written(tokenizer, chat.messages, asks=not replied, **how) + chat.continuation
    except Exception as error:
        raise InputError(
            f"the chat template refused the messages ({first_line(error)}); see the model's card"
        ) from error


def parts_of(tokenizer: Any, chat: Chat, text: str) -> list[tuple[str, int, int]]:
    """Where each message stands in the `text` that the template made: role, first character, one past the last.

    Only what was said is a part; what the template puts around it belongs to nobody. A message that the template has
    changed is not found, and is no part.
    """
    parts, end = [], 0
    text = text.removesuffix(chat.continuation)
    for number, message in enumerate(chat.messages, start=1):
        said = message.get("content")
        said = said.strip() if isinstance(said, str) else ""
        border = _border(tokenizer, chat.messages[:number], text)
        # What is said stands last in its turn; a short one may be a word of the template's, too.
        start = text.find(said, end) if border is None else text.rfind(said, end, border)
        if said and start >= 0:
            parts.append((str(message["role"]), start, start + len(said)))
            end = start + len(said)
    return parts


def parts_by_position(
    parts: Sequence[tuple[str, int, int]], positions: Sequence[Position]
) -> list[tuple[str, int, int]]:
    """The same in positions: those that begin inside of a part, or reach into it."""
    result = []
    for role, start, end in parts:
        inside = [
            position.index
            for position in positions
            if position.start is not None and position.end is not None and position.start < end and position.end > start
        ]
        if inside:
            result.append((role, inside[0], inside[-1] + 1))
    return result


def _written(tokenizer: Any, messages: Sequence[Mapping[str, Any]], *, asks: bool, **how: bool) -> str:
    copies = [dict(message) for message in messages]
    text: str = tokenizer.apply_chat_template(copies, tokenize=False, add_generation_prompt=asks, **how)
    return text


def _border(tokenizer: Any, messages: Sequence[Mapping[str, Any]], text: str) -> int | None:
    """Where the turn of the last of these messages ends; None where the template does not write them so alone."""
    try:
        beginning = _written(tokenizer, messages, asks=False)
    except Exception:  # a template may insist on who speaks last
        return None
    return len(beginning) if text.startswith(beginning) else None
