"""One small zoo for all tests: a row a family, each a tiny random model. A new family is a new row."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import tokenizers
import torch
import transformers as hf
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

WIDTH = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 48}
DINO = {name: size for name, size in WIDTH.items() if name != "intermediate_size"}
VOCABULARY = 120
GROUPED = {"num_key_value_heads": 2, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}

TEXT: dict[str, Callable[[], Any]] = {
    "bert": lambda: hf.BertModel(hf.BertConfig(vocab_size=VOCABULARY, **WIDTH)),
    "distilbert": lambda: hf.DistilBertModel(
        hf.DistilBertConfig(vocab_size=VOCABULARY, dim=32, n_layers=3, n_heads=4, hidden_dim=48)
    ),
    "gpt2": lambda: hf.GPT2Model(
        hf.GPT2Config(vocab_size=VOCABULARY, n_embd=32, n_layer=3, n_head=4, bos_token_id=1, eos_token_id=1)
    ),
    "roberta": lambda: hf.RobertaModel(hf.RobertaConfig(vocab_size=VOCABULARY, **WIDTH)),
    "llama": lambda: hf.LlamaModel(hf.LlamaConfig(vocab_size=VOCABULARY, **WIDTH, **GROUPED)),
    "mistral": lambda: hf.MistralModel(hf.MistralConfig(vocab_size=VOCABULARY, sliding_window=4, **WIDTH, **GROUPED)),
    "gpt_neo": lambda: hf.GPTNeoModel(
        hf.GPTNeoConfig(
            vocab_size=VOCABULARY,
            hidden_size=32,
            num_layers=3,
            num_heads=4,
            attention_types=[[["global", "local", "global"], 1]],
            window_size=4,
        )
    ),
    "gpt_neox": lambda: hf.GPTNeoXModel(hf.GPTNeoXConfig(vocab_size=VOCABULARY, **WIDTH)),
    "opt": lambda: hf.OPTModel(
        hf.OPTConfig(
            vocab_size=VOCABULARY,
            hidden_size=32,
            word_embed_proj_dim=32,
            num_hidden_layers=3,
            num_attention_heads=4,
            ffn_dim=48,
        )
    ),
    "qwen2": lambda: hf.Qwen2Model(hf.Qwen2Config(vocab_size=VOCABULARY, **WIDTH, **GROUPED)),
    "qwen3": lambda: hf.Qwen3Model(hf.Qwen3Config(vocab_size=VOCABULARY, head_dim=8, **WIDTH, **GROUPED)),
    "gemma2": lambda: hf.Gemma2Model(
        hf.Gemma2Config(vocab_size=VOCABULARY, head_dim=8, sliding_window=4, **WIDTH, **GROUPED)
    ),
    "gemma3": lambda: hf.Gemma3TextModel(
        hf.Gemma3TextConfig(
            vocab_size=VOCABULARY,
            head_dim=8,
            sliding_window=4,
            layer_types=["sliding_attention", "full_attention", "sliding_attention"],
            **WIDTH,
            **GROUPED,
        )
    ),
    "phi3": lambda: hf.Phi3Model(hf.Phi3Config(vocab_size=VOCABULARY, **WIDTH, **GROUPED)),
    "t5": lambda: hf.T5EncoderModel(
        hf.T5Config(vocab_size=VOCABULARY, d_model=32, num_layers=3, num_heads=4, d_kv=8, d_ff=48)
    ),
    "modernbert": lambda: hf.ModernBertModel(
        hf.ModernBertConfig(
            vocab_size=VOCABULARY,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
            cls_token_id=1,
            sep_token_id=2,
            local_attention=4,
            reference_compile=False,
            **WIDTH,
        )
    ),
    "albert": lambda: hf.AlbertModel(hf.AlbertConfig(vocab_size=VOCABULARY, embedding_size=16, **WIDTH)),
    "bloom": lambda: hf.BloomModel(hf.BloomConfig(vocab_size=VOCABULARY, hidden_size=32, n_layer=3, n_head=4)),
}
IMAGE: dict[str, Callable[[], Any]] = {
    "vit": lambda: hf.ViTModel(hf.ViTConfig(image_size=32, patch_size=8, **WIDTH)),
    "deit": lambda: hf.DeiTModel(hf.DeiTConfig(image_size=32, patch_size=8, **WIDTH)),
    "beit": lambda: hf.BeitModel(hf.BeitConfig(image_size=32, patch_size=8, **WIDTH)),
    "dinov2": lambda: hf.Dinov2Model(hf.Dinov2Config(image_size=32, patch_size=8, mlp_ratio=2, **DINO)),
    "dinov2_with_registers": lambda: hf.Dinov2WithRegistersModel(
        hf.Dinov2WithRegistersConfig(image_size=32, patch_size=8, mlp_ratio=2, num_register_tokens=4, **DINO)
    ),
    "clip_vision_model": lambda: hf.CLIPVisionModel(hf.CLIPVisionConfig(image_size=32, patch_size=8, **WIDTH)),
    "siglip_vision_model": lambda: hf.SiglipVisionModel(hf.SiglipVisionConfig(image_size=32, patch_size=8, **WIDTH)),
}
FAMILIES = [*TEXT, *IMAGE]


@cache
def model(name: str, implementation: str | None = None, *, fresh: bool = False) -> Any:
    """The tiny model of a family: always the same weights, sharp enough that attention is not flat.

    Biases and gains are random as in a trained model; `fresh` leaves them at the 0 and 1 of a new one.
    """
    torch.manual_seed(0)
    made = (TEXT | IMAGE)[name]().eval()
    if implementation is not None:
        made = type(made)._from_config(made.config, attn_implementation=implementation).eval()
        made.load_state_dict(model(name, fresh=fresh).state_dict())
        return made
    with torch.no_grad():
        for parameter in made.parameters():
            if parameter.ndim == 2:
                parameter.mul_(4)
    return made if fresh else biased(made)


def needs_interface(name: str) -> None:
    """Skip the test where this transformers has no attention interface for the family."""
    if not getattr(model(name), "_supports_attention_backend", False):
        pytest.skip(f"transformers {hf.__version__} has no attention interface for {name}")


def inputs(name: str, length: int = 9) -> dict[str, torch.Tensor]:
    """One fixed input of the family."""
    generator = torch.Generator().manual_seed(1)
    if name in IMAGE:
        return {"pixel_values": torch.randn(1, 3, 32, 32, generator=generator)}
    ids = torch.randint(5, VOCABULARY, (1, length), generator=generator)
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


SENTENCES = (
    "the key to the cabinets is on a table and it was witty gorgeous seductive movie plain bad dull film "
    "author talked Sara about his her book she he said unaffordable hello world"
)
WORDS = SENTENCES.split()


@cache
def wordpiece_tokenizer() -> Any:
    """A lower-casing WordPiece tokenizer in BERT's manner, with its own small vocabulary."""
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *dict.fromkeys(word.lower() for word in WORDS)]
    pieces += [",", ".", "!", "un", "##aff", "##ord", "##able"]
    pieces.remove("unaffordable")
    vocabulary = {piece: index for index, piece in enumerate(pieces)}
    backend = tokenizers.Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    backend.normalizer = normalizers.Lowercase()
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    names = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
    return hf.PreTrainedTokenizerFast(
        tokenizer_object=backend,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
        **{f"{name}_token": token for name, token in names.items()},
    )


@cache
def bytelevel_tokenizer() -> Any:
    """A byte-level BPE tokenizer in GPT-2's manner: no padding token, spaces inside the tokens."""
    backend = tokenizers.Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.post_processor = processors.ByteLevel(trim_offsets=False)
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, special_tokens=["<|endoftext|>"])
    backend.train_from_iterator([SENTENCES] * 5, trainer)
    end = "<|endoftext|>"
    return hf.PreTrainedTokenizerFast(
        tokenizer_object=backend,
        model_input_names=["input_ids", "attention_mask"],
        bos_token=end,
        eos_token=end,
        unk_token=end,
    )


@cache
def framing_tokenizer() -> Any:
    """In Whisper's manner: it puts a start token in front, and behind the text its end token, which is also unknown."""
    backend = tokenizers.Tokenizer.from_str(bytelevel_tokenizer().backend_tokenizer.to_str())
    backend.add_special_tokens(["<|start|>"])
    start, end = (backend.token_to_id(token) for token in ("<|start|>", "<|endoftext|>"))
    backend.post_processor = processors.TemplateProcessing(
        single="<|start|> $A <|endoftext|>", special_tokens=[("<|start|>", start), ("<|endoftext|>", end)]
    )
    end = "<|endoftext|>"
    return hf.PreTrainedTokenizerFast(tokenizer_object=backend, eos_token=end, unk_token=end, pad_token=end)


@cache
def classifier(*, fresh: bool = False) -> Any:
    """A tiny BERT that classifies, for the WordPiece tokenizer."""
    torch.manual_seed(0)
    labels = {0: "NEGATIVE", 1: "POSITIVE"}
    config = hf.BertConfig(vocab_size=len(wordpiece_tokenizer()), max_position_embeddings=64, id2label=labels, **WIDTH)
    return _sharpened(hf.BertForSequenceClassification(config), fresh)


@cache
def with_head(name: str) -> Any:
    """A tiny BERT with another head, by the name of its class; its tags are those of people and places."""
    torch.manual_seed(0)
    tags = {0: "O", 1: "B-PER", 2: "I-PER", 3: "B-LOC", 4: "I-LOC"}
    labels = {"id2label": tags} if "Token" in name else {}
    config = hf.BertConfig(vocab_size=len(wordpiece_tokenizer()), max_position_embeddings=64, **labels, **WIDTH)
    return _sharpened(getattr(hf, name)(config))


@cache
def masked_lm(*, fresh: bool = False) -> Any:
    torch.manual_seed(0)
    config = hf.BertConfig(vocab_size=len(wordpiece_tokenizer()), max_position_embeddings=64, **WIDTH)
    return _sharpened(hf.BertForMaskedLM(config), fresh)


@cache
def roberta_tokenizer(lstrip: bool = True) -> Any:
    """A byte-level tokenizer in RoBERTa's manner: " his" and "his" are two tokens, and its mask takes a space along."""
    names = {"bos": "<s>", "pad": "<pad>", "eos": "</s>", "unk": "<unk>", "cls": "<s>", "sep": "</s>"}
    specials = list(dict.fromkeys(names.values()))
    backend = tokenizers.Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=420, initial_alphabet=alphabet, special_tokens=specials)
    backend.train_from_iterator([SENTENCES, "his book", "her book", "The author"] * 5, trainer)
    backend.post_processor = processors.RobertaProcessing(
        ("</s>", specials.index("</s>")), ("<s>", specials.index("<s>")), trim_offsets=True, add_prefix_space=False
    )
    mask = tokenizers.AddedToken("<mask>", lstrip=lstrip, special=True)
    return hf.PreTrainedTokenizerFast(
        tokenizer_object=backend, mask_token=mask, **{f"{name}_token": token for name, token in names.items()}
    )


@cache
def roberta_masked_lm(*, fresh: bool = False) -> Any:
    """A tiny RoBERTa that fills masks, for the tokenizer above."""
    torch.manual_seed(0)
    size = len(roberta_tokenizer())
    config = hf.RobertaConfig(vocab_size=size, pad_token_id=1, max_position_embeddings=66, type_vocab_size=1, **WIDTH)
    return _sharpened(hf.RobertaForMaskedLM(config), fresh)


@cache
def causal_lm(*, fresh: bool = False) -> Any:
    """A tiny GPT-2 that writes, for the byte-level tokenizer."""
    torch.manual_seed(0)
    size = len(bytelevel_tokenizer())
    config = hf.GPT2Config(
        vocab_size=size, n_embd=32, n_layer=3, n_head=4, n_positions=64, bos_token_id=0, eos_token_id=0
    )
    return _sharpened(hf.GPT2LMHeadModel(config), fresh)


def biased(made: Any) -> Any:
    """The model with random biases and gains, as a trained one has them: a new one has 0 and 1 in most."""
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in made.parameters():
            if parameter.ndim == 1:
                parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator).to(parameter))
    return made


def observed(model: Any) -> list[str]:
    """The modules that somebody hung a hook on, or whose method is replaced."""
    return [
        name
        for name, module in model.named_modules()
        if module._forward_hooks or module._forward_pre_hooks or {"forward", "_call_impl"} & vars(module).keys()
    ]


def deep(made: Any) -> Any:
    """The same kind of model with six layers, as many as the pages and examples speak of."""
    return type(made)(type(made.config)(**made.config.to_dict() | {"num_hidden_layers": 6})).eval()


def _sharpened(made: Any, fresh: bool = False) -> Any:
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            if parameter.ndim == 2 and "embed" not in name and "wte" not in name:
                parameter.mul_(4)
    return (made if fresh else biased(made)).eval()


def grad_mode(model: Any, kernel: str) -> Any:
    """The model with another kernel of attention, where this transformers can change it."""
    if not hasattr(model, "set_attn_implementation"):
        pytest.skip("transformers is older than 4.54, and cannot change the kernel of a model in memory")
    model.set_attn_implementation(kernel)
    return model
