"""The sides of a model that holds pictures against texts (CLIP, SigLIP, BLIP): each a model of its own.

A tower is made of the modules of the model itself, of which none is copied or changed. So it is explained as any other
model is: the text's by its tokens, the picture's by its patches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, replace
from inspect import signature
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from attnx.adapters.adapter import PreparedInput
from attnx.adapters.image import is_image_path
from attnx.adapters.positions import Position, Positions
from attnx.errors import CaptureError, InputError

Kind = Literal["text", "picture"]
TEXT_SIDE: Kind = "text"
IMAGE_SIDE: Kind = "picture"
MATCH, NO_MATCH = "match", "no match"

_TEXT_STACKS = ("text_model", "text_encoder")
_FAMILIES = ("altclip_", "blip_text", "blip_vision", "chinese_clip_", "clip_", "metaclip_2_", "siglip_")
_TAKEN_OUT: Mapping[str, Kind] = {"_vision_model": TEXT_SIDE, "_text_model": IMAGE_SIDE}
"""How the towers of these are called by themselves, and what the other one reads."""
_PADDED = ("siglip",)
"""Families that were trained on texts padded to their full length, and answer from their last position, padded or not.
"""


class Tower(nn.Module):
    """One side of a two-sided model; the other side is held fixed where they meet in a head (`beside`)."""

    kind: ClassVar[Kind]
    main_input_name: ClassVar[str]

    def __init__(self, whole: nn.Module, beside: Mapping[str, Tensor] | None = None) -> None:
        super().__init__()
        self.whole = whole
        self.training = whole.training
        self._beside = beside
        self.config = _config(whole, self.kind, matching=beside is not None)

    @property
    def device(self) -> torch.device:
        return next(self.whole.parameters()).device

    @property
    def levels(self) -> str:
        """Which levels are its own, where both sides run."""
        return "" if self._beside is None else {"text": "self", "picture": "encoder"}[self.kind]

    def _answer(self, own: dict[str, Any], embed: Callable[..., Tensor]) -> Any:
        """The embedding as the one state of an input, batch × 1 × width; or the logits of both sides together."""
        from transformers.modeling_outputs import BaseModelOutput, SequenceClassifierOutput

        given = {name: one for name, one in own.items() if one is not None and one is not False}
        if self._beside is None:
            return BaseModelOutput(last_hidden_state=embed(self.whole, **given)[:, None])  # type: ignore[arg-type]
        count = len(next(iter(own.values())))
        other = {name: tensor.expand(count, *tensor.shape[1:]) for name, tensor in self._beside.items()}
        return SequenceClassifierOutput(logits=self.whole(**given, **other).itm_score)


class TextTower(Tower):
    """The side that reads texts."""

    kind = TEXT_SIDE
    main_input_name = "input_ids"

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Any:
        return self._answer({"input_ids": input_ids, "attention_mask": attention_mask}, _way(self.whole).text)

    def get_input_embeddings(self) -> nn.Module:
        stack: Any = text_stack(self.whole)
        asked = getattr(stack, "get_input_embeddings", None)
        module: nn.Module = stack.embeddings.token_embedding if asked is None else asked()  # older stacks are not asked
        return module


class ImageTower(Tower):
    """The side that reads pictures."""

    kind = IMAGE_SIDE
    main_input_name = "pixel_values"

    def forward(self, pixel_values: Tensor, interpolate_pos_encoding: bool = False) -> Any:
        own = {"pixel_values": pixel_values, "interpolate_pos_encoding": interpolate_pos_encoding}
        return self._answer(own, _way(self.whole).picture)


def tower(model: nn.Module, kind: Kind, beside: Mapping[str, Tensor] | None = None) -> Tower:
    """The side of this kind, called by the model's own name in what is said of it."""
    side = {TEXT_SIDE: TextTower, IMAGE_SIDE: ImageTower}[kind]
    named: type[Tower] = type(f"{type(model).__name__}'s {kind} tower", (side,), {})
    return named(model, beside)


def is_dual_encoder(model: nn.Module) -> bool:
    """Whether the model embeds pictures and texts in one space, each by a stack of its own."""
    stacks = hasattr(model, "vision_model") and any(hasattr(model, name) for name in _TEXT_STACKS)
    return stacks and any(one.fits(model) for one in _WAYS) and not hasattr(model, "qformer")


def select_tower(model: nn.Module, module: str) -> nn.Module | None:
    """The stack of a two-sided model that a caller names: it alone reads a picture, or a text. None of other models."""
    if not module or not is_dual_encoder(model) or getattr(model, "can_generate", lambda: False)():
        return None
    stack = dict(model.named_children()).get(module)
    return stack if hasattr(stack, "config") else None


def check_dual_encoder(model: nn.Module) -> None:
    """Refuse what reads pictures and texts, but in no two towers that can be followed; with what works instead."""
    name = type(model).__name__
    if hasattr(model, "qformer"):
        raise CaptureError(
            f"{name} reads a picture by a Q-Former, whose queries are no patches, so its similarity is not followed to "
            "them; attnx.explain(model.vision_model, processor, picture) shows the tower alone"
        )
    takes = signature(model.forward).parameters
    if "spatial_shapes" in takes:
        raise CaptureError(
            f"{name} reads pictures of any size as rows of patches (NaFlex), which are not followed; a SigLIP 2 "
            "checkpoint of one size loads as SiglipModel, and is explained"
        )
    if {"input_ids", "pixel_values"} <= set(takes) and not is_dual_encoder(model):
        raise CaptureError(
            f"{name} reads pictures and texts, but embeds them in no space of both, as CLIP, SigLIP and BLIP do; what "
            'it writes is explained by attnx.explain(model, processor, {"image": …, "text": …})'
        )


def matches(model: nn.Module) -> bool:
    """Whether it has a head that reads both sides together and says whether they belong to one another."""
    return is_dual_encoder(model) and hasattr(model, "itm_head")


def missing_modality(model: nn.Module) -> Kind | None:
    """Of a tower that was taken out of such a model, by its config, what the other one reads; None of all else."""
    named = getattr(model.config, "model_type", "")
    if isinstance(model, Tower) or not named.startswith(_FAMILIES):
        return None
    return next((other for ending, other in _TAKEN_OUT.items() if named.endswith(ending)), None)


def kind_of(given: Any) -> Kind:
    """Whether a caller gave a text or a picture; a name that can only mean an image file is a picture."""
    if isinstance(given, list) and given:
        return kind_of(given[0])
    processed = isinstance(given, Mapping) and "pixel_values" in given
    spoken = isinstance(given, (str, tuple, Mapping)) and not is_image_path(given)
    return TEXT_SIDE if spoken and not processed else IMAGE_SIDE


def side_processor(processor: Any, kind: Kind) -> Any:
    """What prepares one side: the tokenizer, or the whole processor, whose image processor is asked."""
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
    length = getattr(text_config(model), "max_position_embeddings", 0)
    if getattr(model.config, "model_type", "") not in _PADDED or "input_ids" not in prepared.inputs:
        return prepared
    pad = getattr(tokenizer, "pad_token_id", None)
    if pad is None:
        raise InputError(
            f"{type(model).__name__} reads texts padded to {length} tokens, and the tokenizer has no padding"
        )
    ids, missing = prepared.inputs["input_ids"], length - len(prepared.positions)
    token = tokenizer.convert_ids_to_tokens(pad)
    filled = [Position(place, token, special=True) for place in range(len(ids), len(ids) + missing)]
    whole = torch.cat([ids, ids.new_full((missing,), pad)])
    # No mask: padding is read as any token, as in training.
    return replace(prepared, inputs={"input_ids": whole}, positions=Positions((*prepared.positions, *filled)))


def embedding_position(model: nn.Module, prepared: PreparedInput, kind: Kind) -> int | Literal["mean"] | None:
    """From which position the embedding is made: None leaves it to the family, "mean" is all patches together."""
    if kind == TEXT_SIDE:
        return len(prepared.positions) - 1 if getattr(model.config, "model_type", "") in _PADDED else None
    return None if prepared.positions[0].special else "mean"


def text_stack(model: nn.Module) -> nn.Module:
    module: nn.Module = next(getattr(model, name) for name in _TEXT_STACKS if hasattr(model, name))
    return module


def text_config(model: nn.Module) -> Any:
    return getattr(model.config, "text_config", model.config)


def _config(model: nn.Module, kind: Kind, *, matching: bool) -> Any:
    """That of the side, under the name of the whole; a copy, for the caller's is not changed."""
    name = "text_config" if kind == TEXT_SIDE else "vision_config"
    result: Any = copy(getattr(model.config, name, model.config))
    result.name_or_path = getattr(model.config, "name_or_path", "")
    result.is_decoder = False  # BLIP's text stack may write elsewhere; here it reads, in both directions
    if matching:
        result.id2label = {0: NO_MATCH, 1: MATCH}
    return result


@dataclass(frozen=True)
class _Way:
    """How a kind of model comes from an input to its embedding."""

    fits: Callable[[nn.Module], bool]
    text: Callable[..., Tensor]
    picture: Callable[..., Tensor]


def _features(model: nn.Module, name: str, **inputs: Any) -> Tensor:
    output = getattr(model, name)(**inputs)
    tensor = output if isinstance(output, Tensor) else getattr(output, "pooler_output", None)
    if not isinstance(tensor, Tensor) or tensor.ndim != 2:
        raise CaptureError(
            f"{type(model).__name__}.{name} gives no one embedding for an input, so there is no cosine to explain; "
            "explain a tower by itself: attnx.explain(model.vision_model, processor, image)"
        )
    return tensor


def _first_projected(stack: nn.Module, projection: nn.Module, **inputs: Any) -> Tensor:
    states = stack(**inputs, return_dict=True).last_hidden_state
    tensor: Tensor = projection(states[:, 0])
    return tensor


_WAYS = (
    _Way(  # BLIP with its matching head
        lambda model: hasattr(model, "text_proj") and hasattr(model, "vision_proj"),
        lambda model, **inputs: _first_projected(model.text_encoder, model.text_proj, **inputs),
        lambda model, **inputs: _first_projected(model.vision_model, model.vision_proj, **inputs),
    ),
    _Way(
        lambda model: hasattr(model, "get_text_features") and hasattr(model, "get_image_features"),
        lambda model, **inputs: _features(model, "get_text_features", **inputs),
        lambda model, **inputs: _features(model, "get_image_features", **inputs),
    ),
)


def _way(model: nn.Module) -> _Way:
    return next(one for one in _WAYS if one.fits(model))
