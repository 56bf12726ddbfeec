"""Speech that a model writes down: it begins with tokens of its own, which say in which language, and what for.

Whisper's `generate` chooses them, by what it is told or by what it hears. One token is written to see them; the text
behind them is then written and explained as that of any encoder–decoder.
"""

from __future__ import annotations

from collections.abc import Mapping
from inspect import signature
from typing import Any

from torch import nn

from attnx.capturing.watch import undisturbed
from attnx.errors import InputError, in_a_line
from attnx.inputs.adapter import Prepared
from attnx.inputs.output import begun_output
from attnx.inputs.streams import source_alone, with_output
from attnx.running.batches import collate

ONCE: Mapping[str, Any] = {"force_unique_generate_call": True}
"""How `generate` of such a model is told to return all tokens of one call, the first and the last among them."""
STEERED_BY = ("language", "task", "prompt_ids")
"""Settings of its `generate` that choose how it begins."""


def begins_itself(model: nn.Module) -> bool:
    return set(ONCE) <= set(signature(model.generate).parameters)  # type: ignore[arg-type]


def with_beginning(model: nn.Module, tokenizer: Any, prompt: Prepared, options: Mapping[str, Any]) -> Prepared:
    """The sound, and behind it the tokens with which the model begins."""
    inputs = collate(model, [source_alone(prompt)], None)
    told = {name: one for name, one in options.items() if name in STEERED_BY}
    try:
        with undisturbed(model):
            ids = model.generate(**inputs, **told, **ONCE, max_new_tokens=1, max_length=None)  # type: ignore[operator]
    except Exception as error:  # a language that it does not know, or a task
        raise InputError(f"model.generate refused ({in_a_line(error)}); check {', '.join(STEERED_BY)}") from error
    *begun, _ = ids[0].tolist()
    return with_output(model, source_alone(prompt), begun_output(tokenizer, begun))
