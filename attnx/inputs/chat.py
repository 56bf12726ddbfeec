"""Messages of a chat, written out by the tokenizer's own template. Nothing else is ever put around a text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from attnx.errors import InputError, first_line


@dataclass(frozen=True)
class Chat:
    """A list of {"role": …, "content": …}: whoever gives that asks for the template."""

    messages: tuple[Mapping[str, Any], ...]


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
    messages = [dict(one) for one in chat.messages]
    asks = messages[-1]["role"] != "assistant"
    try:
        text: str = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=asks)
    except Exception as error:
        raise InputError(
            f"the chat template refused the messages ({first_line(error)}); see the model's card"
        ) from error
    return text
