"""A small model of any type: as it comes, the same with eager attention, and an input that it runs on."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import torch

from tests.families.given import inputs_for
from tests.families.small import small_config

_TABLES = ("MODEL", "MODEL_FOR_CAUSAL_LM", "MODEL_FOR_MASKED_LM", "MODEL_FOR_IMAGE_TEXT_TO_TEXT")


def built(name: str) -> tuple[Any, Any, dict[str, torch.Tensor]]:
    """(model, eager model, inputs); of an encoder–decoder, its encoder."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    kind = CONFIG_MAPPING[name]
    made = _model_class(name, kind)
    torch.manual_seed(0)
    eager = _sharpened(made._from_config(small_config(kind), attn_implementation="eager"))
    model = made._from_config(small_config(kind)).eval()
    model.load_state_dict(eager.state_dict())
    if getattr(model.config, "is_encoder_decoder", False) and hasattr(model, "get_encoder"):
        model, eager = model.get_encoder(), eager.get_encoder()
    return model, eager, _inputs(model)


def _model_class(name: str, kind: type) -> Any:
    """The model of a type by transformers' tables; for a part of a larger model, the class that takes its config."""
    import transformers
    from transformers.models.auto import modeling_auto

    for table in _TABLES:
        chosen = getattr(modeling_auto, f"{table}_MAPPING_NAMES", {}).get(name)
        if chosen:
            return getattr(transformers, chosen if isinstance(chosen, str) else chosen[0])
    module = import_module(kind.__module__.replace("configuration_", "modeling_"))
    for made in vars(module).values():
        own = isinstance(made, type) and getattr(made, "config_class", None) is kind
        if own and getattr(made, "forward", None) is not torch.nn.Module.forward:
            return made
    raise LookupError("transformers names no model for this config alone")


def _inputs(model: Any) -> dict[str, torch.Tensor]:
    """The first input that the model runs on."""
    failure: Exception | None = None
    for given in inputs_for(model):
        try:
            with torch.no_grad():
                model(**given)
            return given
        except Exception as error:
            failure = failure or error
    raise RuntimeError(f"does not run: {type(failure).__name__}: {failure}")


def _sharpened(model: Any) -> Any:
    """Attention that is not flat, so that a wrong one shows."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.mul_(3)
    return model.eval()
