"""Sounds with a planted tone: the class is in that tone and nowhere else."""

import numpy as np
import pytest

from attnx.demo_models.planted_tone import (
    DECOY_PITCHES,
    DECOYS,
    LABELS,
    PITCHES,
    RATE,
    SECONDS,
    TONE,
    Planted,
    draw,
    generate,
)
from attnx.errors import InputError


def strength(samples, pitch):
    time = np.arange(len(samples)) / RATE
    return abs(np.exp(-2j * np.pi * pitch * time) @ samples) / len(samples)


def loudest(samples, pitches):
    return max(pitches, key=lambda pitch: strength(samples, pitch))


def planted_part(one):
    return one.audio[round(one.start * RATE) : round(one.end * RATE)]


def test_the_same_seed_draws_the_same_sounds():
    one, two, other = (generate(3, seed=seed) for seed in (1, 1, 2))
    assert [each.audio.tobytes() for each in one] == [each.audio.tobytes() for each in two]
    assert [each.audio.tobytes() for each in one] != [each.audio.tobytes() for each in other]
    assert {len(each.audio) for each in one} == {round(SECONDS * RATE)}


def test_the_planted_tone_has_the_pitch_of_the_class():
    for one in generate(40, seed=3):
        assert loudest(planted_part(one), [*PITCHES.values(), *DECOY_PITCHES]) == PITCHES[one.label]


def test_nothing_but_the_planted_tone_has_the_pitch_of_a_class():
    for one in generate(40, seed=4):
        rest = one.audio.copy()
        rest[round(one.start * RATE) : round(one.end * RATE)] = 0
        parts = np.array_split(rest, round(SECONDS / TONE))
        assert max(strength(part, pitch) for part in parts for pitch in PITCHES.values()) < 0.02
        assert strength(planted_part(one), PITCHES[one.label]) > 0.03


def test_other_tones_are_as_loud_as_the_planted_one():
    tones = []
    for one in generate(60, seed=5):
        parts = [one.audio[at : at + round(TONE * RATE)] for at in range(0, len(one.audio), round(TONE * RATE))]
        found = [max(strength(part, pitch) for pitch in DECOY_PITCHES) for part in parts]
        tones.append((strength(planted_part(one), PITCHES[one.label]), max(found)))
    planted, decoys = np.array(tones).T
    assert planted.mean() < 1.2 * decoys.mean()  # the loudest of three, as far as parts of the sound hold all of it
    assert DECOYS == 3


@pytest.mark.slow
def test_places_and_classes_are_spread_evenly():
    _, labels, starts = draw(400, np.random.default_rng(0))
    assert np.abs(np.bincount(labels, minlength=len(LABELS)) - 100).max() < 30
    assert np.histogram(starts, 4, (0, SECONDS - TONE))[0].min() > 60


def test_stretches_that_the_tone_fills_by_half_are_right():
    one = Planted(np.zeros(1), LABELS[0], start=0.10)
    times = [(0.08 * number, 0.08 * (number + 1)) for number in range(6)]
    assert one.filled(times) == (1, 2)  # 0.10 to 0.26: of the second 75 %, all of the third, a quarter of the fourth


def test_no_sound_is_an_error():
    with pytest.raises(InputError, match="at least 1"):
        generate(0)
