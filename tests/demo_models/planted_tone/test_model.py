"""The model of sound that ships: it hears the class, and each stretch of its tone is found."""

from pathlib import Path

import numpy as np
import pytest
import torch

import attnx
from attnx.attribution.baselines import silence_audio
from attnx.demo_models.planted_tone import LABELS, demo_directory, generate, load_demo, save
from attnx.errors import InputError
from attnx.pipeline import load
from examples.training.planted_tone import Recipe, accuracy, train


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


def test_the_shipped_model_is_small_and_loads_as_any_other(demo):
    with demo_directory() as directory:
        assert sum(file.stat().st_size for file in Path(directory).iterdir()) < 1_000_000
    model, extractor = load("planted-tone")
    audio = generate(1, seed=81)[0].audio
    np.testing.assert_allclose(
        attnx.explain(model, extractor, audio)["rollout"], attnx.explain(*demo, audio)["rollout"], atol=1e-6
    )


def test_training_is_the_same_for_the_same_seed_and_leaves_the_callers_randomness_alone(tmp_path):
    recipe = Recipe(steps=2, batch=4)
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    losses = []
    one, two = train(recipe, report=lambda step, loss: losses.append(loss)), train(recipe)
    assert torch.equal(torch.rand(1), expected)
    assert len(losses) == 2
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))
    save(one, tmp_path)
    loaded, _ = load(str(tmp_path))
    assert (loaded.classifier.dense.weight - one.classifier.dense.weight).abs().max() < 1e-3
    assert next(one.parameters()).dtype == torch.float32


def test_no_steps_is_an_error():
    with pytest.raises(InputError, match="at least 1"):
        train(Recipe(steps=0))
