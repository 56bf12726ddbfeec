"""The table of model families: the family's own row serves a model, or a generic one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from inspect import signature
from typing import Any

from torch import nn

from attnx.adapters.adapter import Adapter, PreparedInput
from attnx.adapters.audio import accepts_audio, prepare_audio
from attnx.adapters.embeddings import is_dual_encoder
from attnx.adapters.encoder_decoder import (
    OUTPUT_KINDS,
    decoder_embedding,
    last_decoder_position,
    prepare_encoder_decoder,
)
from attnx.adapters.image import prepare_image
from attnx.adapters.image_text import accepts_image_and_text, last_text_position, prepare_image_text
from attnx.adapters.model_config import generates, has_head
from attnx.adapters.text import prepare_prompt, prepare_text
from attnx.errors import CaptureError, ChoiceError
from attnx.registry import Registry


def cls_position(model: nn.Module, processor: Any, prepared: PreparedInput) -> int:
    """Where the tokenizer's CLS token stands; the first position when there is none."""
    _refuse_token_classifier(model)
    cls_id = getattr(processor, "cls_token_id", None)
    ids = prepared.inputs["input_ids"].tolist()
    return ids.index(cls_id) if cls_id in ids else 0


def mask_or_cls_position(model: nn.Module, processor: Any, prepared: PreparedInput) -> int:
    """For a masked language model the masked position, if the text has one; otherwise CLS."""
    mask_id = getattr(processor, "mask_token_id", None)
    masks = [index for index, token in enumerate(prepared.inputs["input_ids"].tolist()) if token == mask_id]
    if not masks or not has_head(model, "ForMaskedLM", "ForPreTraining", "WithLMHeadModel"):
        return cls_position(model, processor, prepared)
    if len(masks) > 1:
        raise ChoiceError(
            f"the text has {len(masks)} masks, at positions {', '.join(map(str, masks))}; "
            "say which to explain: position=…"
        )
    return masks[0]


def last_position(model: nn.Module, processor: Any, prepared: PreparedInput) -> int:
    """The last token: in a decoder it alone has seen the whole text, and the next token is predicted from it."""
    _refuse_token_classifier(model)
    last = len(prepared.positions) - 1
    pad_id = getattr(model.config, "pad_token_id", None)
    ids = prepared.inputs["input_ids"].tolist()
    if has_head(model, "ForSequenceClassification") and any(token != pad_id for token in ids):
        # Such heads look for the last token that is not padding, even where that is a token of the text.
        return max(index for index in range(last + 1) if ids[index] != pad_id)
    return last


def image_position(model: nn.Module, processor: Any, prepared: PreparedInput) -> int:
    """CLS, the first of the positions that are no patches."""
    if not prepared.positions[0].special:
        raise ChoiceError(
            f"{type(model).__name__} has no CLS token and predicts from all patches together; say which position to "
            "explain: position=…"
        )
    return 0


def audio_position(model: nn.Module, processor: Any, prepared: PreparedInput) -> int:
    """CLS, where the family has one."""
    if not prepared.positions[0].special:
        raise ChoiceError(
            f"{type(model).__name__} predicts from all segments of time, or at each; say which to explain: "
            'position=…, position="all" for each letter that is generated, or position="mean" for all together'
        )
    return 0


def _refuse_token_classifier(model: nn.Module) -> None:
    if has_head(model, "ForTokenClassification"):
        raise ChoiceError(
            "a token classifier predicts at each token; say which to explain: position=…, or "
            'position="entities" for each entity that it finds'
        )


ADAPTERS: Registry[Adapter] = Registry("adapter")


def register_adapter(adapter: Adapter) -> Adapter:
    """Add a family. A `model_type` that has an adapter already is an error, never an override.

    Args:
        adapter: The family; its `name` is the `model_type` of the config.

    Returns:
        The same adapter.

    Raises:
        RegistryError: If the name is taken.

    Example:
        >>> register_adapter(list_adapters()["bert"])
        Traceback (most recent call last):
            ...
        attnx.errors.RegistryError: ...
    """
    return ADAPTERS.add(adapter.name, adapter)


def list_adapters() -> dict[str, Adapter]:
    """All adapters by name: the `model_type` of a family, or a generic name for all other models.

    Returns:
        Name → adapter; the generic ones are encoder, decoder, encoder_decoder, vision, image_text and audio.

    Example:
        >>> [name for name in list_adapters() if name in ("bert", "gpt2", "vit")]
        ['bert', 'gpt2', 'vit']
    """
    return {name: ADAPTERS[name] for name in ADAPTERS}


def adapter_for(model: nn.Module, module: str = "") -> Adapter:
    """The adapter of the model's `config.model_type`, or the generic one that fits its inputs and its attention.

    `module` is the stack that the caller chose, where a model has several; of an encoder–decoder that generates, the
    kind of layers that is followed.
    """
    config = getattr(model, "config", None)
    if config is None:
        raise CaptureError(
            f"{type(model).__name__} has no config, so it is no transformers model; use capture and a method by "
            "themselves: attnx.rollout(attnx.capture(model, **inputs))"
        )
    model_type = getattr(config, "model_type", "")
    if not module and model_type not in ADAPTERS:
        check_supported(model)
    if getattr(config, "is_encoder_decoder", False) and _has_decoder(model):
        if generates(model) and getattr(model, "main_input_name", "") in ("input_ids", "input_features"):
            adapter = ADAPTERS[model_type if model_type in ADAPTERS else "encoder_decoder"]
            return replace(adapter, module=_output_kind(model, module)) if module else adapter
        if not module:
            raise CaptureError(
                f"{type(model).__name__} is an encoder–decoder with several stacks of attention; explain one of them: "
                f"{_encoder_call(model)}{_lost(model)}"
            )
    adapter = ADAPTERS[model_type if model_type in ADAPTERS else _generic(model, config)]
    return replace(adapter, module=module) if module else adapter


def _output_kind(model: nn.Module, module: str) -> str:
    """The kind of layers that is requested; another part of the model generates nothing that could be explained."""
    if module in OUTPUT_KINDS:
        return module
    known = ", ".join(f"module={name!r} ({words})" for name, words in OUTPUT_KINDS.items())
    raise ChoiceError(
        f"module={module!r}: of {type(model).__name__} a token that it generates is explained, over the layers that "
        f"generate it: {known}; or leave module out, for all layers, and give layer='cross 1' for one. How the encoder "
        f"reads the source is {_encoder_call(model)}"
    )


def _has_decoder(model: nn.Module) -> bool:
    """The encoder alone, taken out of such a model, still carries the config of the whole."""
    return {"encoder", "decoder"} <= {name.rpartition(".")[2] for name, _ in model.named_modules()}


def _encoder_call(model: nn.Module) -> str:
    """How the encoder can be explained: by itself, if it takes what the model takes."""
    encoder = model.get_encoder() if hasattr(model, "get_encoder") else None  # type: ignore[operator]
    main = getattr(model, "main_input_name", "input_ids")
    if encoder is not None and main in signature(encoder.forward).parameters:
        image, audio = accepts_images(encoder), accepts_audio(encoder)
        arguments = "processor, image" if image else "processor, audio, position='mean'" if audio else "tokenizer, text"
        return f"attnx.explain(model.get_encoder(), {arguments})"
    name = next((name for name, _ in model.named_modules() if name.rpartition(".")[2] == "encoder"), "encoder")
    return f"attnx.explain(model, …, module={name!r})"


def _lost(model: nn.Module) -> str:
    """What the encoder alone cannot explain: the prediction is made behind the decoder."""
    if getattr(model, "base_model", model) is model:
        return (
            ". With its language-model head (AutoModelForSeq2SeqLM) what it generates is explained, over both sequences"
        )
    return (
        f". That is how the encoder reads the input, and not the prediction of {type(model).__name__}: its head is "
        "behind the decoder, so prediction, target and references are lost"
    )


def _generic(model: nn.Module, config: Any) -> str:
    if accepts_image_and_text(model) and not getattr(config, "is_encoder_decoder", False):
        return "image_text"
    if accepts_images(model):
        return "vision"
    if accepts_audio(model):
        return "audio"
    return "decoder" if is_decoder(config) else "encoder"


def accepts_images(model: nn.Module) -> bool:
    """Whether images go into the model, as into a vision tower that was taken out of a larger one."""
    takes = signature(model.forward).parameters
    return getattr(model, "main_input_name", "") == "pixel_values" or (
        "pixel_values" in takes and "input_ids" not in takes
    )


def is_decoder(config: Any) -> bool:
    """Whether the family generates text from left to right: it has a causal language model and no masked one."""
    from transformers.models.auto import modeling_auto

    if getattr(config, "is_decoder", False):
        return True
    if getattr(config, "is_encoder_decoder", False):
        return False
    has_causal = config.model_type in modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    return has_causal and config.model_type not in modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES


def check_supported(model: nn.Module) -> None:
    """Refuse models whose positions cannot be followed, with what works instead."""
    for fits, reason, instead in _UNSUPPORTED:
        if fits(model, model.config):
            raise CaptureError(f"{type(model).__name__} {reason}; {instead}")


def _detects(model: nn.Module, config: Any) -> bool:
    """Encoder and decoder over the cells of a convolution's map, and queries that become objects."""
    reads_pixels = getattr(model, "main_input_name", "") == "pixel_values"
    return reads_pixels and hasattr(config, "num_queries") and hasattr(config, "decoder_layers")


_OTHER_VISION_MODEL = (
    "explain a model of the same task that attends over all patches (ViT, DeiT, BEiT, DINOv2), or use Captum on it"
)
_UNSUPPORTED: tuple[tuple[Callable[[nn.Module, Any], bool], str, str], ...] = (
    (
        lambda model, config: hasattr(config, "qformer_config") and hasattr(config, "vision_config"),
        "reads an image by a Q-Former: what stands in the text are learned queries, and no patches",
        "explain its tower, attnx.explain(model.vision_model, processor, image), or a decoder that reads patches "
        "(LLaVA, PaliGemma, Qwen2-VL, SmolVLM)",
    ),
    (
        lambda model, config: is_dual_encoder(model) and not generates(model),
        "compares images with texts, and predicts from both together",
        "use attnx.explain_similarity(model, processor, image, text), or explain one tower: "
        "attnx.explain(model.vision_model, processor, image)",
    ),
    (
        lambda model, config: hasattr(config, "sr_ratios"),
        "attends to a smaller copy of the image at every stage (SegFormer's layout), so its maps are not of patches "
        "over patches",
        _OTHER_VISION_MODEL,
    ),
    (
        _detects,
        "finds objects by learned queries over the cells of a convolution's map (DETR's layout), which are no patches",
        _OTHER_VISION_MODEL,
    ),
    (
        lambda model, config: hasattr(config, "num_latents") and hasattr(config, "d_latents"),
        "reads its input into learned latents (Perceiver), which attend to one another: they are no positions of it",
        "explain a model of the same task that attends over all positions (a ViT, a BERT), or use Captum on it",
    ),
)


_ENCODER: dict[str, Any] = {"prepare": prepare_text, "explained": mask_or_cls_position}
_DECODER: dict[str, Any] = {
    "prepare": prepare_prompt,
    "explained": last_position,
    "baseline": ("unk_token",),  # a mask is nothing that a decoder was trained on
}
_VISION: dict[str, Any] = {
    "prepare": prepare_image,
    "takes": frozenset({"interpolate"}),
    "noun": "image",
    "explained": image_position,
}
for _adapter in (
    Adapter(name="bert", **_ENCODER),
    Adapter(name="distilbert", **_ENCODER),
    Adapter(name="gpt2", **_DECODER),
    Adapter(name="vit", **_VISION),
    # For all other models:
    Adapter(name="encoder", **_ENCODER),
    Adapter(name="decoder", **_DECODER),
    Adapter(
        name="encoder_decoder",
        prepare=prepare_encoder_decoder,
        takes=frozenset({"target_text"}),
        noun="input",
        explained=last_decoder_position,
        decoder_embeddings=decoder_embedding,
    ),
    Adapter(name="vision", **_VISION),
    Adapter(name="audio", prepare=prepare_audio, explained=audio_position, noun="audio"),
    Adapter(
        name="image_text",
        **{**_DECODER, "prepare": prepare_image_text, "noun": "input", "explained": last_text_position},
    ),
):
    register_adapter(_adapter)
