"""Audio as people hand it over, and its positions: segments of time, for every family that reads it."""

from itertools import pairwise

import numpy as np
import pytest
import torch
import transformers as hf

from attnx.adapters.audio import MOMENT, Timing, load_audio, measure_timing, prepare_audio
from attnx.errors import InputError
from tests.sound_zoo import FAMILIES, audio, extractor, model, write_wave


@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_a_file_of_any_width_is_read(tmp_path, width):
    samples = audio()
    read, notes = load_audio(write_wave(tmp_path / "a.wav", samples, width=width), 16_000)
    np.testing.assert_allclose(read.samples, samples, atol=2.0 ** (1 - 8 * width) + 1e-6)
    assert notes == ()


def test_channels_are_averaged_with_a_note(tmp_path):
    both = np.stack([audio(seed=1), audio(seed=2)], 1)
    read, notes = load_audio(write_wave(tmp_path / "a.wav", both.ravel(), channels=2), 16_000)
    np.testing.assert_allclose(read.samples, both.mean(1), atol=1e-4)
    assert notes == ("the audio has 2 channels: their mean was read",)


def test_another_rate_is_resampled_with_a_note():
    tone = np.sin(2 * np.pi * 440 * np.arange(8_000) / 8_000)
    read, notes = load_audio({"array": tone, "sampling_rate": 8_000}, 16_000)
    expected = np.sin(2 * np.pi * 440 * np.arange(16_000) / 16_000)
    assert len(read.samples) == 16_000
    np.testing.assert_allclose(read.samples[800:-800], expected[800:-800], atol=1e-2)
    assert "resampled" in notes[0]


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ("what is this", "not text"),
        ("nowhere.wav", "no audio file"),
        ([], "samples of one channel"),
        ([0.0, float("nan")], "NaN"),
        ({"array": [0.0]}, "sampling_rate"),
        ({"array": [0.0], "sampling_rate": 3}, "sampling_rate"),
    ],
)
def test_what_is_no_audio_is_refused(item, message):
    with pytest.raises(InputError, match=message):
        load_audio(item, 16_000)


def test_a_file_that_is_no_wave_is_refused(tmp_path):
    (tmp_path / "a.wav").write_bytes(b"ID3 is an MP3")
    with pytest.raises(InputError, match="16-bit PCM"):
        load_audio(tmp_path / "a.wav", 16_000)


def convolved(kernel, stride, padding=0):
    weights = np.random.default_rng(0).normal(size=(kernel, 3))

    def frames(samples):
        padded = np.pad(samples, padding)
        starts = range(0, len(padded) - kernel + 1, stride)
        return np.stack([padded[start : start + kernel] for start in starts]) @ weights

    return frames


@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "length"),
    [(16, 10, 0, 1024), (5, 2, 2, 3000), (400, 320, 0, 32_000), (400, 160, 200, 32_000), (345, 320, 0, 16_000)],
)
def test_what_frames_hear_is_measured_exactly(kernel, stride, padding, length):
    expected = Timing(stride, kernel / 2 - padding, kernel)
    frames = convolved(kernel, stride, padding)
    assert measure_timing(frames, length) == expected
    # Audio is normalised as a whole, and frames of padding, which hear nothing, may follow.
    assert measure_timing(lambda samples: frames(samples) + 7 * samples.sum(), length) == expected
    assert measure_timing(lambda samples: np.pad(frames(samples), ((0, 40), (0, 0))), length) == expected


def test_frames_that_hear_everything_or_that_are_few_have_no_time():
    mixing = np.random.default_rng(0).normal(size=(1024, 100, 3))
    assert measure_timing(lambda samples: np.einsum("t,tcw->cw", samples, mixing), 1024) is None
    assert measure_timing(convolved(8, 8), 32) is None


def test_the_timing_of_patches_of_frames_follows_from_both():
    frames, patches = Timing(160.0, 200.0, 400.0), Timing(10.0, 8.0, 16.0)
    # The first patch hears frames 0 to 15: samples 0 to 15 · 160 + 400.
    assert patches.of_frames(frames) == Timing(1600.0, (15 * 160 + 400) / 2, 15 * 160 + 400)
    assert patches.of_frames(MOMENT) == patches


def test_every_moment_belongs_to_one_column():
    shares = Timing(10.0, 8.0, 16.0).shares(5, 64)
    assert [(share.start, share.stop) for share in shares] == [(0, 13), (13, 23), (23, 33), (33, 43), (43, 64)]


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
def test_an_impulse_in_silence_changes_most_the_column_of_its_segment(name):
    silence = np.zeros(9_600, np.float32)
    quiet = prepared(name, silence)
    before = columns(name, quiet)
    times = [quiet.positions[word.positions[0]].time for word in quiet.words]
    for number in (len(times) // 4, len(times) // 2, len(times) - 3):
        impulse = silence.copy()
        impulse[round(16_000 * sum(times[number]) / 2)] = 1
        change = (columns(name, prepared(name, impulse)) - before).double()
        # Audio is normalised as a whole: what all columns share is no response.
        change = (change - change.median(1, keepdim=True).values).abs().amax(-1).sum(0)
        assert int(change.argmax()) == number


@pytest.mark.parametrize("name", FAMILIES)
def test_segments_meet_cover_the_audio_and_own_each_number_once(name):
    ready = prepared(name, audio())
    times = [ready.positions[word.positions[0]].time for word in ready.words]
    assert times[0][0] == 0
    assert all(end == start for (_, end), (start, _) in pairwise(times))
    assert times[-1][1] == pytest.approx(0.6, abs=1e-6)
    counted = torch.zeros_like(ready.inputs[ready.audio_input.entry])
    for cell in ready.audio_input.cells:
        if cell is not None:
            counted[cell] += 1
    assert bool((counted == 1).all())


@pytest.mark.parametrize("name", ["ast", "whisper"])
def test_padding_is_named_and_no_content(name):
    ready = prepared(name, audio())
    padding = [position for position in ready.positions if position.token == "[PAD]"]
    assert padding
    assert all(position.special and position.time is None for position in padding)
    assert f"{len(padding)} of {len(ready.positions)} positions" in " ".join(ready.notes)


def test_padding_behind_samples_is_dropped():
    batch = {"input_values": torch.randn(1, 9_600), "attention_mask": torch.ones(1, 9_600)}
    batch["attention_mask"][:, 6_400:] = 0
    assert len(prepared("wav2vec2", batch).positions) == len(prepared("wav2vec2", np.zeros(6_400)).positions)


def test_patches_of_one_segment_are_one_word_with_bands():
    ready = prepared("ast", audio())
    pieces = [ready.positions[index] for index in ready.words[2].positions]
    assert len({piece.time for piece in pieces}) == 1
    assert len(pieces) == 5
    assert pieces[0].band[0] == 0
    assert all(low.band[1] == high.band[0] for low, high in pairwise(pieces))


@pytest.mark.parametrize("name", ["ast", "whisper"])
def test_what_is_longer_than_the_model_reads_is_an_error_or_cut(name):
    with pytest.raises(InputError, match="truncate=True"):
        prepared(name, audio(4.0))
    assert "was cut" in prepared(name, audio(4.0), truncate=True).notes[0]


def test_processed_audio_has_the_same_positions():
    samples = audio()
    processed = extractor("ast")(samples, sampling_rate=16_000, return_tensors="pt")
    by_hand, ready = prepared("ast", processed), prepared("ast", samples)
    assert [position.time for position in by_hand.positions[:13]] == [pos.time for pos in ready.positions[:13]]
    torch.testing.assert_close(by_hand.inputs["input_values"], ready.inputs["input_values"])
    without = prepare_audio(model("ast"), object(), processed)
    assert "without its feature extractor" in without.notes[0]


def test_a_model_of_another_layout_is_refused():
    sizes = {"vocab_size": 20, "d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2}
    config = hf.Speech2TextConfig(**sizes, decoder_attention_heads=2, conv_channels=16)
    with pytest.raises(InputError, match="cannot be placed in time"):
        prepare_audio(hf.Speech2TextForConditionalGeneration(config), extractor("whisper"), audio())


@pytest.mark.parametrize(
    ("processor", "samples", "message"),
    [
        (extractor("wav2vec2"), "the key to the cabinets", "not text"),
        (extractor("wav2vec2"), np.zeros(100), "longer"),
        (object(), audio(), "AutoFeatureExtractor"),
        (extractor("wav2vec2"), {"input_values": torch.zeros(2, 2, 9)}, "those of one audio, samples"),
        (extractor("wav2vec2"), {"input_values": torch.full((900,), torch.nan)}, "NaN or infinite"),
    ],
)
def test_bad_input_says_what_to_do(processor, samples, message):
    with pytest.raises(InputError, match=message):
        prepare_audio(model("wav2vec2"), processor, samples)


def test_the_caller_may_change_the_samples_later():
    samples = audio()
    ready = prepared("wav2vec2", samples)
    samples[:] = 0
    assert np.abs(ready.audio_input.audio.samples).max() > 0
