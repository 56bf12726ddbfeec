"""The numbers of a model's head, as transformers returns them."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from attnx.inputs.model_facts import has_head

LANGUAGE_MODELS = (
    *("ForMaskedLM", "ForCausalLM", "LMHeadModel"),
    *("ForConditionalGeneration", "MTModel", "EncoderDecoderModel"),
)


def head_output(model: nn.Module, output: Any) -> Tensor | None:
    """batch × class, or batch × position × class; a model may be set to return a tuple, in which they come first."""
    if has_head(model, "ForPreTraining"):
        return None
    logits = getattr(output, "logits", None)
    if logits is None and isinstance(output, tuple) and has_head(model, *LANGUAGE_MODELS, "Classification"):
        logits = output[0]
    return logits if isinstance(logits, Tensor) and logits.ndim in (2, 3) else None


def behind_source(output: Any) -> int:
    """How many positions stand before the first that is answered: those of an encoder–decoder's source."""
    states = getattr(output, "encoder_last_hidden_state", None)
    return 0 if states is None else int(states.shape[1])


def class_count(model: nn.Module) -> int:
    """So many classes as the config names; −1 where it names none."""
    count = getattr(model.config, "num_labels", -1)
    return count if isinstance(count, int) else -1


def class_names(model: nn.Module, count: int) -> tuple[str, ...]:
    names = getattr(model.config, "id2label", None) or {}
    return tuple(str(names.get(index, f"LABEL_{index}")) for index in range(count))


def problem_type(model: nn.Module) -> str | None:
    found = getattr(model.config, "problem_type", None)
    return found if isinstance(found, str) else None


def exclusive(model: nn.Module, classes: int) -> bool:
    """Whether just one class is true, so that probabilities share one sum."""
    return problem_type(model) != "multi_label_classification" and classes > 1
