"""Sound as people hand it over."""

import numpy as np
import pytest

from attnx.adapters.audio import load_audio
from attnx.errors import InputError
from tests.sound_zoo import audio, write_wave


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
    assert len(read.samples) == 16_000
    expected = np.sin(2 * np.pi * 440 * np.arange(16_000) / 16_000)
    np.testing.assert_allclose(read.samples[800:-800], expected[800:-800], atol=1e-2)
    assert "resampled" in notes[0]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("what is this", "not text"),
        ("nowhere.wav", "no audio file"),
        ([], "samples of one channel"),
        ([0.0, float("nan")], "NaN"),
        ({"array": [0.0]}, "sampling_rate"),
    ],
)
def test_what_is_no_sound_is_refused(given, says):
    with pytest.raises(InputError, match=says):
        load_audio(given, 16_000)


def test_a_file_that_is_no_wave_is_refused(tmp_path):
    (tmp_path / "a.wav").write_bytes(b"ID3 is an MP3")
    with pytest.raises(InputError, match="16-bit PCM"):
        load_audio(tmp_path / "a.wav", 16_000)
