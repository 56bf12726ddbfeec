"""The verb-number model of the paper: architecture, configuration, and the checkpoint that ships."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, processors
from torch import Tensor, nn
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    PretrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerFast,
)
from transformers.modeling_outputs import BaseModelOutput, SequenceClassifierOutput
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from attnx._signals import uninterrupted
from attnx.arguments import checked
from attnx.demo_models.hub import BEGIN, END, PAD, UNKNOWN, for_every_version, saved_model, shipped_directory, wrap
from attnx.errors import FileFormatError, InputError, first_line

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


class VerbNumberPreTrainedModel(PreTrainedModel):
    config_class = VerbNumberConfig
    base_model_prefix = "encoder"
    main_input_name = "input_ids"
    _no_split_modules = ["RowBlock"]  # noqa: RUF012
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


@dataclass(frozen=True, slots=True)
class Beginning:
    """The words before the verb, separated by spaces, and what is known about them.

    `label` is 0 for a singular verb (VBZ) and 1 for a plural one (VBP). `subject` and `attractors` are word indices
    from 0 (`<bos>` is not counted); `attractor_count` is known more often than where they stand.
    """

    text: str
    label: int
    subject: int | None = None
    attractors: tuple[int, ...] | None = None
    attractor_count: int | None = None
    natural: bool = True
    """False where the file holds only lines that were chosen for their attractors, which nature has far fewer of."""

    @property
    def words(self) -> list[str]:
        return self.text.split()


EMBEDDED = "the model embedded in attnx"

TAG_EXAMPLES = {
    "NN": "thing", "NNS": "things", "NNP": "john", "NNPS": "americans",
    "JJ": "good", "JJR": "better", "JJS": "best", "RB": "often", "RBR": "more", "RBS": "most",
    "VB": "make", "VBZ": "makes", "VBP": "make", "VBG": "making", "VBN": "made", "VBD": "said", "MD": "can",
    "CC": "and", "CD": "ten", "DT": "the", "EX": "there", "FW": "la", "IN": "of", "LS": "1", "PDT": "all",
    "POS": "'s", "PRP": "he", "PRP$": "his", "RP": "up", "SYM": "=", "UH": "oh", "WDT": "which", "WP": "who",
    "WRB": "where",
}  # fmt: skip
"""The Penn Treebank tags that stand for rare words, each with a frequent word of its kind."""

_ATTACHED = r"""(?<=\w)(?:[.,;:!?)"”…]+|'s)(?=\s|$)|(?<=\s)[("“](?=\w)|^[("“](?=\w)"""
"""What a writer attaches to a word and the data sets apart: "keys," is "keys ,", "John's" is "john 's"."""


def build_tokenizer(words: Iterable[str], positions: int) -> PreTrainedTokenizerFast:
    """A fast tokenizer of these words, the tags and four special tokens; `positions` is the model's longest input."""
    entries = [PAD, UNKNOWN, BEGIN, END, *TAG_EXAMPLES, *words]
    vocab = {entry: index for index, entry in enumerate(dict.fromkeys(entries))}
    tokenizer = Tokenizer(models.WordLevel(vocab, unk_token=UNKNOWN))
    # Added tokens are found before the text is lowered, which is what keeps the tags in capitals.
    tokenizer.add_tokens([AddedToken(tag, single_word=True, normalized=False) for tag in TAG_EXAMPLES])
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(_ATTACHED), "isolated"), pre_tokenizers.WhitespaceSplit()]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BEGIN} $A {END}", special_tokens=[(BEGIN, vocab[BEGIN]), (END, vocab[END])]
    )
    return wrap(tokenizer, positions)


@checked
def load_demo() -> tuple[VerbNumberForSequenceClassification, PreTrainedTokenizerFast]:
    """The model that ships with attnx, in float32 and in evaluation mode, and its tokenizer.

    >>> model, tokenizer = load_demo()
    >>> logits = model(**tokenizer("the key to the cabinets", return_tensors="pt")).logits
    >>> model.config.id2label[int(logits.argmax())]
    'singular'
    """
    with demo_directory() as directory:
        return load(directory)


def demo_directory() -> AbstractContextManager[Path]:
    """Where the shipped model lies."""
    return shipped_directory("verb-number")


def load(
    directory: Path, kind: Any = VerbNumberForSequenceClassification
) -> tuple[VerbNumberForSequenceClassification, PreTrainedTokenizerFast]:
    """A model of this class that `save` wrote, in float32 and in evaluation mode, and its tokenizer."""
    # In one piece: safetensors makes a ValueError of a Ctrl-C, and torch's default device must not stay changed.
    return uninterrupted(lambda: _load(saved_model(directory), kind))


def _load(directory: Path, kind: Any) -> tuple[Any, PreTrainedTokenizerFast]:
    config = kind.config_class.from_pretrained(directory)
    config.name_or_path = _name(directory)
    try:
        weights = {name: tensor.float() for name, tensor in load_file(directory / "model.safetensors").items()}
        with torch.device("meta"):  # no weights, so none are drawn from the caller's random numbers
            model = kind(config)
        model.load_state_dict(weights, assign=True)
    except (SafetensorError, RuntimeError) as error:
        raise FileFormatError(
            f"the weights in {directory} are not of a verb-number model: {first_line(error)}"
        ) from error
    tokenizer = wrap(Tokenizer.from_file(str(directory / "tokenizer.json")), config.max_position_embeddings)
    return model.eval(), tokenizer


def _name(directory: Path) -> str:
    """What results say whose they are."""
    with demo_directory() as demo:
        return EMBEDDED if directory == demo else str(directory)


def save(model: Any, tokenizer: Any, directory: Path) -> None:
    """Write a model and its tokenizer, the weights in half precision. The model in memory is left as it is."""
    directory.mkdir(parents=True, exist_ok=True)
    config = copy.deepcopy(model.config)
    config.architectures = [type(model).__name__]
    config.save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    for_every_version(directory)
    halves = {name: tensor.to(torch.float16).contiguous() for name, tensor in model.state_dict().items()}
    save_file(halves, directory / "model.safetensors", metadata={"format": "pt"})


def load_any(directory: Path) -> tuple[Any, Any]:
    """A verb-number model, or any other classifier that was trained on the task."""
    settings, _ = VerbNumberConfig.get_config_dict(saved_model(directory))
    if settings.get("model_type") == VerbNumberConfig.model_type:
        return load(directory)
    model = AutoModelForSequenceClassification.from_pretrained(directory).float().eval()
    if model.config.num_labels != len(LABELS):
        raise InputError(
            f"the model in {directory} has {model.config.num_labels} classes, expected {', '.join(LABELS)}"
        )
    return model, AutoTokenizer.from_pretrained(directory)


def split_seed(directory: Path) -> int:
    """The seed that made the split of the model's training; where it has no record of its own, that of the training."""
    note = read_note(directory)
    return int(note.get("split_seed", note.get("recipe", {}).get("seed", 0)))


def read_note(directory: Path) -> dict[str, Any]:
    """What the model was trained with, as its training wrote it down; nothing where that is not on record."""
    note = directory / "training.json"
    if not note.is_file():
        return {}
    try:
        read = json.loads(note.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise FileFormatError(f"{note} is damaged ({type(error).__name__}); delete it, or train again") from error
    if not isinstance(read, dict) or not isinstance(read.get("recipe", {}), dict):
        raise FileFormatError(f"{note} is not what a training wrote: expected an object with a recipe")
    return read


def require_same_split(directory: Path, digest: str) -> None:
    """An error unless the model was trained with this very split: it must not have seen what is tested."""
    if read_note(directory).get("data_sha256") != digest:
        raise InputError(
            f"the model in {directory} was not trained with these files, this order and this seed, so what it has seen "
            "of them is not known; repeat those of its training"
        )
