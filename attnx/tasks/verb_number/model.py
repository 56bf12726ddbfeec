"""The verb-number model: `<bos> words <eos>` in, the number of the verb to come out.

A stack of pre-LN GPT-2 blocks in which every position sees every other. `<bos>`, position 0, plays CLS: one dense
layer on its last hidden state gives the two classes. Attention goes through the transformers attention interface,
so sdpa, eager and any registered function serve it.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput, SequenceClassifierOutput
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from attnx.errors import InputError
from attnx.tasks.verb_number.config import LABELS, VerbNumberConfig


class VerbNumberPreTrainedModel(PreTrainedModel):
    config_class = VerbNumberConfig
    base_model_prefix = "encoder"
    main_input_name = "input_ids"
    _no_split_modules = ["Block"]  # noqa: RUF012
    _supports_sdpa = True
    _supports_attention_backend = True

    @classmethod
    def _can_set_attn_implementation(cls) -> bool:
        """Yes; transformers would guess it from the text of this file, differently in each version."""
        return True

    def _init_weights(self, module: nn.Module) -> None:
        """As GPT-2: normal weights, zero biases, and residual projections scaled down by the depth."""
        deviation = self.config.initializer_range
        if isinstance(module, nn.Linear):
            if getattr(module, "writes_to_residual", False):
                deviation /= (2 * self.config.num_hidden_layers) ** 0.5
            nn.init.normal_(module.weight, std=deviation)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=deviation)
        elif isinstance(module, nn.LayerNorm):
            nn.init.ones_(module.weight)
            nn.init.zeros_(module.bias)


class VerbNumberModel(VerbNumberPreTrainedModel):
    """The encoder: words and learned positions, the blocks, a final LayerNorm."""

    def __init__(self, config: VerbNumberConfig) -> None:
        super().__init__(config)
        self.words: nn.Module = nn.Embedding(config.vocab_size, config.hidden_size)
        self.positions = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        self.dropout = nn.Dropout(config.embedding_dropout)
        self.blocks = nn.ModuleList(TransformerBlock(config, layer) for layer in range(config.num_hidden_layers))
        self.norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        return self.words

    def set_input_embeddings(self, value: nn.Module) -> None:
        self.words = value

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        **kwargs: Any,
    ) -> BaseModelOutput:
        """Hidden states, batch × position × width. `attention_mask` is 1 on words and 0 on padding."""
        if (input_ids is None) == (inputs_embeds is None):
            raise InputError("give the model either input_ids or inputs_embeds")
        embedded = self.words(input_ids) if inputs_embeds is None else inputs_embeds
        length, longest = embedded.shape[1], self.config.max_position_embeddings
        if length > longest:
            raise InputError(f"the sentence has {length} positions, the model {longest}; shorten it")
        mask = _additive_mask(attention_mask, embedded.dtype)
        keep_weights = self.config.output_attentions if output_attentions is None else output_attentions
        keep_states = self.config.output_hidden_states if output_hidden_states is None else output_hidden_states

        hidden = self.dropout(embedded + self.positions.weight[:length])
        states: tuple[Any, ...] = (hidden,)
        attentions: tuple[Any, ...] = ()
        for block in self.blocks:
            hidden, weights = block(hidden, mask, keep_weights, **kwargs)
            states += (hidden,)
            attentions += (weights,)
        hidden = self.norm(hidden)
        return BaseModelOutput(
            last_hidden_state=hidden,
            hidden_states=(*states[:-1], hidden) if keep_states else None,
            attentions=attentions if keep_weights else None,
        )


class VerbNumberForSequenceClassification(VerbNumberPreTrainedModel):
    """The encoder with one dense layer of two classes on position 0: singular and plural."""

    def __init__(self, config: VerbNumberConfig) -> None:
        super().__init__(config)
        self.num_labels = len(LABELS)
        self.encoder = VerbNumberModel(config)
        self.classifier = nn.Linear(config.hidden_size, self.num_labels)
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        return self.encoder.words

    def set_input_embeddings(self, value: nn.Module) -> None:
        self.encoder.words = value

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        return_dict: bool | None = None,
        **kwargs: Any,
    ) -> SequenceClassifierOutput | tuple[Tensor, ...]:
        encoded = self.encoder(input_ids, attention_mask, inputs_embeds, **kwargs)
        logits = self.classifier(encoded.last_hidden_state[:, 0])
        loss: Any = None if labels is None else F.cross_entropy(logits, labels)
        output = SequenceClassifierOutput(
            loss=loss,
            logits=logits,
            hidden_states=encoded.hidden_states,
            attentions=encoded.attentions,
        )
        return output.to_tuple() if return_dict is False else output


class TransformerBlock(nn.Module):
    """`h + attention(LN h)`, then `h + mlp(LN h)`."""

    def __init__(self, config: VerbNumberConfig, layer: int) -> None:
        super().__init__()
        width = config.hidden_size
        self.norm_attention = nn.LayerNorm(width, eps=config.layer_norm_eps)
        self.attention = SelfAttention(config, layer)
        self.norm_mlp = nn.LayerNorm(width, eps=config.layer_norm_eps)
        self.expand = nn.Linear(width, 4 * width)
        self.contract = _writes_to_residual(nn.Linear(4 * width, width))
        self.dropout = nn.Dropout(config.residual_dropout)

    def forward(
        self, hidden: Tensor, mask: Tensor | None, keep_weights: bool, **kwargs: Any
    ) -> tuple[Tensor, Tensor | None]:
        mixed, weights = self.attention(self.norm_attention(hidden), mask, keep_weights, **kwargs)
        hidden = hidden + self.dropout(mixed)
        grown = F.gelu(self.expand(self.norm_mlp(hidden)), approximate="tanh")
        return hidden + self.dropout(self.contract(grown)), weights


class SelfAttention(nn.Module):
    """Every position looks at every position that is not padding."""

    is_causal = False

    def __init__(self, config: VerbNumberConfig, layer: int) -> None:
        super().__init__()
        width, self.heads = config.hidden_size, config.num_attention_heads
        if width % self.heads:
            raise InputError(f"a width of {width} does not divide into {self.heads} heads")
        self.config = config
        self.layer_idx = layer
        self.scaling = (width // self.heads) ** -0.5
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.output = _writes_to_residual(nn.Linear(width, width))

    def forward(
        self, hidden: Tensor, mask: Tensor | None, keep_weights: bool, **kwargs: Any
    ) -> tuple[Tensor, Tensor | None]:
        query, key, value = (
            project(hidden).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for project in (self.query, self.key, self.value)
        )
        name = self.config._attn_implementation
        # sdpa has no weights to give, and would return None for them without a word.
        eager = name in ("eager", None) or (keep_weights and name == "sdpa")
        attend = eager_attention if eager else ALL_ATTENTION_FUNCTIONS[name]
        dropout = self.config.attention_dropout if self.training else 0.0
        mixed, weights = attend(self, query, key, value, mask, dropout=dropout, scaling=self.scaling, **kwargs)
        return self.output(mixed.flatten(2)), weights


def eager_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float = 1.0,
    **kwargs: Any,
) -> tuple[Tensor, Tensor]:
    """Attention spelled out: (batch × position × head × width, batch × head × query × key)."""
    scores = query @ key.transpose(-1, -2) * scaling
    if attention_mask is not None:
        scores = scores + attention_mask
    weights = F.softmax(scores, dim=-1)
    mixed = F.dropout(weights, dropout, module.training) @ value
    return mixed.transpose(1, 2).contiguous(), weights


def _additive_mask(attention_mask: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """0 where a key is a word and the lowest number where it is padding, batch × 1 × query × key.

    None when nothing is padded; a mask that is 4-D already is taken as it is.
    """
    if attention_mask is None or attention_mask.dim() == 4:
        return attention_mask
    if bool(attention_mask.all()):
        return None
    padding = attention_mask[:, None, None, :] == 0
    additive = torch.zeros(padding.shape, dtype=dtype, device=padding.device)
    return additive.masked_fill(padding, torch.finfo(dtype).min).expand(-1, 1, padding.shape[-1], -1)


def _writes_to_residual(linear: nn.Linear) -> nn.Linear:
    linear.writes_to_residual = True  # type: ignore[assignment]
    return linear


AutoConfig.register(VerbNumberConfig.model_type, VerbNumberConfig, exist_ok=True)
AutoModel.register(VerbNumberConfig, VerbNumberModel, exist_ok=True)
AutoModelForSequenceClassification.register(VerbNumberConfig, VerbNumberForSequenceClassification, exist_ok=True)
