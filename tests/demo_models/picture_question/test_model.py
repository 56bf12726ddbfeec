"""The image–text decoder that ships: small, right, and made by its recipe."""

import pytest
import torch

from attnx.demo_models.picture_question import build_processor, demo_directory, generate, load_demo, save
from examples.training.picture_question import Recipe, accuracy, lesson, train


@pytest.mark.slow
def test_it_answers_new_questions():
    assert accuracy(load_demo()[0], count=500) > 0.99


def test_it_takes_less_than_two_megabytes():
    with demo_directory() as directory:
        assert sum(one.stat().st_size for one in directory.iterdir()) < 2_000_000


def test_a_lesson_is_what_the_processor_makes():
    asked = generate(3, seed=5)
    texts = [f"<image> {one.question} {one.answer} <eos>" for one in asked]
    given = build_processor()(images=[one.image for one in asked], text=texts, padding=True, return_tensors="pt")
    made = lesson(asked)
    assert torch.equal(given["input_ids"], made["input_ids"])
    torch.testing.assert_close(given["pixel_values"], made["pixel_values"])


def test_the_same_recipe_trains_the_same_model_and_it_can_be_loaded(tmp_path):
    recipe = Recipe(steps=2, batch=2)
    one, two = (train(recipe).state_dict() for _ in range(2))
    assert all(torch.equal(one[name], two[name]) for name in one)
    save(train(recipe), tmp_path / "model")
    from attnx.pipeline import load

    model, processor = load(str(tmp_path / "model"))
    assert type(model).__name__ == "LlavaForConditionalGeneration"
    assert processor.image_token == "<image>"
