"""Audio with a planted tone: the class is in that tone alone, and the segments that it fills are found."""

import numpy as np
import pytest
import torch

import attnx
from attnx.attribution.baselines import silence_audio
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
    load_demo,
)
from examples.training.planted_tone import accuracy


def strength(samples, pitch):
    time = np.arange(len(samples)) / RATE
    return abs(np.exp(-2j * np.pi * pitch * time) @ samples) / len(samples)


def loudest(samples, pitches):
    return max(pitches, key=lambda pitch: strength(samples, pitch))


def planted_part(one):
    return one.audio[round(one.start * RATE) : round(one.end * RATE)]


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


@pytest.fixture(scope="module")
def demo():
    return load_demo()


@pytest.mark.slow
def test_the_shipped_model_classifies_new_sounds(demo):
    assert accuracy(demo[0], count=200) > 0.98


@pytest.mark.slow
def test_silence_in_place_of_the_planted_tone_loses_the_class_and_elsewhere_does_not(demo):
    from attnx.adapters import adapter_for

    model, extractor = demo
    kept = lost = 0
    for one in generate(40, seed=21):
        prepared = adapter_for(model).prepare(model, extractor, one.audio)
        times = [prepared.positions[word.positions[0]].time for word in prepared.words]
        audio_input = [number for number, (start, end) in enumerate(times) if end > one.start and start < one.end]
        apart = [number for number in range(len(times)) if min(abs(number - near) for near in audio_input) > 1][
            : len(audio_input)
        ]
        for time_segments in (audio_input, apart):
            quiet = silence_audio(
                prepared, [place for number in time_segments for place in prepared.words[number].positions]
            )
            with torch.no_grad():
                found = int(model(**{name: given[None] for name, given in quiet.inputs.items()}).logits.argmax())
            right = LABELS[found] == one.label
            kept, lost = kept + (right and time_segments is apart), lost + (not right and time_segments is audio_input)
    assert kept >= 38
    assert lost >= 20  # one class in four is right by chance


@pytest.mark.slow
def test_the_best_stretch_is_where_the_tone_is(demo):
    hits = []
    for one in generate(20, seed=31):
        e = attnx.explain(*demo, one.audio, methods="rollout", references="lrp")
        (best,) = e.top(1, "lrp")
        start, end = e.positions[best.positions[0]].time
        hits.append(start < one.end and end > one.start)
    assert np.mean(hits) >= 0.9
