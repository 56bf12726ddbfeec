"""The shape of the verb-number model: GPT-2 blocks without the causal mask (§4)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
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


@dataclass(frozen=True)
class Recipe:
    """One run of training. An epoch is all natural lines, plus so many of each other source, newly drawn each time."""

    seed: int = 0
    epochs: int = 12
    batch: int = 64
    learning_rate: float = 1e-3
    warmup_steps: int = 300
    weight_decay: float = 0.01
    clip: float = 1.0
    averaging: float = 0.999
    """Decay of the running mean of the weights, which is what is kept in the end."""
    word_dropout: float = 0.05
    """Share of words that are replaced by `<unk>`, newly drawn in each step."""
    dropout: float = 0.1
    """On what each block adds to the residual stream; on the embeddings and the attention weights too, unless they
    have their own."""
    embedding_dropout: float | None = None
    attention_dropout: float | None = None
    masks_padding: bool = True
    """False: padding is attended to like words while the model learns."""
    sorted_batches: int = 50
    """So many batches are sorted by length together, so that little is padded; 1: sentences stay where chance put
    them."""
    attractor_lines: int = 12_000
    """Lines per epoch from files of which every line has attractors: few, because nature has few."""
    generated: int = 4_000
    """Generated sentences per epoch."""
    joined: int = 0
    """Sentences of two clauses per epoch, each put together from two natural lines."""
    prefixes: int = 0
    """Shorter beginnings per epoch, cut from those in the data and labelled by the teacher."""
    noun_phrases: int = 0
    """Single words per epoch, each after "the" and labelled by the teacher."""
    teachers_vectors: bool = True
    """Word vectors start as the teacher's, where there is a teacher."""
    soft_labels: bool = False
    """The teacher's probabilities stand in the place of all labels."""

    @property
    def dropouts(self) -> dict[str, float]:
        """By their names in the model's config."""
        embedding, attention = (
            self.dropout if own is None else own for own in (self.embedding_dropout, self.attention_dropout)
        )
        return {
            "embedding_dropout": embedding,
            "attention_dropout": attention,
            "residual_dropout": self.dropout,
        }

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


TEACHER = Recipe(
    epochs=1, batch=32, learning_rate=1e-4, warmup_steps=100, word_dropout=0.0, attractor_lines=6_000, generated=0
)
"""For a pretrained body: short, gentle, and natural sentences above all."""

STUDENT = Recipe(epochs=6, attractor_lines=16_000, prefixes=40_000)
"""For the small model that learns from a teacher."""

CONTINUED = Recipe(
    epochs=3,
    batch=32,
    learning_rate=6e-4,
    dropout=0.05,
    word_dropout=0.02,
    attractor_lines=12_000,
    generated=2_000,
    joined=14_000,
    prefixes=26_000,
    noun_phrases=6_000,
)
"""For a student that goes on: longer sentences, single words, and less noise."""

ALONE = Recipe(joined=8_000)
"""For the small model without a teacher."""
