"""Tiny models of every family that reads sound, with their feature extractors."""

import wave
from functools import cache

import numpy as np
import torch
import transformers as hf

from tests import zoo

BODY = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}
CONVOLVED = {
    "conv_dim": (16,) * 7,
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 2,
    "classifier_proj_size": 16,
}
CUT = {"max_length": 128, "num_mel_bins": 32}
SEAMLESS = {"conv_dim": (16,) * 4, "conv_kernel": (5, 4, 4, 4), "conv_stride": (5, 4, 4, 4)}
"""Convolutions that hear each sample once: a position hears its own stretch and nothing else."""


def _whisper(kind):
    names = ("layers", "attention_heads", "ffn_dim")
    sizes = {
        f"{part}_{name}": size for part in ("encoder", "decoder") for name, size in zip(names, (2, 2, 48), strict=True)
    }
    places = {"max_source_positions": 100, "max_target_positions": 32, "vocab_size": 60, "num_mel_bins": 80}
    tokens = {"decoder_start_token_id": 1, "eos_token_id": 2, "pad_token_id": 0, "bos_token_id": 1}
    return kind(
        hf.WhisperConfig(d_model=32, **sizes, **places, **tokens, suppress_tokens=None, begin_suppress_tokens=None)
    )


def samples_extractor():
    return hf.Wav2Vec2FeatureExtractor()


FAMILIES = {
    "wav2vec2": (
        lambda: hf.Wav2Vec2ForSequenceClassification(hf.Wav2Vec2Config(**BODY, **CONVOLVED)),
        samples_extractor,
    ),
    "wav2vec2 layer norm": (
        lambda: hf.Wav2Vec2ForSequenceClassification(
            hf.Wav2Vec2Config(**BODY, **CONVOLVED, feat_extract_norm="layer", do_stable_layer_norm=True)
        ),
        samples_extractor,
    ),
    "hubert": (lambda: hf.HubertForSequenceClassification(hf.HubertConfig(**BODY, **CONVOLVED)), samples_extractor),
    "wavlm": (lambda: hf.WavLMForSequenceClassification(hf.WavLMConfig(**BODY, **CONVOLVED)), samples_extractor),
    "ast": (
        lambda: hf.ASTForAudioClassification(
            hf.ASTConfig(**BODY, **CUT, patch_size=8, frequency_stride=5, time_stride=5)
        ),
        lambda: hf.ASTFeatureExtractor(**CUT),
    ),
    "whisper": (
        lambda: _whisper(hf.WhisperForAudioClassification),
        lambda: hf.WhisperFeatureExtractor(chunk_length=2),
    ),
}


@cache
def model(name, implementation=None):
    """Always the same weights, sharp enough that attention is not flat."""
    torch.manual_seed(0)
    made = FAMILIES[name][0]().eval()
    if implementation is not None:
        made.load_state_dict(model(name).state_dict())
        return zoo.grad_mode(made, implementation)
    with torch.no_grad():
        for parameter in made.parameters():
            if parameter.ndim == 2:
                parameter.mul_(2)
    return zoo.biased(made)


@cache
def extractor(name):
    return FAMILIES[name][1]()


def audio(seconds=0.6, seed=0):
    """Noise that grows, so that no stretch is like another."""
    count = round(16_000 * seconds)
    noise = 0.1 * np.random.default_rng(seed).standard_normal(count)
    return (noise * np.linspace(0.2, 1, count)).astype(np.float32)


def one_stretch_model(place):
    """Answers from the stretch of one position alone: nothing mixes positions, and the others are not pooled."""

    class OneStretch(hf.Wav2Vec2ForSequenceClassification):
        def forward(self, input_values, **_):
            states = self.projector(self.wav2vec2(input_values).last_hidden_state)
            return hf.modeling_outputs.SequenceClassifierOutput(logits=self.classifier(states[:, place]))

    torch.manual_seed(0)
    looks = {"num_conv_pos_embeddings": 15, "num_conv_pos_embedding_groups": 2, "classifier_proj_size": 16}
    # Layer norms look at one position; the group norm of the usual layout at all of them.
    config = hf.Wav2Vec2Config(**BODY, **SEAMLESS, **looks, feat_extract_norm="layer", do_stable_layer_norm=True)
    made = OneStretch(config).eval()
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            if "original0" in name or ("pos_conv" in name and "bias" in name) or "attention.out_proj" in name:
                parameter.zero_()
    OneStretch.__name__ = "Wav2Vec2ForSequenceClassification"
    return made


def write_wave(path, samples, rate=16_000, width=2, channels=1):
    whole = np.round(samples * (2 ** (8 * width - 1) - 1)).astype(np.int64)
    if width == 1:
        written = (whole + 128).astype(np.uint8).tobytes()
    else:
        written = whole.astype("<i8").view(np.uint8).reshape(-1, 8)[:, :width].tobytes()
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(rate)
        file.writeframes(written)
    return path
