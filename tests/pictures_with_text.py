"""A zoo of decoders that read a picture and a text in one sequence: a row a family, each a tiny random model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
import transformers as hf

VOCABULARY, IMAGE = 60, 50
WIDE = {"hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 4}
TEXT = {**WIDE, "num_hidden_layers": 2, "num_key_value_heads": 2, "vocab_size": VOCABULARY}
ENDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
ROPE = {"rope_type": "default", "mrope_section": [1, 1, 2], "rope_theta": 10000.0}


def _llama() -> Any:
    return hf.LlamaConfig(**TEXT, **ENDS)


def _clip(layers: int = 3) -> Any:
    return hf.CLIPVisionConfig(**WIDE, num_hidden_layers=layers, image_size=32, patch_size=8)


def _siglip() -> Any:
    return hf.SiglipVisionConfig(**WIDE, num_hidden_layers=2, image_size=32, patch_size=8, vision_use_head=False)


def _text(*images: int) -> dict[str, Any]:
    """A begin token, then so many image tokens and two words for each picture."""
    ids = [1] + [one for count in images for one in [IMAGE] * count + [7, 9]]
    return {"input_ids": torch.tensor([ids]), "attention_mask": torch.ones(1, len(ids), dtype=torch.long)}


def _pixels(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(3))


def _qwen(config: Any, vision: Any, model: Any) -> Any:
    text = {**TEXT, "rope_parameters" if int(hf.__version__.split(".")[0]) >= 5 else "rope_scaling": ROPE, **ENDS}
    return model(
        config(
            text_config=text,
            vision_config=vision,
            image_token_id=IMAGE,
            video_token_id=51,
            vision_start_token_id=52,
            vision_end_token_id=53,
        )
    )


def _grid(*grids: tuple[int, int]) -> dict[str, Any]:
    """Rows of patches, four of which are merged, of pictures of so many rows and columns."""
    given = _text(*(rows * columns // 4 for rows, columns in grids))
    return {
        **given,
        "mm_token_type_ids": (given["input_ids"] == IMAGE).long(),
        "pixel_values": _pixels(sum(rows * columns for rows, columns in grids), 3 * 2 * 4 * 4),
        "image_grid_thw": torch.tensor([[1, *one] for one in grids]),
    }


@dataclass(frozen=True)
class Family:
    """How a tiny model is made, what it is given, and what is known of its projector."""

    model: Callable[[], Any]
    inputs: Callable[[], dict[str, Any]]
    merged: int
    """Patches that an image token reads."""
    own: int = 0
    """Tokens of the tower's own, before the patches of each sheet."""


FAMILIES: dict[str, Family] = {
    "llava": Family(
        lambda: hf.LlavaForConditionalGeneration(
            hf.LlavaConfig(vision_config=_clip(), text_config=_llama(), image_token_index=IMAGE)
        ),
        lambda: {**_text(16), "pixel_values": _pixels(1, 3, 32, 32)},
        1,
        1,
    ),
    "llava, two pictures": Family(
        lambda: hf.LlavaForConditionalGeneration(
            hf.LlavaConfig(vision_config=_clip(), text_config=_llama(), image_token_index=IMAGE)
        ),
        lambda: {**_text(16, 16), "pixel_values": _pixels(2, 3, 32, 32)},
        1,
        1,
    ),
    "llava_next": Family(
        lambda: hf.LlavaNextForConditionalGeneration(
            hf.LlavaNextConfig(
                vision_config=_clip(), text_config=_llama(), image_token_index=IMAGE, image_grid_pinpoints=[[32, 64]]
            )
        ),
        # The whole in 16, two tiles beside each other in 4 × 8, and a new line behind each of the 4 rows.
        lambda: {
            **_text(16 + 32 + 4),
            "pixel_values": _pixels(1, 3, 3, 32, 32),
            "image_sizes": torch.tensor([[32, 64]]),
        },
        1,
        1,
    ),
    "llava_onevision": Family(
        lambda: hf.LlavaOnevisionForConditionalGeneration(
            hf.LlavaOnevisionConfig(
                vision_config=_siglip(),
                text_config=hf.Qwen2Config(**TEXT, **ENDS),
                image_token_index=IMAGE,
                video_token_index=51,
                image_grid_pinpoints=[[32, 64]],
            )
        ),
        lambda: {
            **_text(16 + 32 + 4 + 0),
            "pixel_values": _pixels(1, 3, 3, 32, 32),
            "image_sizes": torch.tensor([[32, 64]]),
        },
        1,
    ),
    "paligemma": Family(
        lambda: hf.PaliGemmaForConditionalGeneration(
            hf.PaliGemmaConfig(
                vision_config=_siglip(),
                text_config=hf.GemmaConfig(**TEXT, head_dim=8, **ENDS),
                image_token_index=IMAGE,
                projection_dim=32,
                hidden_size=32,
            )
        ),
        lambda: {
            **_text(16),
            "token_type_ids": torch.zeros(1, 19, dtype=torch.long),
            "pixel_values": _pixels(1, 3, 32, 32),
        },
        1,
    ),
    "qwen2_vl": Family(
        lambda: _qwen(
            hf.Qwen2VLConfig,
            {"depth": 2, "embed_dim": 32, "hidden_size": 32, "num_heads": 4, "patch_size": 4, "mlp_ratio": 2},
            hf.Qwen2VLForConditionalGeneration,
        ),
        lambda: _grid((4, 6)),
        4,
    ),
    "qwen2_vl, two pictures": Family(
        lambda: _qwen(
            hf.Qwen2VLConfig,
            {"depth": 2, "embed_dim": 32, "hidden_size": 32, "num_heads": 4, "patch_size": 4, "mlp_ratio": 2},
            hf.Qwen2VLForConditionalGeneration,
        ),
        lambda: _grid((4, 6), (2, 4)),
        4,
    ),
    "qwen2_5_vl": Family(
        lambda: _qwen(
            hf.Qwen2_5_VLConfig,
            {
                "depth": 2,
                "hidden_size": 32,
                "intermediate_size": 48,
                "num_heads": 4,
                "patch_size": 4,
                "out_hidden_size": 32,
                "window_size": 16,
                "fullatt_block_indexes": [1],
            },
            hf.Qwen2_5_VLForConditionalGeneration,
        ),
        lambda: _grid((8, 6)),
        4,
    ),
    "idefics3": Family(
        lambda: hf.Idefics3ForConditionalGeneration(
            hf.Idefics3Config(
                vision_config={**WIDE, "num_hidden_layers": 2, "image_size": 32, "patch_size": 8},
                text_config=_llama(),
                image_token_id=IMAGE,
                scale_factor=2,
                **ENDS,
            )
        ),
        lambda: {
            **_text(4, 4, 4),
            "pixel_values": _pixels(1, 3, 3, 32, 32),
            "pixel_attention_mask": torch.ones(1, 3, 32, 32, dtype=torch.bool),
        },
        4,
    ),
    "smolvlm": Family(
        lambda: hf.SmolVLMForConditionalGeneration(
            hf.SmolVLMConfig(
                vision_config={**WIDE, "num_hidden_layers": 2, "image_size": 32, "patch_size": 8},
                text_config=_llama(),
                image_token_id=IMAGE,
                scale_factor=2,
                **ENDS,
            )
        ),
        lambda: {
            **_text(4, 4, 4),
            "pixel_values": _pixels(1, 3, 3, 32, 32),
            "pixel_attention_mask": torch.ones(1, 3, 32, 32, dtype=torch.bool),
        },
        4,
    ),
    "internvl": Family(
        lambda: hf.InternVLForConditionalGeneration(
            hf.InternVLConfig(
                vision_config=hf.InternVLVisionConfig(
                    **WIDE, num_hidden_layers=2, image_size=[32, 32], patch_size=[8, 8]
                ),
                text_config=hf.Qwen2Config(**TEXT, **ENDS),
                image_token_id=IMAGE,
                image_seq_length=4,
            )
        ),
        lambda: {**_text(4, 4), "pixel_values": _pixels(2, 3, 32, 32)},
        4,
        1,
    ),
}


@cache
def model(family: str) -> Any:
    torch.manual_seed(5)
    return FAMILIES[family].model().eval()
