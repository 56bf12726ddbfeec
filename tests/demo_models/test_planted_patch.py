"""Images with a planted patch: the class is in that patch alone, and methods find it, against chance."""

import numpy as np
import pytest
import torch
import transformers as hf

import attnx
from attnx.benchmarks.suites import find_patch as find
from attnx.demo_models import DECOYS, GRID, generate
from attnx.demo_models.planted_patch import LABELS, MARKS, PATCH, draw, load_demo
from attnx.errors import ChoiceError, InputError
from examples.training.planted_patch import Recipe, _config, accuracy


def test_the_planted_patch_shows_the_mark_of_the_class():
    for planted in generate(40, seed=3):
        patch = np.asarray(planted.image.crop(planted.box)).astype(float).mean(-1)
        contrasts = {}
        for label, lines in MARKS.items():
            mask = np.array([[one == "x" for one in line] for line in lines])
            contrasts[label] = patch[mask].mean() - patch[~mask].mean()
        assert max(contrasts, key=contrasts.get) == planted.label


def test_nothing_but_the_planted_patch_tells_the_class():
    """With it covered, the other patches are drawn alike for every class: their mean and spread agree."""
    pictures, labels, places = draw(400, np.random.default_rng(0))
    patches = pictures.reshape(-1, GRID, PATCH, GRID, PATCH, 3).swapaxes(2, 3).reshape(-1, GRID**2, PATCH * PATCH * 3)
    patches = patches.astype(np.float32)
    patches[np.arange(len(patches)), places] = np.nan
    means = np.array([np.nanmean(patches[labels == label]) for label in range(len(LABELS))])
    spreads = np.array([np.nanstd(patches[labels == label]) for label in range(len(LABELS))])
    assert np.ptp(means) < 6
    assert np.ptp(spreads) < 6


def test_places_and_classes_are_spread_evenly():
    _, labels, places = draw(640, np.random.default_rng(0))
    assert np.abs(np.bincount(labels, minlength=len(LABELS)) - 160).max() < 50
    assert np.abs(np.bincount(places, minlength=GRID**2) - 10).max() < 15


def test_decoys_are_as_bright_as_marks():
    picture = np.asarray(generate(1, seed=5)[0].image).astype(float).mean(-1)
    bright = picture.reshape(GRID, PATCH, GRID, PATCH).swapaxes(1, 2).reshape(GRID**2, -1).max(1) > 150
    assert bright.sum() == 1 + DECOYS


def test_an_enlarged_picture_keeps_its_patch_in_place():
    small, large = generate(1, seed=7)[0], generate(1, seed=7, enlarged=4)[0]
    assert large.image.size == (256, 256)
    assert large.box == tuple(4 * edge for edge in small.box)
    crop = np.asarray(large.image.crop(large.box))[::4, ::4]
    np.testing.assert_array_equal(crop, np.asarray(small.image.crop(small.box)))


@pytest.mark.parametrize("wrong", [{"count": 0}, {"count": 1, "enlarged": 0}])
def test_no_pictures_is_an_error(wrong):
    with pytest.raises(InputError, match="at least 1"):
        generate(**wrong)


@pytest.fixture(scope="module")
def demo():
    return load_demo()


def test_the_shipped_model_classifies_new_pictures(demo):
    assert accuracy(demo[0], count=200) > 0.97


def test_the_processor_gives_the_pixels_of_training(demo):
    pictures = generate(100, seed=78)
    pixels = demo[1]([one.image for one in pictures], return_tensors="pt")["pixel_values"]
    with torch.no_grad():
        found = demo[0](pixel_values=pixels).logits.argmax(-1)
    assert np.mean([LABELS[int(index)] == one.label for index, one in zip(found, pictures, strict=True)]) > 0.95


def finds(finding):
    """Beyond chance, and beyond seeing only what stands out, with all of the interval."""
    assert finding.low <= finding.found <= finding.high
    assert (finding.chance, finding.striking) == (1 / 64, 1 / 4)
    assert finding.rank < 24
    return finding.low > finding.striking


@pytest.mark.parametrize("method", ["raw", "rollout"])
def test_a_method_finds_the_planted_patch(demo, method):
    assert finds(find(*demo, generate(24, seed=77), methods=[method])[method])


@pytest.mark.slow
def test_every_method_and_reference_finds_the_planted_patch(demo):
    findings = find(*demo, generate(100, seed=77), references=("gradient", "blankout"))
    assert set(findings) == {"raw", "rollout", "flow", "gradient", "blankout"}
    assert all(map(finds, findings.values()))


def test_a_model_that_learnt_nothing_sees_at_best_what_stands_out(demo):
    torch.manual_seed(0)
    model = hf.ViTForImageClassification(_config(Recipe())).eval()
    findings = find(model, demo[1], generate(60, seed=77), methods=["raw", "rollout"])
    for finding in findings.values():
        assert finding.low <= finding.striking


def test_finding_takes_the_options_of_explain(demo):
    with pytest.raises(ChoiceError, match="discard_ratio must be at least 0"):
        find(*demo, generate(1), methods=["rollout"], discard_ratio=2)
    early = find(*demo, generate(3, seed=77), methods=["raw"], layer=1)["raw"]
    assert early.found == 1


def test_the_box_of_the_best_patch_is_the_box_that_was_planted(demo):
    """Through resizing, in the pixels of the original."""
    for planted in generate(5, seed=80, enlarged=3):
        e = attnx.explain(*demo, planted.image, methods="rollout")
        best = max(e.positions[1:], key=lambda one: e.scores("rollout")[one.index])
        assert best.box == pytest.approx(planted.box)
