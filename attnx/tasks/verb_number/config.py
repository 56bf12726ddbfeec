"""The shape of the verb-number model: GPT-2 blocks without the causal mask (§4)."""

from __future__ import annotations

from typing import Any

from transformers import PretrainedConfig

LABELS = ("singular", "plural")
"""Class 0 and class 1: the number of the verb to come ("is" or "are")."""

TAGS = ("VBZ", "VBP")
"""What data files call them."""


class VerbNumberConfig(PretrainedConfig):
    """Six layers, eight heads, width 128, unless told otherwise.

    The three dropouts are those of GPT-2: on the embeddings, on the attention weights, and on what each block adds
    to the residual stream.
    """

    model_type = "attnx-verb-number"

    def __init__(
        self,
        vocab_size: int = 10_000,
        hidden_size: int = 128,
        num_hidden_layers: int = 6,
        num_attention_heads: int = 8,
        max_position_embeddings: int = 64,
        embedding_dropout: float = 0.1,
        attention_dropout: float = 0.1,
        residual_dropout: float = 0.1,
        layer_norm_eps: float = 1e-5,
        initializer_range: float = 0.02,
        **kwargs: Any,
    ) -> None:
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.num_hidden_layers = num_hidden_layers
        self.num_attention_heads = num_attention_heads
        self.max_position_embeddings = max_position_embeddings
        self.embedding_dropout = embedding_dropout
        self.attention_dropout = attention_dropout
        self.residual_dropout = residual_dropout
        self.layer_norm_eps = layer_norm_eps
        self.initializer_range = initializer_range
        kwargs.setdefault("id2label", dict(enumerate(LABELS)))
        kwargs.setdefault("label2id", {label: index for index, label in enumerate(LABELS)})
        kwargs.setdefault("tie_word_embeddings", False)
        super().__init__(**kwargs)
