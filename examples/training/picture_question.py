"""Trains a small LLaVA to answer questions about pictures; the same seed gives the same model on the same machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import CLIPVisionConfig, LlamaConfig, LlavaConfig, LlavaForConditionalGeneration

from attnx.demo_models.hub import BEGIN, END, PAD
from attnx.demo_models.picture_question import (
    DEVIATION,
    ENTRIES,
    GRID,
    IMAGE,
    MEAN,
    PATCH,
    POSITIONS,
    SIDE,
    PictureQuestion,
    draw,
    generate,
)
from examples.training.loop import Report, SmallRecipe, one_cycle

_NO_LABEL = -100
"""What cross-entropy leaves out."""
_EMBEDDED, _PLACED, _PROJECTED = 5.0, 10.0, 8.0
"""Words, the places of patches, and patches behind the projector begin about as large as what a layer adds to them.
Smaller ones are lost in it, and with them what was asked for, and what there is: the model then learns next to nothing
in these steps."""
_AT_ONCE = 250
"""Questions that are answered together."""


@dataclass(frozen=True)
class Recipe(SmallRecipe):
    steps: int = 3000
    batch: int = 32
    learning_rate: float = 2e-3
    tower: int = 2
    """Layers of the part that reads the picture; `layers` are the decoder's."""


def train(recipe: Recipe | None = None, *, report: Report | None = None) -> Any:
    """A trained model in evaluation mode. `report` is called with every step and its loss."""
    recipe = recipe or Recipe()

    def loss_of(model: Any, step: int, random: np.random.Generator) -> Tensor:
        loss: Tensor = model(**lesson([draw(random) for _ in range(recipe.batch)])).loss
        return loss

    return one_cycle(recipe, lambda: _new(recipe), loss_of, betas=(0.9, 0.95), report=report)


def _new(recipe: Recipe) -> Any:
    model: Any = LlavaForConditionalGeneration(_config(recipe))
    with torch.no_grad():
        model.model.language_model.embed_tokens.weight.mul_(_EMBEDDED)
        tower = model.model.vision_tower
        getattr(tower, "vision_model", tower).embeddings.position_embedding.weight.mul_(_PLACED)  # one more level once
        for linear in (model.model.multi_modal_projector.linear_1, model.model.multi_modal_projector.linear_2):
            linear.weight.mul_(_PROJECTED)
    return model


def lesson(picture_questions: Sequence[PictureQuestion]) -> dict[str, Tensor]:
    """What the model is given for these questions: pictures, texts with their answers, and what is to be written.

    It is what the processor makes of them, which would take longer than the model does.
    """
    texts = [(BEGIN, *[IMAGE] * GRID**2, *one.question.split(), *one.answer.split(), END) for one in picture_questions]
    length = max(map(len, texts))
    ids = np.full((len(picture_questions), length), ENTRIES.index(PAD))
    labels = np.full((len(picture_questions), length), _NO_LABEL)
    for row, (picture_question, text) in enumerate(zip(picture_questions, texts, strict=True)):
        ids[row, : len(text)] = [ENTRIES.index(word) for word in text]
        written = slice(len(text) - len(picture_question.answer.split()) - 1, len(text))
        labels[row, written] = ids[row, written]
    shades = np.stack([np.asarray(one.image) for one in picture_questions]) / 255
    pixels = ((shades - MEAN) / DEVIATION).transpose(0, 3, 1, 2)
    return {
        "input_ids": torch.from_numpy(ids),
        "attention_mask": torch.from_numpy(ids != ENTRIES.index(PAD)).long(),
        "pixel_values": torch.from_numpy(pixels).float(),
        "labels": torch.from_numpy(labels),
    }


def accuracy(model: Any, *, count: int = 2000, seed: int = 10_000) -> float:
    """The share of new questions whose answer is written right, with the end behind it."""
    questions = generate(count, seed=seed)
    right = 0
    for start in range(0, count, _AT_ONCE):
        given = lesson(questions[start : start + _AT_ONCE])
        labels = given.pop("labels")
        with torch.no_grad():
            found = model(**given).logits[:, :-1].argmax(-1)
        right += int(((found == labels[:, 1:]) | (labels[:, 1:] == _NO_LABEL)).all(-1).sum())
    return right / count


def _config(recipe: Recipe) -> LlavaConfig:
    tokens: dict[str, Any] = {
        f"{role}_token_id": ENTRIES.index(token) for role, token in (("pad", PAD), ("bos", BEGIN), ("eos", END))
    }
    width: dict[str, Any] = {
        "hidden_size": recipe.width,
        "intermediate_size": 2 * recipe.width,
        "num_attention_heads": recipe.heads,
    }
    return LlavaConfig(
        vision_config=CLIPVisionConfig(
            image_size=SIDE, patch_size=PATCH, num_hidden_layers=recipe.tower, projection_dim=recipe.width, **width
        ),
        text_config=LlamaConfig(
            vocab_size=len(ENTRIES),
            num_hidden_layers=recipe.layers,
            max_position_embeddings=POSITIONS,
            initializer_range=0.1,
            **width,
            **tokens,
        ),
        image_token_index=ENTRIES.index(IMAGE),
        vision_feature_layer=-1,
        **tokens,
    )
