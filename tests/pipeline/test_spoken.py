"""A sentence that espeak-ng speaks, through every family that reads sound."""

import json
from itertools import pairwise

import numpy as np
import pytest
import torch
import transformers as hf

import attnx
from tests import whisper_tiny
from tests.sound_zoo import BODY, CONVOLVED, FAMILIES, extractor, model

WORDS = ("yellow", "garden")


@pytest.fixture(scope="module")
def spoken():
    return whisper_tiny.speak(WORDS)


@pytest.mark.parametrize("name", FAMILIES)
def test_stretches_cover_the_sentence_and_padding_is_named(name, spoken):
    cut = spoken.audio[:18_000]  # what the smallest of these models reads
    e = attnx.explain(model(name), extractor(name), cut, methods="rollout", references="lrp")
    times = [e.positions.when(one.positions) for one in e.time_segments]
    assert times[0][0] == 0
    assert times[-1][1] == pytest.approx(len(cut) / 16_000, abs=1e-6)
    assert all(one[1] == two[0] for one, two in pairwise(times))
    padded = [one for one in e.positions if one.token == "[PAD]"]
    assert all(one.special and one.time is None for one in padded)
    assert bool(padded) == any("padding" in note for note in e.notes)
    assert np.isfinite(e["lrp"]).all()


def test_words_of_a_ctc_head_are_explained_with_its_own_tokenizer(spoken, tmp_path):
    (tmp_path / "vocab.json").write_text(json.dumps({"<pad>": 0, "|": 1, "E": 2, "T": 3, "A": 4}))
    tokenizer = hf.Wav2Vec2CTCTokenizer(str(tmp_path / "vocab.json"), unk_token="<pad>", bos_token=None, eos_token=None)
    processor = hf.Wav2Vec2Processor(hf.Wav2Vec2FeatureExtractor(), tokenizer)
    torch.manual_seed(3)
    writer = hf.Wav2Vec2ForCTC(hf.Wav2Vec2Config(**BODY, **CONVOLVED, vocab_size=5, pad_token_id=0)).eval()
    with torch.no_grad():
        writer.lm_head.weight.mul_(20)
        given = processor.feature_extractor(spoken.audio, sampling_rate=16_000, return_tensors="pt")
        ids = writer(**given).logits[0].argmax(-1)
    e = attnx.explain(writer, processor, spoken.audio, position="all", methods="rollout", references=())[0]
    assert [one.text for one in e.words if one.text != "…"] == tokenizer.decode(ids).split()
    assert sorted(place for one in e.words for place in one.positions) == list(range(len(e.positions)))
