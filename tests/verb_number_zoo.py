"""A tiny verb-number model with random, sharp weights: what the reproduction runs on in the tests."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

from attnx.adapters import PreparedInput, adapter_for
from attnx.demo_models import verb_number_data as generator
from attnx.demo_models.verb_number import (
    TAG_EXAMPLES,
    VerbNumberConfig,
    VerbNumberForSequenceClassification,
    build_tokenizer,
)

TEXTS = ("the key to the cabinets", "keys", "the author that the old teachers like near a river", "some boxes in it")


@cache
def tokenizer() -> Any:
    return build_tokenizer([word for word in generator.words() if word not in TAG_EXAMPLES], 40)


@cache
def model(layers: int = 3) -> Any:
    """Always the same weights, large enough that attention is not flat and the classes differ."""
    words = tokenizer()
    config = VerbNumberConfig(
        vocab_size=len(words),
        hidden_size=16,
        num_hidden_layers=layers,
        num_attention_heads=2,
        max_position_embeddings=40,
        initializer_range=0.4,
        pad_token_id=words.pad_token_id,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        return VerbNumberForSequenceClassification(config).eval()


def prepared(*texts: str) -> list[PreparedInput]:
    adapter = adapter_for(model())
    return [adapter.prepare(model(), tokenizer(), text) for text in texts or TEXTS]
