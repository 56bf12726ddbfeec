"""Tiny random encoder–decoders, a row a family: two encoder levels, three of each kind in the decoder."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
import transformers as hf

from attnx.attention import AttentionTensor, Mask, MaterializedLayer, OffsetLayer, offset_mask
from tests import zoo

VOCABULARY = len(zoo.wordpiece_tokenizer())
SOURCE, OUTPUT = 7, 5
LAYERS = {"encoder_layers": 2, "decoder_layers": 3}
HEADS = {"encoder_attention_heads": 4, "decoder_attention_heads": 4}
INNER = {"encoder_ffn_dim": 48, "decoder_ffn_dim": 48}
BART = {"vocab_size": VOCABULARY, "d_model": 32, "max_position_embeddings": 64, **LAYERS, **HEADS, **INNER}
T5 = {"vocab_size": VOCABULARY, "d_model": 32, "num_layers": 2, "num_decoder_layers": 3, "num_heads": 4, "d_kv": 8}
T5 |= {"d_ff": 48, "decoder_start_token_id": 0}
TOKENS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
BERT = {**zoo.WIDTH, "vocab_size": VOCABULARY, "num_hidden_layers": 2}

FSMT = {name: size for name, size in BART.items() if name != "vocab_size"} | TOKENS
FSMT |= {"src_vocab_size": VOCABULARY, "tgt_vocab_size": VOCABULARY}
GEMMA = {**zoo.WIDTH, **zoo.GROUPED, "vocab_size": VOCABULARY, "head_dim": 8, "sliding_window": 64}


def _joined(encoder: Any, decoder: Any) -> Any:
    config = hf.EncoderDecoderConfig.from_encoder_decoder_configs(encoder, decoder)
    config.decoder_start_token_id, config.pad_token_id = 1, 0
    return hf.EncoderDecoderModel(config)


def _whisper() -> Any:
    sizes = {name: size for name, size in BART.items() if name != "max_position_embeddings"}
    places = {"num_mel_bins": 8, "max_source_positions": 20, "max_target_positions": 32}
    return hf.WhisperForConditionalGeneration(hf.WhisperConfig(**sizes, **places, **TOKENS))


PROPHETNET = {
    **{"vocab_size": VOCABULARY, "hidden_size": 32, "num_encoder_layers": 2, "num_decoder_layers": 2, "ngram": 2},
    **{"num_encoder_attention_heads": 4, "num_decoder_attention_heads": 4, "max_position_embeddings": 64},
    **{"encoder_ffn_dim": 48, "decoder_ffn_dim": 48},
}
FAMILIES: dict[str, Callable[[], Any]] = {
    "t5": lambda: hf.T5ForConditionalGeneration(hf.T5Config(**T5)),
    "mt5": lambda: hf.MT5ForConditionalGeneration(hf.MT5Config(**T5)),
    "bart": lambda: hf.BartForConditionalGeneration(hf.BartConfig(**BART)),
    "mbart": lambda: hf.MBartForConditionalGeneration(hf.MBartConfig(**BART)),
    "marian": lambda: hf.MarianMTModel(hf.MarianConfig(**BART, pad_token_id=0, decoder_start_token_id=0)),
    "pegasus": lambda: hf.PegasusForConditionalGeneration(hf.PegasusConfig(**BART)),
    "m2m_100": lambda: hf.M2M100ForConditionalGeneration(hf.M2M100Config(**BART)),  # NLLB is of this class
    "fsmt": lambda: hf.FSMTForConditionalGeneration(hf.FSMTConfig(langs=["en", "de"], **FSMT)),
    "whisper": _whisper,
    "bert-bert": lambda: _joined(hf.BertConfig(**BERT), hf.BertConfig(**BERT | {"num_hidden_layers": 3})),
    "bert-gpt2": lambda: _joined(
        hf.BertConfig(**BERT), hf.GPT2Config(vocab_size=VOCABULARY, n_embd=32, n_layer=3, n_head=4)
    ),
}


if hasattr(hf, "T5GemmaConfig"):
    FAMILIES["t5gemma"] = lambda: hf.T5GemmaForConditionalGeneration(
        hf.T5GemmaConfig(encoder=GEMMA | {"num_hidden_layers": 2}, decoder=GEMMA, vocab_size=VOCABULARY, **TOKENS)
    )


PREDICTING = {"prophetnet": lambda: hf.ProphetNetForConditionalGeneration(hf.ProphetNetConfig(**PROPHETNET, **TOKENS))}
"""Whose output has more positions than tokens."""


@cache
def model(name: str, implementation: str | None = None) -> Any:
    """Always the same weights, sharp enough that attention is not flat."""
    torch.manual_seed(0)
    made = {**FAMILIES, **PREDICTING}[name]().eval()
    if implementation is not None:
        made.load_state_dict(model(name).state_dict())
        return zoo.grad_mode(made, implementation)
    with torch.no_grad():
        for parameter in made.parameters():
            if parameter.ndim == 2:
                parameter.mul_(2)
    return zoo.biased(made)


def inputs(name: str, source: int = SOURCE, output: int = OUTPUT) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    written = torch.randint(5, VOCABULARY, (1, output), generator=generator)
    if name == "whisper":
        return {"input_features": torch.randn(1, 8, 40, generator=generator), "decoder_input_ids": written}
    return {"input_ids": torch.randint(5, VOCABULARY, (1, source), generator=generator), "decoder_input_ids": written}


def rows_of_one(*shape: int, seed: int = 0, causal: bool = False) -> torch.Tensor:
    """Random attention in double precision."""
    scores = 2 * torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    if causal:
        scores = scores.masked_fill(torch.ones(shape[-2:], dtype=torch.bool).triu(1), -torch.inf)
    return scores.softmax(-1)


def by_hand(encoder: Any, decoder: Any) -> AttentionTensor:
    """A chain of given weights: head × source × source of each encoder level; of each decoder layer its self-attention,
    head × output × output, and its cross-attention, head × output × source."""
    source, output = decoder[0][1].shape[-1], decoder[0][1].shape[-2]
    places = {"source": slice(0, source), "output": slice(source, source + output)}
    layers = [_level(one, places["source"], places["source"], "encoder", source + output) for one in encoder]
    for own, cross in decoder:
        layers.append(_level(own, places["output"], places["output"], "self", source + output))
        layers.append(_level(cross, places["output"], places["source"], "cross", source + output))
    return AttentionTensor(tuple(layers), sequences=places)


def _level(weights: Any, own: slice, over: slice, kind: str, length: int) -> OffsetLayer:
    weights = torch.as_tensor(weights, dtype=torch.float64)
    queries, keys = weights.shape[-2:]
    seen = torch.ones(queries, keys, dtype=torch.bool).tril() if kind == "self" else None
    mask = Mask(keys, weights.device, seen, queries=None if queries == keys else queries)
    return OffsetLayer(MaterializedLayer(weights, mask), own, over, offset_mask(mask, own, over, length), kind)
