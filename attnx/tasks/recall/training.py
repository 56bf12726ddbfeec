"""Trains a small Llama to recall; the same seed gives the same model on the same machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

from attnx.errors import InputError
from attnx.tasks.recall.checkpoint import ENTRIES, POSITIONS, build_tokenizer
from attnx.tasks.recall.generator import FEWEST, KEYS, MOST, VALUES, draw, generate
from attnx.tasks.word_tokenizer import BEGIN, END, PAD

_NO_LABEL = -100
"""What cross-entropy leaves out."""
_SHARPNESS = 5.0
"""Of the look at the word before: its neighbours get a tenth of what it gets."""


@dataclass(frozen=True)
class Recipe:
    """Everything that the result depends on."""

    seed: int = 0
    steps: int = 3000
    batch: int = 64
    learning_rate: float = 3e-3
    warmup: float = 0.1
    """Share of the steps in which the learning rate rises."""
    growing: float = 0.5
    """Share of the steps in which texts grow from the fewest pairs to the most: short ones are learnt first."""
    width: int = 64
    layers: int = 3
    heads: int = 4


def train(recipe: Recipe | None = None, *, report: Callable[[int, float], None] | None = None) -> Any:
    """A trained model in evaluation mode. `report` is called with every step and its loss."""
    recipe = recipe or Recipe()
    if recipe.steps < 1 or recipe.batch < 1:
        raise InputError(f"steps and batch must be at least 1, found {recipe.steps} and {recipe.batch}")
    random = np.random.default_rng(recipe.seed + 1)
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        torch.manual_seed(recipe.seed)
        model = LlamaForCausalLM(_config(recipe)).train()
        _look_one_back(model)
        optimizer = torch.optim.AdamW(model.parameters(), lr=recipe.learning_rate, weight_decay=0.01)
        schedule = torch.optim.lr_scheduler.OneCycleLR(
            optimizer, recipe.learning_rate, total_steps=recipe.steps, pct_start=recipe.warmup
        )
        for step in range(1, recipe.steps + 1):
            grown = min(1.0, step / (recipe.growing * recipe.steps))
            most = FEWEST + round(grown * (MOST - FEWEST))
            tokens, labels = lesson(recipe.batch, int(random.integers(FEWEST, most + 1)), random)
            loss = F.cross_entropy(model(input_ids=tokens).logits.flatten(0, 1), labels.flatten())
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            if report is not None:
                report(step, loss.item())
    return model.eval()


def lesson(batch: int, pairs: int, random: np.random.Generator) -> tuple[Tensor, Tensor]:
    """Texts and what must follow each of their tokens, both batch × tokens.

    Keys are asked one after the other, and again: if none came twice, what is left would tell the last ones. An asked
    key is followed by its value, and that by the end. Nothing is learnt of what no text decides, the pairs themselves.
    """
    keys, values = draw(batch, pairs, random)
    order = random.integers(pairs, size=(batch, pairs))
    asked = [np.take_along_axis(one, order, 1) for one in (keys, values)]
    begin, end, first_key, first_value = (ENTRIES.index(one) for one in (BEGIN, END, KEYS[0], VALUES[0]))
    told, answered = (
        np.stack([key + first_key, value + first_value], -1).reshape(batch, -1)
        for key, value in ((keys, values), asked)
    )
    tokens = np.concatenate([np.full((batch, 1), begin), told, answered], 1)
    labels = np.full_like(tokens, _NO_LABEL)
    labels[:, 1 + 2 * pairs :: 2] = answered[:, 1::2]
    labels[:, 2 + 2 * pairs :: 2] = end
    return torch.from_numpy(tokens), torch.from_numpy(labels)


def accuracy(model: Any, *, count: int = 2000, seed: int = 10_000) -> float:
    """The share of new texts that are gone on with the right value."""
    tokenizer = build_tokenizer()
    texts = generate(count, seed=seed)
    right = 0
    for length in {len(one.text.split()) for one in texts}:
        several = [one for one in texts if len(one.text.split()) == length]
        tokens = tokenizer([one.text for one in several], return_tensors="pt")["input_ids"]
        with torch.no_grad():
            found = model(input_ids=tokens).logits[:, -1].argmax(-1)
        right += sum(ENTRIES[int(one)] == text.answer for one, text in zip(found, several, strict=True))
    return right / count


@torch.no_grad()
def _look_one_back(model: Any) -> None:
    """Let the first head of the first layer begin with a look at the word before, by the biases of its query and key.

    A value must know its key before a later layer can find it, and as long as none does, nothing tells a head to look
    there: left to itself the model takes tens of thousands of steps to find out. All weights are trained from here on.
    """
    attention = model.model.layers[0].self_attn
    angle = model.model.rotary_emb.inv_freq
    width = len(angle)
    attention.k_proj.bias[:width] = _SHARPNESS
    attention.q_proj.bias[:width] = _SHARPNESS * angle.cos()
    attention.q_proj.bias[width : 2 * width] = -_SHARPNESS * angle.sin()


def _config(recipe: Recipe) -> LlamaConfig:
    return LlamaConfig(
        vocab_size=len(ENTRIES),
        hidden_size=recipe.width,
        intermediate_size=2 * recipe.width,
        num_hidden_layers=recipe.layers,
        num_attention_heads=recipe.heads,
        attention_bias=True,
        max_position_embeddings=POSITIONS,
        pad_token_id=ENTRIES.index(PAD),
        bos_token_id=ENTRIES.index(BEGIN),
        eos_token_id=ENTRIES.index(END),
    )
