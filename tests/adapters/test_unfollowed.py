"""Models of pictures without a map from patch to patch are refused in one sentence, with what works instead."""

from __future__ import annotations

import re

import numpy as np
import pytest
import transformers as hf
from PIL import Image

import attnx
from attnx.errors import CaptureError
from tests import zoo
from tests.two_towers import FAMILIES, Processor, two_towers

PICTURE = Image.fromarray(np.random.default_rng(3).integers(0, 255, (40, 60, 3), dtype=np.uint8))
BOTH = {"image": PICTURE, "text": "the key"}
VISION = {**zoo.WIDTH, "image_size": 32, "patch_size": 8}
LANGUAGE = {
    "vision_config": VISION,
    "qformer_config": {**zoo.WIDTH, "vocab_size": 60, "encoder_hidden_size": 32},
    "text_config": {"model_type": "opt", "vocab_size": 60, "word_embed_proj_dim": 32, "ffn_dim": 48, **zoo.WIDTH},
    "num_query_tokens": 4,
    "image_token_index": 50,
}
SWIN = {"image_size": 32, "patch_size": 2, "embed_dim": 16, "depths": [1, 1], "num_heads": [2, 2], "window_size": 4}
WINDOWS = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "image_size": 32,
    "patch_size": 4,
    "window_size": 4,
}


def detr():
    body = hf.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic", out_features=["stage2"]
    )
    size = {f"{part}_{name}": 48 for part in ("encoder", "decoder") for name in ("ffn_dim",)}
    heads = {"encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_layers": 1, "decoder_layers": 1}
    return hf.DetrForObjectDetection(
        hf.DetrConfig(
            d_model=32,
            num_queries=5,
            use_timm_backbone=False,
            use_pretrained_backbone=False,
            backbone=None,
            backbone_config=body,
            **size,
            **heads,
        )
    )


def segformer():
    return hf.SegformerForImageClassification(
        hf.SegformerConfig(
            num_encoder_blocks=2,
            depths=[1, 1],
            sr_ratios=[2, 1],
            hidden_sizes=[16, 32],
            num_attention_heads=[2, 4],
            patch_sizes=[7, 3],
            strides=[4, 2],
            mlp_ratios=[2, 2],
            decoder_hidden_size=16,
        )
    )


def perceiver():
    heads = {"num_self_attention_heads": 4, "num_cross_attention_heads": 4}
    return hf.PerceiverForImageClassificationLearned(
        hf.PerceiverConfig(
            num_latents=8, d_latents=32, num_blocks=1, num_self_attends_per_block=1, image_size=32, **heads
        )
    )


PLAIN = "explain a model of the same task that attends over all patches (ViT, DeiT, BEiT, DINOv2), or use Captum"
IN_WINDOWS = "attnx on a model of the same task that attends over all positions (of pictures ViT, DeiT, BEiT, DINOv2)"
TOWER = "attnx.explain(model.vision_model, processor, image)"
REFUSED = {
    "blip-2": (lambda: hf.Blip2ForConditionalGeneration(hf.Blip2Config(**LANGUAGE)), BOTH, ("a Q-Former", TOWER)),
    "instructblip": (
        lambda: hf.InstructBlipForConditionalGeneration(hf.InstructBlipConfig(**LANGUAGE)),
        BOTH,
        ("a Q-Former", TOWER, "LLaVA, PaliGemma"),
    ),
    "segformer": (segformer, PICTURE, ("a smaller copy of the image at every stage", PLAIN)),
    "detr": (detr, PICTURE, ("learned queries over the cells of a convolution's map", PLAIN)),
    "perceiver": (perceiver, PICTURE, ("learned latents (Perceiver)", "or use Captum on it")),
    "swin": (lambda: hf.SwinForImageClassification(hf.SwinConfig(**SWIN)), PICTURE, ("windows", IN_WINDOWS)),
    "swin 2": (lambda: hf.Swinv2Model(hf.Swinv2Config(**SWIN)), PICTURE, ("windows", IN_WINDOWS)),
    "vitdet": (
        lambda: hf.VitDetModel(hf.VitDetConfig(**WINDOWS, window_block_indices=[0])),
        PICTURE,
        ("in windows", IN_WINDOWS),
    ),
    "sam's tower": (
        lambda: hf.SamVisionModel(
            hf.SamVisionConfig(**WINDOWS, output_channels=16, global_attn_indexes=[1], num_pos_feats=8, mlp_dim=48)
        ),
        PICTURE,
        ("windows", IN_WINDOWS),
    ),
    **{
        family: (lambda family=family: two_towers(family), BOTH, ("attnx.explain_similarity(model, processor,", TOWER))
        for family in FAMILIES
    },
}


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_with_what_works_instead(name):
    made, given, said = REFUSED[name]
    processor = Processor() if given is BOTH else hf.ViTImageProcessor(size={"height": 32, "width": 32})
    with pytest.raises(CaptureError) as refused:
        attnx.explain(made().eval(), processor, given)
    for part in said:
        assert re.search(re.escape(part), str(refused.value)), refused.value


@pytest.mark.parametrize("name", ["blip-2", "instructblip", *FAMILIES])
def test_the_tower_that_is_offered_instead_is_explained(name):
    model = REFUSED[name][0]().eval()
    where = {"position": "mean"} if name == "siglip" else {}  # it has no CLS
    e = attnx.explain(model.vision_model, Processor(), PICTURE, methods="rollout", **where)
    assert len([one for one in e.positions if one.box is not None]) == 16


def test_who_names_a_stack_is_believed():
    e = attnx.explain(two_towers("clip").vision_model, Processor(), PICTURE, module="encoder", methods="rollout")
    assert len(e.positions) == 17
