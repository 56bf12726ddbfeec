"""Positions of sound are stretches of time, for every family that reads it."""

from itertools import pairwise

import numpy as np
import pytest
import torch

from attnx.adapters.audio import prepare_audio
from attnx.errors import InputError
from tests.sound_zoo import FAMILIES, audio, extractor, model


def prepared(name, samples, **options):
    return prepare_audio(model(name), extractor(name), samples, **options)


def columns(name, ready):
    """band × column × width: what the modules in front of the model's attention make of the input."""
    suffix = {"whisper": "encoder.conv2", "ast": "patch_embeddings.projection"}.get(name, "feature_extractor")
    module = next(module for path, module in model(name).named_modules() if path.endswith(suffix))
    outputs = []
    with module.register_forward_hook(lambda _module, _inputs, output: outputs.append(output[0])), torch.no_grad():
        model(name)(**{key: tensor[None] for key, tensor in ready.inputs.items()})
    return outputs[0].movedim(0, -1) if name == "ast" else outputs[0].T[None]


@pytest.mark.parametrize("name", FAMILIES)
def test_a_click_in_silence_is_heard_most_in_its_own_stretch(name):
    silence = np.zeros(9_600, np.float32)
    quiet = prepared(name, silence)
    before = columns(name, quiet)
    times = [quiet.positions[word.positions[0]].time for word in quiet.words]
    for place in (len(times) // 4, len(times) // 2, len(times) - 3):
        clicked = silence.copy()
        clicked[round(16_000 * sum(times[place]) / 2)] = 1
        after = columns(name, prepared(name, clicked))
        change = (after - before).double()
        # A whole sound is normalised: what all columns share is no click.
        change = (change - change.median(1, keepdim=True).values).abs().amax(-1).sum(0)
        assert int(change.argmax()) == place


@pytest.mark.parametrize("name", FAMILIES)
def test_stretches_meet_and_cover_the_sound(name):
    one = prepared(name, audio())
    times = [one.positions[word.positions[0]].time for word in one.words]
    assert times[0][0] == 0
    assert all(end == start for (_, end), (start, _) in pairwise(times))
    assert times[-1][1] == pytest.approx(0.6, abs=1e-6)


@pytest.mark.parametrize("name", FAMILIES)
def test_every_number_that_goes_in_is_one_positions_own(name):
    one = prepared(name, audio())
    counted = torch.zeros_like(one.inputs[one.audio_input.entry])
    for cell in one.audio_input.cells:
        if cell is not None:
            counted[cell] += 1
    assert bool((counted == 1).all())


@pytest.mark.parametrize("name", ["ast", "whisper"])
def test_padding_is_named_and_no_content(name):
    one = prepared(name, audio())
    padding = [position for position in one.positions if position.token == "[PAD]"]
    assert padding
    assert all(position.special and position.time is None for position in padding)
    assert f"{len(padding)} of {len(one.positions)} positions" in " ".join(one.notes)


def test_padding_behind_samples_is_dropped():
    given = {"input_values": torch.randn(1, 9_600), "attention_mask": torch.ones(1, 9_600)}
    given["attention_mask"][:, 6_400:] = 0
    assert len(prepared("wav2vec2", given).positions) == len(prepared("wav2vec2", np.zeros(6_400)).positions)


def test_patches_of_one_stretch_are_one_word_with_bands():
    one = prepared("ast", audio())
    word = one.words[2]
    pieces = [one.positions[place] for place in word.positions]
    assert len({piece.time for piece in pieces}) == 1
    assert len(pieces) == 5
    assert pieces[0].band[0] == 0
    assert all(low.band[1] == high.band[0] for low, high in pairwise(pieces))


@pytest.mark.parametrize("name", ["ast", "whisper"])
def test_what_is_longer_than_the_model_reads_is_an_error_or_cut(name):
    with pytest.raises(InputError, match="truncate=True"):
        prepared(name, audio(4.0))
    assert "was cut" in prepared(name, audio(4.0), truncate=True).notes[0]


def test_what_is_too_short_for_one_position_is_refused():
    with pytest.raises(InputError, match="longer"):
        prepared("wav2vec2", np.zeros(100))


def test_processed_sound_has_the_same_positions():
    samples = audio()
    given = extractor("ast")(samples, sampling_rate=16_000, return_tensors="pt")
    by_hand, own = prepared("ast", given), prepared("ast", samples)
    assert [one.time for one in by_hand.positions[:13]] == [one.time for one in own.positions[:13]]
    torch.testing.assert_close(by_hand.inputs["input_values"], own.inputs["input_values"])


def test_a_model_that_hears_in_another_way_is_refused():
    from transformers import Speech2TextConfig, Speech2TextForConditionalGeneration

    sizes = {"vocab_size": 20, "d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2}
    other = Speech2TextForConditionalGeneration(Speech2TextConfig(**sizes, decoder_attention_heads=2, conv_channels=16))
    with pytest.raises(InputError, match="cannot be placed in time"):
        prepare_audio(other, extractor("whisper"), audio())


def test_a_text_is_refused():
    with pytest.raises(InputError, match="not text"):
        prepared("wav2vec2", "the key to the cabinets")


def test_sound_needs_a_feature_extractor():
    with pytest.raises(InputError, match="AutoFeatureExtractor"):
        prepare_audio(model("wav2vec2"), object(), audio())


def test_the_caller_may_change_the_samples_later():
    samples = audio()
    one = prepared("wav2vec2", samples)
    samples[:] = 0
    assert np.abs(one.audio_input.audio.samples).max() > 0
