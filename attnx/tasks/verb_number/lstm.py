"""An LSTM for the verb-number task: the teacher of the model behind the paper's own numbers.

It reads `<bos> words <eos>` from left to right; one dense layer on the state after the last of them gives the two
classes. It has no attention, so it can be trained, evaluated and learned from, but not explained.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers import PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import SequenceClassifierOutput

from attnx.tasks.verb_number.config import LABELS


class LstmConfig(PretrainedConfig):
    """Two layers of 128 on word vectors of 128, unless told otherwise; `residual_dropout` is between the layers."""

    model_type = "attnx-verb-number-lstm"

    def __init__(
        self,
        vocab_size: int = 10_000,
        hidden_size: int = 128,
        num_hidden_layers: int = 2,
        max_position_embeddings: int = 64,
        embedding_dropout: float = 0.1,
        residual_dropout: float = 0.1,
        **kwargs: Any,
    ) -> None:
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.num_hidden_layers = num_hidden_layers
        self.max_position_embeddings = max_position_embeddings
        self.embedding_dropout = embedding_dropout
        self.residual_dropout = residual_dropout
        kwargs.setdefault("id2label", dict(enumerate(LABELS)))
        kwargs.setdefault("label2id", {label: index for index, label in enumerate(LABELS)})
        kwargs.setdefault("tie_word_embeddings", False)
        super().__init__(**kwargs)


class LstmForSequenceClassification(PreTrainedModel):
    config_class = LstmConfig
    main_input_name = "input_ids"

    def __init__(self, config: LstmConfig) -> None:
        super().__init__(config)
        self.num_labels = len(LABELS)
        self.words = nn.Embedding(config.vocab_size, config.hidden_size)
        self.embedding_dropout = nn.Dropout(config.embedding_dropout)
        self.lstm = nn.LSTM(
            config.hidden_size,
            config.hidden_size,
            config.num_hidden_layers,
            batch_first=True,
            dropout=config.residual_dropout,
        )
        self.residual_dropout = nn.Dropout(config.residual_dropout)
        self.classifier = nn.Linear(config.hidden_size, self.num_labels)
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        """As PyTorch initialises them, but for smaller word vectors."""
        if isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=0.1)

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, **kwargs: Any
    ) -> SequenceClassifierOutput:
        """`attention_mask` is 1 on words and 0 on padding, which stands at the end."""
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        states, _ = self.lstm(self.embedding_dropout(self.words(input_ids)))
        # What comes after a sentence's last word cannot reach back to it.
        last = states[torch.arange(len(states)), mask.sum(-1) - 1]
        logits: Any = self.classifier(self.residual_dropout(last))
        return SequenceClassifierOutput(logits=logits)
