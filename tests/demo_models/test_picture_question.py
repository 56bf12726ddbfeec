"""Questions about images: the color that is asked for is in one patch alone, and the shipped model answers."""

import numpy as np
import pytest
import torch

from attnx.demo_models.picture_question import (
    COLOURS,
    COLUMNS,
    GRID,
    PATCH,
    ROWS,
    build_processor,
    draw,
    generate,
    load_demo,
)
from attnx.errors import InputError
from examples.training.picture_question import accuracy, lesson


def colour_of(image, row, column):
    """The colour that a patch has many pixels of; None for the background."""
    box = (column * PATCH, row * PATCH, (column + 1) * PATCH, (row + 1) * PATCH)
    pixels = np.asarray(image.crop(box)).astype(float).reshape(-1, 3)
    near = {name: (np.abs(pixels - np.array(shade)).max(-1) < 30).sum() for name, shade in COLOURS.items()}
    return max(near, key=near.get) if max(near.values()) > 8 else None


def test_the_colour_of_the_answer_is_in_its_patch_and_in_no_other():
    for asked in generate(30, seed=3):
        found = {(row, column): colour_of(asked.image, row, column) for row in range(GRID) for column in range(GRID)}
        assert [place for place, one in found.items() if one == asked.colour] == [asked.cell]


def test_the_question_names_the_part_in_which_the_patch_is():
    for asked in generate(30, seed=4):
        row, column = asked.cell
        assert asked.question.split()[-3:-1] == [ROWS[row // 3], COLUMNS[column // 2]]


def test_every_part_has_one_square():
    asked = draw(np.random.default_rng(0))
    lit = np.array([[colour_of(asked.image, row, column) is not None for column in range(GRID)] for row in range(GRID)])
    assert (lit.reshape(2, 3, 3, 2).sum((1, 3)) == 1).all()


@pytest.mark.parametrize("wrong", [{"count": 0}, {"count": 1, "enlarged": 0}])
def test_no_pictures_is_an_error(wrong):
    with pytest.raises(InputError, match="at least 1"):
        generate(**wrong)


@pytest.mark.slow
def test_it_answers_new_questions():
    assert accuracy(load_demo()[0], count=500) > 0.99


def test_a_lesson_is_what_the_processor_makes():
    asked = generate(3, seed=5)
    texts = [f"<image> {one.question} {one.answer} <eos>" for one in asked]
    given = build_processor()(images=[one.image for one in asked], text=texts, padding=True, return_tensors="pt")
    made = lesson(asked)
    assert torch.equal(given["input_ids"], made["input_ids"])
    torch.testing.assert_close(given["pixel_values"], made["pixel_values"])
