"""Trains a small T5 to rewrite dates; the same seed gives the same model on the same machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import T5Config, T5ForConditionalGeneration

from attnx.demo_models.dates import ENTRIES, Dated, build_tokenizer, draw, generate
from attnx.demo_models.hub import BEGIN, END, PAD
from examples.training.loop import Report, SmallRecipe, one_cycle

_AT_ONCE = 250
"""Texts that are rewritten together."""


@dataclass(frozen=True)
class Recipe(SmallRecipe):
    steps: int = 2000
    layers: int = 2
    """Of the encoder, and as many of the decoder."""


def train(recipe: Recipe | None = None, *, report: Report | None = None) -> Any:
    """A trained model in evaluation mode. `report` is called with every step and its loss."""
    recipe = recipe or Recipe()
    tokenizer = build_tokenizer()

    def loss_of(model: Any, step: int, random: np.random.Generator) -> Tensor:
        loss: Tensor = model(**lesson(tokenizer, [draw(random) for _ in range(recipe.batch)])).loss
        return loss

    build = partial(T5ForConditionalGeneration, _config(recipe))
    return one_cycle(recipe, build, loss_of, betas=(0.9, 0.98), report=report)


def lesson(tokenizer: Any, dated: Sequence[Dated]) -> dict[str, Tensor]:
    """What the model is given for these texts: the source, its mask, and what is to be written, with the end."""
    given = tokenizer([one.text for one in dated], padding=True, return_tensors="pt")
    labels = tokenizer([one.written for one in dated], return_tensors="pt")["input_ids"]
    return {"input_ids": given["input_ids"], "attention_mask": given["attention_mask"], "labels": labels}


def accuracy(model: Any, *, count: int = 2000, seed: int = 10_000) -> float:
    """The share of new texts whose date is written right, with all three fields and the end behind them."""
    tokenizer = build_tokenizer()
    texts = generate(count, seed=seed)
    right = 0
    for start in range(0, count, _AT_ONCE):
        asked = lesson(tokenizer, texts[start : start + _AT_ONCE])
        wanted = asked.pop("labels")
        with torch.no_grad():
            written = model.generate(**asked, max_new_tokens=wanted.shape[1], do_sample=False)[:, 1:]
        right += sum(torch.equal(one, two) for one, two in zip(written, wanted, strict=True))
    return right / count


def _config(recipe: Recipe) -> T5Config:
    named = {"pad": PAD, "eos": END, "bos": BEGIN, "decoder_start": BEGIN}
    tokens: dict[str, Any] = {f"{role}_token_id": ENTRIES.index(token) for role, token in named.items()}
    return T5Config(
        vocab_size=len(ENTRIES),
        d_model=recipe.width,
        d_kv=recipe.width // recipe.heads,
        d_ff=2 * recipe.width,
        num_layers=recipe.layers,
        num_decoder_layers=recipe.layers,
        num_heads=recipe.heads,
        relative_attention_num_buckets=16,
        relative_attention_max_distance=32,
        dropout_rate=0.0,
        **tokens,
    )
