"""Clicks in silence tell when columns hear, whatever makes the columns."""

import numpy as np
import pytest

from attnx.adapters.audio import MOMENT, Timing, measure_timing


def convolved(kernel, stride, padding=0):
    weights = np.random.default_rng(0).normal(size=(kernel, 3))

    def hearing(audio):
        padded = np.pad(audio, padding)
        starts = range(0, len(padded) - kernel + 1, stride)
        return np.stack([padded[start : start + kernel] for start in starts]) @ weights

    return hearing


@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "length"),
    [
        (16, 10, 0, 1024),
        (16, 10, 0, 128),
        (8, 5, 0, 32),
        (8, 8, 0, 32),
        (5, 2, 2, 3000),
        (3, 2, 1, 40),
        (400, 320, 0, 32_000),
        (400, 160, 200, 32_000),
        (345, 320, 0, 16_000),
    ],
)
def test_frames_and_samples_are_told_exactly(kernel, stride, padding, length):
    found = measure_timing(convolved(kernel, stride, padding), length)
    assert found == Timing(stride, kernel / 2 - padding, kernel)


def test_what_is_added_to_all_columns_is_no_hearing_of_a_click():
    plain = convolved(16, 10)
    normed = measure_timing(lambda audio: plain(audio) + 7 * audio.sum(), 1024)
    assert normed == measure_timing(plain, 1024)


def test_columns_of_padding_behind_the_sound_hear_nothing():
    plain = convolved(400, 160, 200)
    padded = measure_timing(lambda audio: np.pad(plain(audio), ((0, 2_800), (0, 0))), 32_000)
    assert padded == Timing(160, 0, 400)


def test_columns_that_hear_everything_have_no_time():
    mixing = np.random.default_rng(0).normal(size=(1024, 100, 3))
    assert measure_timing(lambda audio: np.einsum("t,tcw->cw", audio, mixing), 1024) is None


def test_columns_of_columns_are_timed_by_both():
    frames, patches = Timing(160.0, 200.0, 400.0), Timing(10.0, 8.0, 16.0)
    # The first patch hears frames 0 to 15: samples 0 to 15 · 160 + 400.
    assert patches.of_frames(frames) == Timing(1600.0, (15 * 160 + 400) / 2, 15 * 160 + 400)
    assert patches.of_frames(MOMENT) == patches


def test_every_moment_is_one_columns_own():
    shares = Timing(10.0, 8.0, 16.0).shares(5, 64)
    assert [(one.start, one.stop) for one in shares] == [(0, 13), (13, 23), (23, 33), (33, 43), (43, 64)]
