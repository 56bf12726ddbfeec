"""Models that embed an input: how it is pooled, and the two towers of models that compare images with texts.

A tower (of CLIP, SigLIP, BLIP) is made of the modules of the model itself, of which none is copied or changed. So it is
explained as any other model is: the text's by its tokens, the image's by its patches.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from attnx.adapters.adapter import PreparedInput
from attnx.adapters.audio import accepts_audio
from attnx.adapters.image import is_image_path
from attnx.adapters.model_config import generates, has_head
from attnx.adapters.positions import Position, Positions
from attnx.errors import CaptureError, ChoiceError, InputError
from attnx.registry import unknown

MEAN = "mean"
"""How a caller requests the mean over all positions: `position="mean"`."""
POOLINGS = (MEAN, "cls", "last")
"""From which positions an embedding is made: all, the first, or the last."""
OWN = "own"
"""The model makes its embedding itself, as CLIP does."""

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
_PREDICTS_AT_EACH = ("ForTokenClassification", "ForMaskedLM", "ForCausalLM", "LMHeadModel", "ForCTC")


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
    """Whether the model predicts from the mean of all positions: by its config, or without a head by the file beside
    it."""
    config = model.config
    if pools_audio_by_mean(model):
        return True
    if has_head(model, "ForSequenceClassification", "ForImageClassification"):
        by_config = (getattr(config, "classifier_pooling", None), getattr(config, "summary_type", None))
        return MEAN in by_config or getattr(config, "use_mean_pooling", False) is True
    if has_head(model, *_PREDICTS_AT_EACH):
        return False
    settings = _pooling_settings(getattr(config, "name_or_path", ""))
    return settings.get("pooling_mode_mean_tokens") is True or settings.get("pooling_mode") == MEAN


def pools_audio_by_mean(model: nn.Module) -> bool:
    """Whether a classifier of audio predicts from the mean of all segments, which is then what is explained."""
    return accepts_audio(model) and has_head(model, "ForSequenceClassification", "WhisperForAudioClassification")


def check_mean(model: nn.Module) -> None:
    """The mean over positions is no view of a model that predicts at each of them."""
    if has_head(model, *_PREDICTS_AT_EACH):
        raise ChoiceError(
            f'position="mean" is for models that predict from all positions together; {type(model).__name__} predicts '
            "at each: give a number"
        )


def embedding_pooling(model: nn.Module, name: str | None = None) -> str:
    """How an embedding of the whole text is made of its positions: as named, or as the file beside the model says.

    What comes behind the pooling of sentence-transformers and changes the direction, a dense layer, is refused: it is
    no part of the model.
    """
    if name is not None:
        if name not in POOLINGS:
            raise ChoiceError(unknown("pooling", name, POOLINGS))
        return name
    directory = getattr(model.config, "name_or_path", "")
    listed = _read_json(directory, Path("modules.json"))
    parts = [part for part in listed if isinstance(part, Mapping)] if isinstance(listed, list) else []
    modules = [str(part.get("type", "")).rpartition(".")[2] for part in parts]
    return _checked_pooling(model, _pooling_settings(directory), modules)


def sentence_transformer_pooling(sentence_transformer: Any, name: str | None = None) -> str:
    """How a SentenceTransformer makes its embedding, read off its own modules."""
    model = unwrap_sentence_transformer(sentence_transformer)
    if name is not None:
        return embedding_pooling(model, name)
    prompt = getattr(sentence_transformer, "default_prompt_name", None)
    if prompt is not None:
        raise ChoiceError(
            f"this SentenceTransformer puts its prompt {prompt!r} in front of every text: write it into the texts, and "
            "set default_prompt_name to None"
        )
    modules = {type(module).__name__: module for module in sentence_transformer.children()}
    settings = modules["Pooling"].get_config_dict() if "Pooling" in modules else {}
    return _checked_pooling(model, settings, list(modules))


def is_sentence_transformer(model: Any) -> bool:
    """Without loading sentence-transformers, which need not be installed."""
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


def _checked_pooling(model: nn.Module, settings: Mapping[str, Any], modules: Sequence[str]) -> str:
    """The one pooling that is named in the settings of sentence-transformers."""
    mode = settings.get("pooling_mode")
    modes = [*(mode if isinstance(mode, (list, tuple)) else [mode])]
    modes += [name for key, name in _MODES.items() if settings.get(key) is True]
    named = ["last" if name == "lasttoken" else name for name in modes if isinstance(name, str)]
    if not named:
        raise ChoiceError(
            f"{type(model).__name__} does not say how it is pooled (no {_POOLING_FILE.as_posix()} beside it); give "
            "pooling='mean', 'cls' or 'last', as it was trained"
        )
    pooling = named[0]
    if len(set(named)) > 1 or pooling not in POOLINGS:
        raise ChoiceError(
            f"{type(model).__name__} is pooled by {' and '.join(dict.fromkeys(named))}, which is not followed; "
            "pooling='mean', 'cls' or 'last' explains another embedding"
        )
    further = [module for module in modules if module not in ("Transformer", "Pooling", "Normalize")]
    if further:
        raise ChoiceError(
            f"behind the pooling of this checkpoint stands {', '.join(further)}, which is no part of "
            f"{type(model).__name__}; pooling={pooling!r} explains the embedding before it"
        )
    return pooling


def _pooling_settings(directory: Any) -> Mapping[str, Any]:
    settings = _read_json(directory, _POOLING_FILE)
    return settings if isinstance(settings, Mapping) else {}


def _read_json(directory: Any, file: Path) -> Any:
    if not isinstance(directory, str) or not directory:
        return None
    try:
        return json.loads((Path(directory) / file).read_text(encoding="utf-8"))
    except (OSError, ValueError):  # no such file, or none that says anything
        return None


Kind = Literal["text", "picture"]
TEXT_SIDE: Kind = "text"
IMAGE_SIDE: Kind = "picture"
MATCH, NO_MATCH = "match", "no match"

_TEXT_STACKS = ("text_model", "text_encoder")
_FAMILIES = ("altclip_", "blip_text", "blip_vision", "chinese_clip_", "clip_", "metaclip_2_", "siglip_")
_OTHER_TOWER: Mapping[str, Kind] = {"_vision_model": TEXT_SIDE, "_text_model": IMAGE_SIDE}
"""How the towers of these families are called by themselves, and what the other one reads."""
_PADDED = "siglip"
"""The family that was trained on texts padded to their full length, and predicts from their last position."""


class Tower(nn.Module):
    """One side of a two-sided model; the other side is held fixed where they meet in a head (`beside`)."""

    kind: ClassVar[Kind]
    main_input_name: ClassVar[str]

    def __init__(self, whole: nn.Module, beside: Mapping[str, Tensor] | None = None) -> None:
        super().__init__()
        self.whole = whole
        self.training = whole.training
        self._beside = beside
        part = "text_config" if self.kind == TEXT_SIDE else "vision_config"
        config: Any = copy(getattr(whole.config, part, whole.config))
        config.name_or_path = getattr(whole.config, "name_or_path", "")
        config.is_decoder = False  # BLIP's text stack may generate elsewhere; here it reads, in both directions
        if beside is not None:
            config.id2label = {0: NO_MATCH, 1: MATCH}
        self.config = config

    @property
    def device(self) -> torch.device:
        return next(self.whole.parameters()).device

    @property
    def levels(self) -> str:
        """Which layers are its own, where both sides run."""
        return "" if self._beside is None else "self" if self.kind == TEXT_SIDE else "encoder"

    def _run(self, **inputs: Any) -> Any:
        """The embedding as the one state of an input, batch × 1 × width; or the logits of both sides together."""
        from transformers.modeling_outputs import BaseModelOutput, SequenceClassifierOutput

        if self._beside is None:
            return BaseModelOutput(last_hidden_state=_embed(self.whole, self.kind, inputs)[:, None])  # type: ignore[arg-type]
        count = len(inputs[self.main_input_name])
        other = {name: tensor.expand(count, *tensor.shape[1:]) for name, tensor in self._beside.items()}
        return SequenceClassifierOutput(logits=self.whole(**inputs, **other).itm_score)


class TextTower(Tower):
    """The side that reads texts."""

    kind = TEXT_SIDE
    main_input_name = "input_ids"

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Any:
        masked = {} if attention_mask is None else {"attention_mask": attention_mask}
        return self._run(input_ids=input_ids, **masked)

    def get_input_embeddings(self) -> nn.Module:
        stack: Any = text_stack(self.whole)
        getter = getattr(stack, "get_input_embeddings", None)  # which older stacks lack
        module: nn.Module = stack.embeddings.token_embedding if getter is None else getter()
        return module


class ImageTower(Tower):
    """The side that reads images."""

    kind = IMAGE_SIDE
    main_input_name = "pixel_values"

    def forward(self, pixel_values: Tensor, interpolate_pos_encoding: bool = False) -> Any:
        options = {"interpolate_pos_encoding": True} if interpolate_pos_encoding else {}
        return self._run(pixel_values=pixel_values, **options)


def tower(model: nn.Module, kind: Kind, beside: Mapping[str, Tensor] | None = None) -> Tower:
    """The side of this kind, called by the model's own name in messages."""
    side = TextTower if kind == TEXT_SIDE else ImageTower
    named: type[Tower] = type(f"{type(model).__name__}'s {kind} tower", (side,), {})
    return named(model, beside)


def _has_projections(model: nn.Module) -> bool:
    """As BLIP with its matching head."""
    return hasattr(model, "text_proj") and hasattr(model, "vision_proj")


def is_dual_encoder(model: nn.Module) -> bool:
    """Whether the model embeds images and texts in one space, each by a stack of its own."""
    stacks = hasattr(model, "vision_model") and any(hasattr(model, name) for name in _TEXT_STACKS)
    features = hasattr(model, "get_text_features") and hasattr(model, "get_image_features")
    return stacks and (_has_projections(model) or features) and not hasattr(model, "qformer")


def _embed(model: nn.Module, kind: Kind, inputs: Mapping[str, Any]) -> Tensor:
    """batch × width."""
    parts: Any = model
    if _has_projections(model):
        text = kind == TEXT_SIDE
        stack, projection = (parts.text_encoder, parts.text_proj) if text else (parts.vision_model, parts.vision_proj)
        first: Tensor = projection(stack(**inputs, return_dict=True).last_hidden_state[:, 0])
        return first
    name = "get_text_features" if kind == TEXT_SIDE else "get_image_features"
    output = getattr(model, name)(**inputs)
    embedding = output if isinstance(output, Tensor) else getattr(output, "pooler_output", None)
    if not isinstance(embedding, Tensor) or embedding.ndim != 2:
        raise CaptureError(
            f"{type(model).__name__}.{name} gives no one embedding for an input, so there is no cosine to explain; "
            "explain a tower by itself: attnx.explain(model.vision_model, processor, image)"
        )
    return embedding


def select_tower(model: nn.Module, module: str) -> nn.Module | None:
    """The stack of a two-sided model that a caller names: it alone reads an image, or a text. None of other models."""
    if not module or not is_dual_encoder(model) or generates(model):
        return None
    stack = dict(model.named_children()).get(module)
    return stack if hasattr(stack, "config") else None


def check_dual_encoder(model: nn.Module) -> None:
    """Refuse what reads images and texts, but in no two towers that can be followed; with what works instead."""
    name = type(model).__name__
    if hasattr(model, "qformer"):
        raise CaptureError(
            f"{name} reads an image by a Q-Former, whose queries are no patches, so its similarity is not followed to "
            "them; attnx.explain(model.vision_model, processor, image) shows the tower alone"
        )
    takes = signature(model.forward).parameters
    if "spatial_shapes" in takes:
        raise CaptureError(
            f"{name} reads images of any size as rows of patches (NaFlex), which are not followed; a SigLIP 2 "
            "checkpoint of one size loads as SiglipModel, and is explained"
        )
    if {"input_ids", "pixel_values"} <= set(takes) and not is_dual_encoder(model):
        raise CaptureError(
            f"{name} reads images and texts, but embeds them in no space of both, as CLIP, SigLIP and BLIP do; what "
            'it generates is explained by attnx.explain(model, processor, {"image": …, "text": …})'
        )


def matches(model: nn.Module) -> bool:
    """Whether it has a head that reads both sides together and says whether they belong to one another."""
    return is_dual_encoder(model) and hasattr(model, "itm_head")


def missing_modality(model: nn.Module) -> Kind | None:
    """Of a tower that was taken out of such a model, by its config, what the other one reads; None of all else."""
    model_type = getattr(model.config, "model_type", "")
    if isinstance(model, Tower) or not model_type.startswith(_FAMILIES):
        return None
    return next((other for ending, other in _OTHER_TOWER.items() if model_type.endswith(ending)), None)


def kind_of(item: Any) -> Kind:
    """Whether a caller gave a text or an image; a name that can only mean an image file is an image."""
    if isinstance(item, list) and item:
        return kind_of(item[0])
    if isinstance(item, Mapping):
        return IMAGE_SIDE if "pixel_values" in item else TEXT_SIDE
    return TEXT_SIDE if isinstance(item, (str, tuple)) and not is_image_path(item) else IMAGE_SIDE


def side_processor(processor: Any, kind: Kind) -> Any:
    """What prepares one side: the tokenizer, or the whole processor, whose image processor is used."""
    if kind == IMAGE_SIDE:
        return processor
    result = getattr(processor, "tokenizer", processor)
    if not hasattr(result, "convert_ids_to_tokens"):
        raise InputError(
            f"{type(processor).__name__} has no tokenizer for the text; pass AutoProcessor.from_pretrained(…)"
        )
    return result


def pad_as_trained(model: nn.Module, tokenizer: Any, prepared: PreparedInput) -> PreparedInput:
    """A text as its tower was trained to read it: SigLIP's are padded to their full length, and padding is read."""
    if getattr(model.config, "model_type", "") != _PADDED or "input_ids" not in prepared.inputs:
        return prepared
    length = getattr(getattr(model.config, "text_config", model.config), "max_position_embeddings", 0)
    pad = getattr(tokenizer, "pad_token_id", None)
    if pad is None:
        raise InputError(
            f"{type(model).__name__} reads texts padded to {length} tokens, and the tokenizer has no padding"
        )
    ids, token = prepared.inputs["input_ids"], tokenizer.convert_ids_to_tokens(pad)
    padding = [Position(index, token, special=True) for index in range(len(ids), length)]
    padded = torch.cat([ids, ids.new_full((length - len(ids),), pad)])
    # No mask: padding is read as any token, as in training.
    return replace(prepared, inputs={"input_ids": padded}, positions=Positions((*prepared.positions, *padding)))


def embedding_position(model: nn.Module, prepared: PreparedInput, kind: Kind) -> int | Literal["mean"] | None:
    """From which position the embedding is made: None leaves it to the family, "mean" is all patches together."""
    if kind == TEXT_SIDE:
        return len(prepared.positions) - 1 if getattr(model.config, "model_type", "") == _PADDED else None
    return None if prepared.positions[0].special else "mean"


def text_stack(model: nn.Module) -> nn.Module:
    module: nn.Module = next(getattr(model, name) for name in _TEXT_STACKS if hasattr(model, name))
    return module
