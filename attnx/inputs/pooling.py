"""Where a model answers from, and whether the text has what it answers: what the explained position must fit."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn

from attnx.errors import ChoiceError
from attnx.inputs.adapter import Prepared
from attnx.inputs.model_facts import has_head

MEAN = "mean"
"""How a caller asks for the mean over all positions: `position="mean"`."""

_POOLING_FILE = Path("1_Pooling") / "config.json"
"""Where sentence-transformers keeps how a checkpoint is pooled, beside the model."""
_AT_EACH = ("ForTokenClassification", "ForMaskedLM", "ForCausalLM", "LMHeadModel")


def answer_facts(model: nn.Module, processor: Any, prepared: Prepared) -> dict[str, Any]:
    """What bears on the explained position, for `provenance["input"]`: how the model pools, and a missing mask."""
    facts: dict[str, Any] = {}
    if pools_by_mean(model):
        facts["pooling"] = MEAN
    mask = getattr(processor, "mask_token_id", None)
    if mask is not None and has_head(model, "ForMaskedLM") and mask not in prepared.inputs["input_ids"].tolist():
        facts["mask"] = False
    return facts


def pools_by_mean(model: nn.Module) -> bool:
    """Whether the model answers from the mean of all positions: by its config, or without a head by the file beside."""
    config = model.config
    if has_head(model, "ForSequenceClassification", "ForImageClassification"):
        by_config = (getattr(config, "classifier_pooling", None), getattr(config, "summary_type", None))
        return MEAN in by_config or getattr(config, "use_mean_pooling", False) is True
    return not has_head(model, *_AT_EACH) and _kept_mean(getattr(config, "name_or_path", ""))


def check_mean(model: nn.Module) -> None:
    """The mean over positions is no view of a model that answers at each of them."""
    if has_head(model, *_AT_EACH):
        raise ChoiceError(
            f'position="mean" is for models that answer from all positions together; {type(model).__name__} answers at '
            "each: give a number"
        )


def _kept_mean(place: Any) -> bool:
    if not isinstance(place, str) or not place:
        return False
    try:
        kept = json.loads((Path(place) / _POOLING_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):  # no such file, or none that says anything
        return False
    if not isinstance(kept, Mapping):
        return False
    return kept.get("pooling_mode_mean_tokens") is True or kept.get("pooling_mode") == MEAN
