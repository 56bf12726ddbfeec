"""Trains a small Llama to recall; the same seed gives the same model on the same machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

from attnx.demo_models.hub import BEGIN, END, PAD
from attnx.demo_models.recall import ENTRIES, FEWEST, KEYS, MOST, POSITIONS, VALUES, build_tokenizer, draw, generate
from examples.training.loop import Report, SmallRecipe, one_cycle

_NO_LABEL = -100
"""What cross-entropy leaves out."""
_EMBEDDED = 5.0
"""Words begin about as large as what a layer adds to them. Smaller ones are lost in it, and with them which key a value
stands behind: the model then takes several times the steps."""


@dataclass(frozen=True)
class Recipe(SmallRecipe):
    growing: float = 0.5
    """Share of the steps in which texts grow from the fewest pairs to the most: short ones are learnt first."""


def train(recipe: Recipe | None = None, *, report: Report | None = None) -> Any:
    """A trained model in evaluation mode. `report` is called with every step and its loss."""
    recipe = recipe or Recipe()

    def loss_of(model: Any, step: int, random: np.random.Generator) -> Tensor:
        grown = min(1.0, step / (recipe.growing * recipe.steps))
        most = FEWEST + round(grown * (MOST - FEWEST))
        tokens, labels = lesson(recipe.batch, int(random.integers(FEWEST, most + 1)), random)
        return F.cross_entropy(model(input_ids=tokens).logits.flatten(0, 1), labels.flatten())

    return one_cycle(recipe, lambda: _new(recipe), loss_of, betas=(0.9, 0.95), report=report)


def _new(recipe: Recipe) -> Any:
    model: Any = LlamaForCausalLM(_config(recipe))
    with torch.no_grad():
        model.model.embed_tokens.weight.mul_(_EMBEDDED)
    return model


def lesson(batch: int, pairs: int, random: np.random.Generator) -> tuple[Tensor, Tensor]:
    """Texts and what must follow each of their tokens, both batch × tokens.

    Keys are asked one after the other, and again: if none came twice, what is left would tell the last ones. An asked
    key is followed by its value, and that by the end. Nothing is learnt of what no text decides, the pairs themselves.
    """
    keys, values = draw(batch, pairs, random)
    order = random.integers(pairs, size=(batch, pairs))
    asked = [np.take_along_axis(one, order, 1) for one in (keys, values)]
    begin, end, first_key, first_value = (ENTRIES.index(name) for name in (BEGIN, END, KEYS[0], VALUES[0]))
    array, answered = (
        np.stack([key + first_key, value + first_value], -1).reshape(batch, -1)
        for key, value in ((keys, values), asked)
    )
    tokens = np.concatenate([np.full((batch, 1), begin), array, answered], 1)
    labels = np.full_like(tokens, _NO_LABEL)
    labels[:, 1 + 2 * pairs :: 2] = answered[:, 1::2]
    labels[:, 2 + 2 * pairs :: 2] = end
    return torch.from_numpy(tokens), torch.from_numpy(labels)


def accuracy(model: Any, *, count: int = 2000, seed: int = 10_000) -> float:
    """The share of new texts that are gone on with the right value."""
    tokenizer = build_tokenizer()
    texts = generate(count, seed=seed)
    right = 0
    for length in {len(text.text.split()) for text in texts}:
        several = [text for text in texts if len(text.text.split()) == length]
        tokens = tokenizer([recall.text for recall in several], return_tensors="pt")["input_ids"]
        with torch.no_grad():
            found = model(input_ids=tokens).logits[:, -1].argmax(-1)
        right += sum(ENTRIES[int(one)] == text.answer for one, text in zip(found, several, strict=True))
    return right / count


def _config(recipe: Recipe) -> LlamaConfig:
    return LlamaConfig(
        vocab_size=len(ENTRIES),
        hidden_size=recipe.width,
        intermediate_size=2 * recipe.width,
        num_hidden_layers=recipe.layers,
        num_attention_heads=recipe.heads,
        initializer_range=0.1,
        max_position_embeddings=POSITIONS,
        pad_token_id=ENTRIES.index(PAD),
        bos_token_id=ENTRIES.index(BEGIN),
        eos_token_id=ENTRIES.index(END),
    )
