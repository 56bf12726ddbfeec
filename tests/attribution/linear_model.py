"""A bag of embeddings with a linear head: every reference of it can be written down."""

import torch
from torch import nn
from transformers import PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import SequenceClassifierOutput


class BagConfig(PretrainedConfig):
    model_type = "bag_of_embeddings"


class Bag(PreTrainedModel):
    """logits = Σ over real positions of weight · embedding. It attends to nothing."""

    config_class = BagConfig

    def __init__(self, config, vocabulary=43, width=4):
        super().__init__(config)
        torch.manual_seed(7)
        self.embedding = nn.Embedding(vocabulary, width)
        self.head = nn.Linear(width, config.num_labels, bias=False)

    def get_input_embeddings(self):
        return self.embedding

    def get_output_embeddings(self):
        return None

    def forward(self, input_ids=None, attention_mask=None, inputs_embeds=None):
        embedded = self.embedding(input_ids) if inputs_embeds is None else inputs_embeds
        if attention_mask is not None:
            embedded = embedded * attention_mask[..., None]
        return SequenceClassifierOutput(logits=self.head(embedded).sum(1))


def bag(labels=3, **config):
    return Bag(BagConfig(num_labels=labels, **config)).eval()
