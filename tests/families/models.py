"""A small model of any type, the same with eager attention, and an input that it runs on.

A config is made from its class alone: sizes are shrunk by what their names say they are.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from inspect import Parameter, signature
from typing import Any

import torch

VOCABULARY = 120
HEADS, KEY_HEADS, HEAD_WIDTH = 4, 2, 8
WIDTH = HEADS * HEAD_WIDTH
LAYERS = 2

SIZES: list[tuple[str, int]] = [
    # The first pattern that a name matches as a whole decides.
    (r"type_vocab_size|.*(dropout|loss|temperature).*", -1),
    (r".*codebook_size", 128),
    (r"rotary_dim", HEAD_WIDTH),
    (r".*vocab_size.*|vocabulary_size|n_codes|num_embeddings|.*vocab_size_per_layer_input", VOCABULARY),
    (r"image_token_index|.*token_index", 110),
    (r"first_k_dense_replace|moe_layer_start_index|num_dense_layers|.*nextn.*|num_hash_layers", 1),
    (r"(full_attention|global_attn_every|attn_layer|hybrid|attention_layer)\w*(interval|period|n_layers)", 2),
    (r"attn_layer_offset|expert_layer_offset", 1),
    (r".*shared_layers|num_kv_shared_layers", 0),
    (r".*(num_|n_)?(hidden_)?(layers|layer|blocks|depth)|.*layers|depth|n_block", LAYERS),
    (
        r".*(key_value|kv|_k_v|multi_query_group|n_head_kv|key|value)_?\w*heads?|num_kv_heads|multi_query_group_num",
        KEY_HEADS,
    ),
    (r"(swa_)?num_global_key_value_heads", KEY_HEADS),
    (r".*heads|n_heads?|.*_heads|.*nheads?|mamba_n_heads", HEADS),
    (
        r"qk_(rope|nope)_head_dim|v_head_dim|qk_head_dim|.*head_dim|.*head_width|.*head_size|d_kv|kv_channels",
        HEAD_WIDTH,
    ),
    (r".*lora_rank|.*low_rank_dim|lora_rank_\w+", 16),
    (r"num_experts_per_tok|top_?k|moe_k|.*top_k(_experts)?|moe_topk|num_selected_experts", 2),
    (r"n_group|topk_group|n_groups|mamba_n_groups|num_groups|.*n_groups", 1),
    (r".*n_routed_experts|.*num_\w*experts|num_local_experts|moe_num_experts", 4),
    (r".*(state_size|d_state|ssm_state)", 8),
    (r"n_shared_experts|num_shared_experts", 1),
    (r"(crop_)?(image|img)_size|input_size|.*image_size", 32),
    (r"(temporal|spatial)_(patch|merge)_size|tubelet_size", -1),
    (r"patch_size|encoder_stride|pretrain_image_size", 8),
    (r"max_source_positions", 20),
    (r"(n_ctx|n_positions|max_(target_)?position\w*|max_seq_len\w*|max_sequence_length|seq_length)", 64),
    (r"(sliding|local|attention)_?(window|attention)(_size)?|window_size|.*chunk_size|attention_window", 4),
    (
        r"(moe_|shared_expert_|expert_)?intermediate_(size|dim)\w*|.*(ffn|ff|mlp|feedforward|ffw)_?\w*dim\w*|d_ff|ffn\w*size",
        48,
    ),
    (r"hidden_dim|n_inner|.*intermediate\w*size", 48),
    (
        r".*(hidden|embedding|embed|projection|word_embed_proj|pooler_output|output)_?(size|dim|dims)|d_model|n_embd",
        WIDTH,
    ),
    (
        r"dim|.*embed_dim|emb_dim|bottleneck_size|mamba_d_ssm|.*hidden_size\w*|d_embed|.*_embed_dim|lru_width|projection_dim",
        WIDTH,
    ),
    (r"num_mel_bins|feature_size", 16),
    (r"num_queries|num_latents|query_length|num_query_tokens", 6),
]
"""Names of sizes, and how large they become; −1 leaves one as it is."""


PARTICULAR: list[tuple[str, dict[str, Any]]] = [
    # What no rule of sizes can know, by model type.
    (r"(qwen2(_5)?_vl|paddleocr_vl|glm4v|glm46v|glm_image|glm_ocr|glmga|qwen2_5_omni\w*)(_text)?", {"rope": [2, 1, 1]}),
    (r"cosmos3_edge(_text)?", {"rope": [2, 1, 1]}),
    (r"glm4v_moe(_text)?", {"rope": [1, 1, 0]}),
    (r"gpt_neo", {"attention_types": [[["global", "local"], 1]]}),
    (r"bamba", {"attn_layer_indices": [1]}),
    (r"fsmt", {"decoder": {"vocab_size": VOCABULARY}}),
    (r"esm", {"vocab_size": VOCABULARY, "pad_token_id": 1, "mask_token_id": 4}),
    (r"hunyuan_\w+|ministral", {"head_dim": HEAD_WIDTH}),
    (r"swin|swinv2|donut-swin|maskformer-swin", {"embed_dim": 48, "patch_size": 2, "window_size": 4}),
    (r"step3p5|step3p7", {"sliding_window": 4}),
    (r"zamba2?", {"layers_block_type": ["mamba", "hybrid"]}),
    (r"lfm2_moe", {"layer_types": ["conv", "full_attention"]}),
    (r"granitemoehybrid", {"layer_types": ["mamba", "attention"]}),
    (r"deepseek_v2", {"num_experts_per_tok": 2, "topk_group": 1, "n_group": 1}),
    (r"seggpt", {"merge_index": 0, "intermediate_hidden_state_indices": [1], "image_size": [32, 16]}),
    (r"mamba2", {"expand": 1}),
    (r"yolos", {"image_size": [32, 32]}),
]
"""Options for model types whose names match."""


def small_config(kind: type, **chosen: Any) -> Any:
    """A config of the class with small sizes, its parts made small alike."""
    default = kind()
    options = {**_small_options(kind), **_small_parts(kind, default), **_particular(default), **chosen}
    config = kind(**options)
    _shorten(config, default)
    return config


def _particular(default: Any) -> dict[str, Any]:
    for pattern, options in PARTICULAR:
        if re.fullmatch(pattern, default.model_type):
            if "rope" not in options:
                return options
            return {"rope_parameters": {**(_rope(default) or {}), "mrope_section": options["rope"]}}
    return {}


def _rope(default: Any) -> dict[str, Any]:
    rope: dict[str, Any] = getattr(default, "rope_parameters", None) or {"rope_type": "default", "rope_theta": 10000.0}
    return rope


def _small_options(kind: type) -> dict[str, Any]:
    options: dict[str, Any] = {}
    takes = inspect.signature(kind.__init__).parameters  # type: ignore[misc]
    for name, parameter in takes.items():
        value = parameter.default
        if isinstance(value, bool) or not isinstance(value, int):
            continue
        size = _size(name)
        if name.endswith("token_id") and value >= VOCABULARY:
            options[name] = VOCABULARY - 1 - sum(map(ord, name)) % 15
        elif size is not None and value > 0 and value > size:
            options[name] = size
    if "kv_lora_rank" in takes and "num_key_value_heads" in options:
        options["num_key_value_heads"] = HEADS  # keys come from one compressed state, for every head its own
    return options


def _size(name: str) -> int | None:
    for pattern, size in SIZES:
        if re.fullmatch(pattern, name):
            return None if size < 0 else size
    return None


def _small_parts(kind: type, default: Any) -> dict[str, Any]:
    parts = {}
    for name in getattr(kind, "sub_configs", {}):
        part = getattr(default, name, None)
        if part is not None and hasattr(part, "to_dict"):
            made = small_config(type(part))
            parts[name] = made.to_dict() | {"model_type": made.model_type}
    return parts


def _shorten(config: Any, default: Any) -> None:
    """Lists with an entry for each layer have both kinds of layers, where there are two."""
    for name, value in list(vars(default).items()):
        if re.fullmatch(r"layer_types|layers_block_type|\w*_layer_types", name) and isinstance(value, list):
            own = getattr(config, name) or []
            if len(own) != LAYERS or not any(_attends(one) for one in own):
                setattr(config, name, _both_kinds(value))


def _both_kinds(types: list[str]) -> list[str]:
    """Two layers: one of a kind that is not attention, if there is one, below one that is."""
    attention = [one for one in types if _attends(one)] or types
    other = next(
        (one for one in types if one not in attention), next((one for one in types if one != attention[0]), "")
    )
    return [other or attention[0], attention[0]]


def _attends(kind: str) -> bool:
    return ("attention" in kind or kind == "hybrid") and "linear" not in kind


LENGTH = 9
SIDE = 4
"""Patches of an image, where they are inputs in a row."""


def inputs_for(model: Any) -> Iterator[dict[str, torch.Tensor]]:
    """Keyword arguments that the model may run on, the likeliest first."""
    takes = signature(model.forward).parameters
    main = getattr(model, "main_input_name", "input_ids")
    text, signals = {}, [name for name in (main,) if name in takes and name != "input_ids"]
    if "input_ids" in takes and (main == "input_ids" or "decoder_input_ids" not in takes):
        text = _text(set(takes))
    needed = [
        name for name, one in takes.items() if one.default is Parameter.empty and one.kind is one.POSITIONAL_OR_KEYWORD
    ]
    signals += [name for name in needed if name not in (*text, *signals)]
    if "pixel_values" in takes and "pixel_values" not in signals and _reads_both(model.config):
        signals.append("pixel_values")
    if not text and not signals and "inputs_embeds" in takes:
        signals.append("inputs_embeds")
    if "grid_thw" in takes:
        yield _patches_of_a_grid(model)
    if "spatial_shapes" in takes:
        yield _patches_of_a_shape(model.config)
    yield {**text, **{name: _shaped(name, model.config)[0] for name in signals}}
    for name in signals:
        for other in _shaped(name, model.config)[1:]:
            yield {**text, **{one: other if one == name else _shaped(one, model.config)[0] for one in signals}}


def _text(takes: set[str]) -> dict[str, torch.Tensor]:
    ids = torch.randint(5, 90, (1, LENGTH), generator=torch.Generator().manual_seed(1))
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "bbox": torch.zeros(1, LENGTH, 4).long()}
    return {name: value for name, value in inputs.items() if name in takes}


def _reads_both(config: Any) -> bool:
    """Whether a text and an image go in side by side; where an image token is known, images go into the text."""
    tokens = any(hasattr(config, name) for name in ("image_token_id", "image_token_index", "boi_token_id"))
    return hasattr(config, "text_config") and hasattr(config, "vision_config") and not tokens


def _patches_of_a_grid(model: Any) -> dict[str, torch.Tensor]:
    """Patches in a row, as the vision towers of Qwen's kind take them."""
    config = model.config
    width = _channels(config) * getattr(config, "temporal_patch_size", 1) * config.patch_size**2
    first = next(iter(signature(model.forward).parameters))
    return {first: _drawn(SIDE * SIDE, width), "grid_thw": torch.tensor([[1, SIDE, SIDE]])}


def _patches_of_a_shape(config: Any) -> dict[str, torch.Tensor]:
    """Patches in a row, as those of SigLIP 2's kind take them."""
    return {
        "pixel_values": _drawn(1, SIDE * SIDE, _channels(config) * config.patch_size**2),
        "pixel_attention_mask": torch.ones(1, SIDE * SIDE, dtype=torch.long),
        "spatial_shapes": torch.tensor([[SIDE, SIDE]]),
    }


def _shaped(name: str, config: Any) -> list[torch.Tensor]:
    """Pixels, sound or states in the shapes that the config allows."""
    if name.startswith("pixel_values"):
        size = getattr(config, "image_size", None) or getattr(getattr(config, "vision_config", None), "image_size", 32)
        size = tuple(size) if isinstance(size, (tuple, list)) else (size, size)
        frames = getattr(config, "num_frames", None) or getattr(config, "frames_per_clip", None) or 2
        still, moving = (1, _channels(config), *size), (1, frames, _channels(config), *size)
        shapes = [moving, still] if hasattr(config, "num_frames") else [still, moving]
    elif name in ("input_features", "input_values"):
        bins = _first(config, "feature_projection_input_dim", "num_mel_bins", "input_feat_per_channel", "feature_size")
        positions = getattr(config, "max_source_positions", None) or 16
        spectra = [(1, 24, bins), (1, bins, 2 * positions), (1, bins, 24), (1, 1, 24, bins)]
        if hasattr(config, "frequency_stride"):
            spectra.insert(0, (1, config.max_length, bins))
        shapes = (
            [*spectra, (1, 4000)]
            if name == "input_features" or len(spectra) > 4
            else [(1, 4000), (1, 1, 4000), *spectra]
        )
    elif name.endswith(("ids", "id")):
        return [torch.randint(5, 90, (1, LENGTH), generator=torch.Generator().manual_seed(1))]
    else:
        width = _first(config, "hidden_size", "d_model", "embed_dim")
        shapes = [(1, LENGTH, width), (LENGTH, width)]
    return [_drawn(*shape) for shape in shapes]


def _first(config: Any, *names: str) -> int:
    return next((value for name in names if isinstance(value := getattr(config, name, None), int)), 16)


def _channels(config: Any) -> int:
    return int(getattr(config, "in_channels", None) or getattr(config, "num_channels", None) or 3)


def _drawn(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(1))


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
    for inputs in inputs_for(model):
        try:
            with torch.no_grad():
                model(**inputs)
            return inputs
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
