"""Where a model answers from, and whether the text has what it answers: what the explained position must fit."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from attnx.adapters.adapter import PreparedInput
from attnx.adapters.audio import accepts_audio
from attnx.adapters.model_config import has_head
from attnx.errors import ChoiceError
from attnx.registry import unknown

MEAN = "mean"
"""How a caller asks for the mean over all positions: `position="mean"`."""

_POOLING_FILE = Path("1_Pooling") / "config.json"
"""Where sentence-transformers keeps how a checkpoint is pooled, beside the model."""
_MODES = {
    "pooling_mode_mean_tokens": MEAN,
    "pooling_mode_cls_token": "cls",
    "pooling_mode_lasttoken": "last",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
}
"""The switches of that file, and what they are called here."""
_OTHER_NAMES = {"lasttoken": "last"}
_KNOWN_MODULES = ("Transformer", "Pooling", "Normalize")
POOLINGS = (MEAN, "cls", "last")
"""From which positions an embedding is made: all, the first, or the last."""
OWN = "own"
"""The model makes its embedding itself, as CLIP does."""
_AT_EACH = ("ForTokenClassification", "ForMaskedLM", "ForCausalLM", "LMHeadModel", "ForCTC")


def pooling_facts(model: nn.Module, processor: Any, prepared: PreparedInput) -> dict[str, Any]:
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
    if pools_audio_by_mean(model):
        return True
    if has_head(model, "ForSequenceClassification", "ForImageClassification"):
        by_config = (getattr(config, "classifier_pooling", None), getattr(config, "summary_type", None))
        return MEAN in by_config or getattr(config, "use_mean_pooling", False) is True
    return not has_head(model, *_AT_EACH) and _kept_mean(getattr(config, "name_or_path", ""))


def pools_audio_by_mean(model: nn.Module) -> bool:
    """Whether a classifier of sound answers from the mean of all stretches, which is then what is explained."""
    return accepts_audio(model) and has_head(model, "ForSequenceClassification", "WhisperForAudioClassification")


def check_mean(model: nn.Module) -> None:
    """The mean over positions is no view of a model that answers at each of them."""
    if has_head(model, *_AT_EACH):
        raise ChoiceError(
            f'position="mean" is for models that answer from all positions together; {type(model).__name__} answers at '
            "each: give a number"
        )


def embedding_pooling(model: nn.Module, name: str | None = None) -> str:
    """How an embedding of the whole text is made of its positions: as asked, or as the file beside the model says.

    What comes behind the pooling of sentence-transformers and changes the direction, a dense layer, is refused: it is
    no part of the model that was given.
    """
    if name is not None:
        if name not in POOLINGS:
            raise ChoiceError(unknown("pooling", name, POOLINGS))
        return name
    place = getattr(model.config, "name_or_path", "")
    return _named_pooling(model, _kept(place), _modules(place))


def sentence_transformer_pooling(sentence_transformer: Any, name: str | None = None) -> str:
    """How a SentenceTransformer makes its embedding, read off its own modules."""
    if name is not None:
        return embedding_pooling(unwrap_sentence_transformer(sentence_transformer), name)
    prompt = getattr(sentence_transformer, "default_prompt_name", None)
    if prompt is not None:
        raise ChoiceError(
            f"this SentenceTransformer puts its prompt {prompt!r} in front of every text: write it into the texts, and "
            "set default_prompt_name to None"
        )
    modules = list(sentence_transformer.children())
    pooling = next((module for module in modules if type(module).__name__ == "Pooling"), None)
    kept = pooling.get_config_dict() if pooling is not None else {}
    return _named_pooling(
        unwrap_sentence_transformer(sentence_transformer), kept, [type(module).__name__ for module in modules]
    )


def is_sentence_transformer(model: Any) -> bool:
    """Without sentence-transformers being loaded for those who have none."""
    return any(kind.__name__ == "SentenceTransformer" for kind in type(model).__mro__)


def unwrap_sentence_transformer(sentence_transformer: Any) -> nn.Module:
    """The transformers model in it, which is its first module."""
    first = next(iter(sentence_transformer.children()), None)
    model = getattr(first, "auto_model", None)
    if not isinstance(model, nn.Module):
        raise ChoiceError(
            f"the first module of this SentenceTransformer is {type(first).__name__}, and no Transformer; give the "
            "transformers model and its tokenizer"
        )
    return model


def _named_pooling(model: nn.Module, kept: Mapping[str, Any], modules: Sequence[str]) -> str:
    """The one pooling that is named in what sentence-transformers keeps."""
    mode = kept.get("pooling_mode")
    found = [*(mode if isinstance(mode, (list, tuple)) else [mode])]
    found += [name for key, name in _MODES.items() if kept.get(key) is True]
    named = [name for name in found if isinstance(name, str)]
    if not named:
        raise ChoiceError(
            f"{type(model).__name__} does not say how it is pooled (no {_POOLING_FILE.as_posix()} beside it); give "
            "pooling='mean', 'cls' or 'last', as it was trained"
        )
    pooling = _OTHER_NAMES.get(named[0], named[0])
    if len(set(named)) > 1 or pooling not in POOLINGS:
        raise ChoiceError(
            f"{type(model).__name__} is pooled by {' and '.join(dict.fromkeys(named))}, which is not followed; "
            "pooling='mean', 'cls' or 'last' explains another embedding"
        )
    further = [module for module in modules if module not in _KNOWN_MODULES]
    if further:
        raise ChoiceError(
            f"behind the pooling of this checkpoint stands {', '.join(further)}, which is no part of "
            f"{type(model).__name__}; pooling={pooling!r} explains the embedding before it"
        )
    return pooling


def _modules(place: Any) -> list[str]:
    """The parts of a sentence-transformers checkpoint, by the last word of their type."""
    listed = _read(place, Path("modules.json"))
    parts = listed if isinstance(listed, list) else []
    return [str(part.get("type", "")).rpartition(".")[2] for part in parts if isinstance(part, Mapping)]


def _kept(place: Any) -> Mapping[str, Any]:
    kept = _read(place, _POOLING_FILE)
    return kept if isinstance(kept, Mapping) else {}


def _kept_mean(place: Any) -> bool:
    kept = _kept(place)
    return kept.get("pooling_mode_mean_tokens") is True or kept.get("pooling_mode") == MEAN


def _read(place: Any, file: Path) -> Any:
    if not isinstance(place, str) or not place:
        return None
    try:
        return json.loads((Path(place) / file).read_text(encoding="utf-8"))
    except (OSError, ValueError):  # no such file, or none that says anything
        return None
