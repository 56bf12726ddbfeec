"""The table of families, and which row serves a model: the family's own, or a generic one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from inspect import signature
from typing import Any, NamedTuple

from torch import nn

from attnx.adapters.adapter import Adapter, PreparedInput
from attnx.adapters.audio import accepts_audio, prepare_audio
from attnx.adapters.encoder_decoder import WRITING, decoder_embedding, last_decoder_position, prepare_encoder_decoder
from attnx.adapters.image import prepare_image
from attnx.adapters.image_text import accepts_image_and_text, last_text_position, prepare_image_text
from attnx.adapters.model_config import has_head
from attnx.adapters.text import prepare_prompt, prepare_text
from attnx.adapters.towers import is_dual_encoder
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
    masks = [index for index, input_ in enumerate(prepared.inputs["input_ids"].tolist()) if input_ == mask_id]
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
    if has_head(model, "ForSequenceClassification") and any(one != pad_id for one in ids):
        # Such heads look for the last token that is not padding, even where that is a token of the text.
        return max(index for index in range(last + 1) if ids[index] != pad_id)
    return last


def image_position(model: nn.Module, processor: Any, prepared: PreparedInput) -> int:
    """CLS, the first of the positions that are no patches."""
    if not prepared.positions[0].special:
        raise ChoiceError(
            f"{type(model).__name__} has no CLS token: it answers from all patches together; say whose view to "
            "explain: position=…"
        )
    return 0


def audio_position(model: nn.Module, processor: Any, prepared: PreparedInput) -> int:
    """CLS, where the family has one."""
    if not prepared.positions[0].special:
        raise ChoiceError(
            f"{type(model).__name__} answers from all stretches of time, or at each; say whose view to explain: "
            'position=…, position="all" for each letter that is written, or position="mean" for that of all'
        )
    return 0


def _refuse_token_classifier(model: nn.Module) -> None:
    if has_head(model, "ForTokenClassification"):
        raise ChoiceError(
            "a token classifier gives one answer for each token; say which to explain: position=…, or "
            'position="entities" for each entity that it finds'
        )


_INSTEAD = (
    "explain a model of the same task that attends over all patches (ViT, DeiT, BEiT, DINOv2), or use Captum on it"
)


class Unfollowed(NamedTuple):
    """A row: which models, why they cannot be followed, and what works instead."""

    fits: Callable[[nn.Module, Any], bool]
    why: str
    instead: str


def check_followed(model: nn.Module) -> None:
    """Refuse what a row fits."""
    for row in _ROWS:
        if row.fits(model, model.config):
            raise CaptureError(f"{type(model).__name__} {row.why}; {row.instead}")


def _has_qformer(model: nn.Module, config: Any) -> bool:
    return hasattr(config, "qformer_config") and hasattr(config, "vision_config")


def _detects(model: nn.Module, config: Any) -> bool:
    """Encoder and decoder over the cells of a convolution's map, and queries that become objects."""
    reads_pixels = getattr(model, "main_input_name", "") == "pixel_values"
    return reads_pixels and hasattr(config, "num_queries") and hasattr(config, "decoder_layers")


_ROWS = (
    Unfollowed(
        _has_qformer,
        "reads a picture by a Q-Former: what stands in the text are learned queries, and no patches",
        "explain its tower, attnx.explain(model.vision_model, processor, picture), or a decoder that reads patches "
        "(LLaVA, PaliGemma, Qwen2-VL, SmolVLM)",
    ),
    Unfollowed(
        lambda model, config: is_dual_encoder(model) and not getattr(model, "can_generate", lambda: False)(),
        "holds pictures against texts, and answers to both together",
        "use attnx.explain_similarity(model, processor, picture, text), or explain one tower: "
        "attnx.explain(model.vision_model, processor, picture)",
    ),
    Unfollowed(
        lambda model, config: hasattr(config, "sr_ratios"),
        "attends to a smaller copy of the picture at every stage (SegFormer's layout), so its maps are not of patches "
        "over patches",
        _INSTEAD,
    ),
    Unfollowed(
        _detects,
        "finds objects by learned queries over the cells of a convolution's map (DETR's layout), which are no patches",
        _INSTEAD,
    ),
    Unfollowed(
        lambda model, config: hasattr(config, "num_latents") and hasattr(config, "d_latents"),
        "reads its input into learned latents (Perceiver), which attend to one another: they are no positions of it",
        "explain a model of the same task that attends over all positions (a ViT, a BERT), or use Captum on it",
    ),
)


ADAPTERS: Registry[Adapter] = Registry("adapter")


def register_adapter(adapter: Adapter) -> Adapter:
    """Add a family. A `model_type` that has an adapter already is an error, never an override.

    >>> register_adapter(list_adapters()["bert"])
    Traceback (most recent call last):
        ...
    attnx.errors.RegistryError: ...
    """
    return ADAPTERS.add(adapter.name, adapter)


def list_adapters() -> dict[str, Adapter]:
    """All adapters by name: `model_type` of a family; encoder, decoder, encoder_decoder, vision, image_text, sound for
    all others.

    >>> [name for name in list_adapters() if name in ("bert", "gpt2", "vit")]
    ['bert', 'gpt2', 'vit']
    """
    return {name: ADAPTERS[name] for name in ADAPTERS}


def adapter_for(model: nn.Module, module: str = "") -> Adapter:
    """The adapter of the model's `config.model_type`, or the generic one that fits its inputs and its attention.

    `module` is the stack that the caller chose, where a model has several; of an encoder–decoder that writes, the kind
    of levels that is followed.
    """
    config = getattr(model, "config", None)
    if config is None:
        raise CaptureError(
            f"{type(model).__name__} has no config, so it is no transformers model; use capture and a method by "
            "themselves: attnx.rollout(attnx.capture(model, **inputs))"
        )
    model_type = getattr(config, "model_type", "")
    if not module and model_type not in ADAPTERS:
        check_followed(model)
    several = getattr(config, "is_encoder_decoder", False) and _has_decoder(model)
    if several and _writes(model):
        adapter = ADAPTERS[config.model_type if config.model_type in ADAPTERS else "encoder_decoder"]
        return replace(adapter, module=_kind(model, module)) if module else adapter
    if several and not module:
        raise CaptureError(
            f"{type(model).__name__} is an encoder–decoder with several stacks of attention; explain one of them: "
            f"{_encoder_call(model)}{_lost(model)}"
        )
    adapter = ADAPTERS[model_type if model_type in ADAPTERS else _generic(model, config)]
    return replace(adapter, module=module) if module else adapter


def _kind(model: nn.Module, module: str) -> str:
    """The kind of levels that is asked for; another part of the model does not write, so nothing of it is explained."""
    if module in WRITING:
        return module
    known = ", ".join(f"module={name!r} ({told})" for name, told in WRITING.items())
    raise ChoiceError(
        f"module={module!r}: of {type(model).__name__} a token that it writes is explained, over the levels that write "
        f"it: {known}; or leave module out, for all levels, and give layer='cross 1' for one. How the encoder reads "
        f"the source is {_encoder_call(model)}"
    )


def _writes(model: nn.Module) -> bool:
    """Whether the decoder writes text of its own: a classifier's reads the source once more."""
    generates = getattr(model, "can_generate", lambda: False)()
    return generates and getattr(model, "main_input_name", "") in ("input_ids", "input_features")


def _has_decoder(model: nn.Module) -> bool:
    """The encoder alone, taken out of such a model, still carries the config of the whole."""
    return {"encoder", "decoder"} <= {name.rpartition(".")[2] for name, _ in model.named_modules()}


def _encoder_call(model: nn.Module) -> str:
    """How the encoder can be explained: by itself, if it takes what the model takes."""
    encoder = model.get_encoder() if hasattr(model, "get_encoder") else None  # type: ignore[operator]
    main = getattr(model, "main_input_name", "input_ids")
    if encoder is not None and main in signature(encoder.forward).parameters:
        sees, hears = accepts_images(encoder), accepts_audio(encoder)
        given = "processor, image" if sees else "processor, audio, position='mean'" if hears else "tokenizer, text"
        return f"attnx.explain(model.get_encoder(), {given})"
    name = next((name for name, _ in model.named_modules() if name.rpartition(".")[2] == "encoder"), "encoder")
    return f"attnx.explain(model, …, module={name!r})"


def _lost(model: nn.Module) -> str:
    """What the encoder alone does not tell: the answer is made behind the decoder."""
    if getattr(model, "base_model", model) is model:
        return ". With its language-model head (AutoModelForSeq2SeqLM) what it writes is explained, over both streams"
    return (
        f". That is how the encoder reads the input, and not the answer of {type(model).__name__}: its head is behind "
        "the decoder, so prediction, target and references are lost"
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
    """Whether the family writes text from left to right: it has a causal language model and no masked one."""
    from transformers.models.auto import modeling_auto

    if getattr(config, "is_decoder", False):
        return True
    if getattr(config, "is_encoder_decoder", False):
        return False
    has_causal = config.model_type in modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    return has_causal and config.model_type not in modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES


_MASKED: dict[str, Any] = {"prepare": prepare_text, "explained": mask_or_cls_position}
_WRITES: dict[str, Any] = {
    "prepare": prepare_prompt,
    "explained": last_position,
    "baseline": ("unk_token",),  # a mask is nothing that a decoder was trained on
}
_REWRITES: dict[str, Any] = {
    "prepare": prepare_encoder_decoder,
    "takes": frozenset({"target_text"}),
    "noun": "input",  # a text or sound
    "explained": last_decoder_position,
    "decoder_embeddings": decoder_embedding,
}
_HEARS: dict[str, Any] = {"prepare": prepare_audio, "explained": audio_position, "noun": "audio"}
_SEES_AND_WRITES: dict[str, Any] = {
    **_WRITES,
    "prepare": prepare_image_text,
    "noun": "input",
    "explained": last_text_position,
}
_SEES: dict[str, Any] = {
    "prepare": prepare_image,
    "takes": frozenset({"interpolate"}),
    "noun": "image",
    "explained": image_position,
}

for _row in (
    Adapter(name="bert", **_MASKED),
    Adapter(name="distilbert", **_MASKED),
    Adapter(name="gpt2", **_WRITES),
    Adapter(name="vit", **_SEES),
    # For all other models:
    Adapter(name="encoder", **_MASKED),
    Adapter(name="decoder", **_WRITES),
    Adapter(name="encoder_decoder", **_REWRITES),
    Adapter(name="vision", **_SEES),
    Adapter(name="audio", **_HEARS),
    Adapter(name="image_text", **_SEES_AND_WRITES),
):
    register_adapter(_row)
