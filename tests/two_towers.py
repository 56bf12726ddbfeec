"""A zoo of models that hold pictures against texts: a row a family, each a tiny random model in double precision."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
import transformers as hf

from tests import zoo

TOKENIZER = zoo.wordpiece_tokenizer()
TEXT = {
    **zoo.WIDTH,
    "vocab_size": len(TOKENIZER),
    "max_position_embeddings": 16,
    "pad_token_id": TOKENIZER.pad_token_id,
    "bos_token_id": TOKENIZER.cls_token_id,
    "eos_token_id": TOKENIZER.sep_token_id,
}
VISION = {**zoo.WIDTH, "image_size": 32, "patch_size": 8}

FAMILIES: dict[str, Callable[[], Any]] = {
    "clip": lambda: hf.CLIPModel(hf.CLIPConfig(text_config=TEXT, vision_config=VISION, projection_dim=24)),
    "siglip": lambda: hf.SiglipModel(hf.SiglipConfig(text_config=TEXT, vision_config=VISION)),
    "blip": lambda: hf.BlipForImageTextRetrieval(
        hf.BlipConfig(
            text_config={**TEXT, "encoder_hidden_size": 32, "sep_token_id": TOKENIZER.sep_token_id},
            vision_config=VISION,
            image_text_hidden_size=24,
        )
    ),
}


class Processor:
    """As transformers' processors of both: a tokenizer, and an image processor that crops."""

    tokenizer = TOKENIZER
    image_processor = hf.CLIPImageProcessor(size={"shortest_edge": 32}, crop_size=32)


@cache
def two_towers(family: str, attention: str = "sdpa") -> Any:
    """The model of a family; its weights are large enough that patches and words matter."""
    torch.manual_seed(7)
    made = FAMILIES[family]()
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            if parameter.ndim >= 2 or "class_embedding" in name:
                parameter.normal_(0, 0.3)
    return zoo.grad_mode(made, attention).double().eval()


def token_table(model: Any) -> Any:
    """The module that embeds the text's tokens, which older versions of some stacks do not name."""
    stack = model.text_encoder if hasattr(model, "text_encoder") else model.text_model
    asked = getattr(stack, "get_input_embeddings", None)
    return stack.embeddings.token_embedding if asked is None else asked()
