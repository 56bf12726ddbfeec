"""A hand-made decoder that looks at what is white: paint one patch, and exactly its box lights."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import transformers as hf
from PIL import Image

import attnx
from attnx.views.image import heat
from tests import pictures_with_text as zoo
from tests.adapters.test_picture_and_text import llava_next_processor, llava_processor

WIDTH = 32
ONE_LAYER = {"hidden_size": WIDTH, "intermediate_size": 48, "num_attention_heads": 4, "num_hidden_layers": 1}


def looking_at_white(kind, config, **more):
    """All weights are next to 0 but for those on one way: white pixels → number 0 of an image token → keys of the text.

    A patch is +v where it is white and −v where half of it is black, whatever a norm makes of it. The projector lets
    only the first through. Every query asks for it, along the pair of numbers that place turns least.
    """
    model = kind(
        config(
            vision_config=hf.CLIPVisionConfig(**ONE_LAYER, image_size=32, patch_size=8),
            text_config=hf.LlamaConfig(**ONE_LAYER, num_key_value_heads=4, vocab_size=zoo.VOCABULARY, **zoo.ENDS),
            image_token_index=zoo.IMAGE,
            vision_feature_layer=-1,
            **more,
        )
    ).eval()
    with torch.no_grad():
        for name, one in model.named_parameters():
            one.fill_(1.0) if "norm" in name and name.endswith("weight") else one.normal_(0, 1e-4)
        inner = model.model
        tower = getattr(inner.vision_tower, "vision_model", inner.vision_tower)  # one more level once
        patches = tower.embeddings.patch_embedding.weight
        patches[0], patches[1] = 1.0, -1.0
        tower.embeddings.class_embedding[:2] = torch.tensor([-1.0, 1.0])
        tower.embeddings.position_embedding.weight[:, :2] = torch.tensor([-200.0, 200.0])
        inner.multi_modal_projector.linear_1.weight[0, 0] = 1.0
        inner.multi_modal_projector.linear_2.weight[0, 0] = 10.0
        inner.multi_modal_projector.linear_2.bias[1] = 1.0
        inner.language_model.embed_tokens.weight[:, 2] = 1.0
        attention = inner.language_model.layers[0].self_attn
        slowest = WIDTH // 4 // 2 - 1
        attention.q_proj.weight[slowest :: WIDTH // 4, 2] = 8.0
        attention.k_proj.weight[slowest :: WIDTH // 4, 0] = 8.0
    return model


CASES = {
    "cropped, not square": (hf.LlavaForConditionalGeneration, hf.LlavaConfig, {}, llava_processor, (64, 32)),
    "tiles beside the whole": (
        hf.LlavaNextForConditionalGeneration,
        hf.LlavaNextConfig,
        {"image_grid_pinpoints": [[32, 64], [64, 32]]},
        llava_next_processor,
        (64, 32),
    ),
    "tiles upon each other": (
        hf.LlavaNextForConditionalGeneration,
        hf.LlavaNextConfig,
        {"image_grid_pinpoints": [[32, 64], [64, 32]]},
        llava_next_processor,
        (32, 64),
    ),
}


@pytest.mark.parametrize("case", list(CASES))
@pytest.mark.parametrize("box", [(24, 0, 32, 8), (16, 24, 24, 32)])
def test_exactly_the_box_that_was_painted_lights(case, box):
    kind, config, more, processor, size = CASES[case]
    left, top, right, bottom = box
    shades = np.zeros((size[1], size[0], 3), np.uint8)
    shades[top:bottom, left:right] = 255
    given = {"image": Image.fromarray(shades), "text": "<image> what is there ?"}
    e = attnx.explain(
        looking_at_white(kind, config, **more), processor(), given, methods=("raw", "rollout"), residual=0.0
    )
    best = e.positions[int(e["raw"][-1].argmax())]
    assert tuple(round(edge, 3) for edge in best.box) == box
    assert e["raw"][-1].max() > 0.99
    heated = heat(e, e["raw"][-1], smooth=False)
    lit = np.nan_to_num(heated) > 0.5 * np.nanmax(heated)
    expected = np.zeros_like(lit)
    expected[top:bottom, left:right] = True
    np.testing.assert_array_equal(lit, expected)
