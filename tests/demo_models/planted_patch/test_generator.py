"""Pictures with a planted patch: the class is in that patch and nowhere else."""

import numpy as np
import pytest

from attnx.demo_models import DECOYS, GRID, generate
from attnx.demo_models.planted_patch import LABELS, MARKS, PATCH, draw
from attnx.errors import InputError


def test_the_same_seed_draws_the_same_pictures():
    one, two, other = (generate(5, seed=seed) for seed in (1, 1, 2))
    assert [p.image.tobytes() for p in one] == [p.image.tobytes() for p in two]
    assert [p.image.tobytes() for p in one] != [p.image.tobytes() for p in other]


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
