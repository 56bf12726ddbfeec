"""Text that is written beside a picture: each word over the words before it, and over the patches."""

from __future__ import annotations

import numpy as np
import pytest

import attnx
from attnx.results.generation import GenerationExplanation
from attnx.tasks.picture_question.checkpoint import load_demo
from attnx.tasks.picture_question.generator import COLOURS, GRID, generate


@pytest.fixture(scope="module")
def written():
    model, processor = load_demo()
    asked = generate(1, seed=3, enlarged=4)[0]
    given = {"image": asked.image, "text": f"<image> {asked.question}"}
    return asked, attnx.explain_generation(model, processor, given, methods="rollout", references="value_path")


def test_the_model_writes_an_answer(written):
    asked, g = written
    assert g.generated[:2] == ("it", "is")
    assert g.generated[2] in COLOURS
    assert g.text.startswith(f"<image> {asked.question}")


def test_each_step_lies_over_the_picture(written):
    asked, g = written
    assert g.image_size == asked.image.size
    for number in range(3):
        assert g.step(number).overlay("value_path", bar=False).size == asked.image.size


def test_rows_of_rollout_sum_to_one_and_end_before_their_own_token(written):
    _, g = written
    np.testing.assert_allclose(g["rollout"].sum(1), 1)
    for number in range(len(g)):
        assert not g["rollout"][number, g.prompt_length + number :].any()


def test_the_picture_stands_first_and_words_are_those_of_the_text(written):
    _, g = written
    boxed = [one.index for one in g.positions if one.box is not None and not one.special]
    assert boxed == list(range(1, 1 + GRID**2))  # behind the tower's own token
    assert [word.text for word in g.words if not word.text.startswith("r")][:3] == ["which", "colour", "is"]


def test_a_row_is_what_explain_says_of_the_text_so_far(written):
    asked, g = written
    model, processor = load_demo()
    given = {"image": asked.image, "text": f"<image> {asked.question} it is"}
    e = attnx.explain(model, processor, given, methods="rollout", references="value_path")
    count = e.streams["picture"]
    for name, own in (("rollout", e["rollout"][-1]), ("value_path", e.references["value_path"])):
        expected = np.concatenate([own[-count:], own[:-count]])
        np.testing.assert_allclose(g[name][2, : len(expected)], expected, atol=1e-5)


def test_a_continuation_that_is_given_is_explained_alike(written):
    asked, g = written
    model, processor = load_demo()
    given = {"image": asked.image, "text": f"<image> {asked.question}"}
    other = attnx.explain_generation(model, processor, given, continuation=" it is", methods="rollout")
    np.testing.assert_allclose(
        other["rollout"][:, : other.prompt_length], g["rollout"][:2, : other.prompt_length], atol=1e-6
    )


def test_it_is_saved_and_loaded_without_the_picture(written, tmp_path):
    _, g = written
    g.save(tmp_path / "g.safetensors")
    loaded = GenerationExplanation.load(tmp_path / "g.safetensors")
    assert loaded == g
    assert loaded.image is None
    assert loaded.positions[1].box == g.positions[1].box


def test_the_page_has_the_picture_and_its_boxes(written):
    from attnx.render.page.sections.generation import _text

    data = _text(written[1], 1)
    assert data["picture"]["url"].startswith("data:image/jpeg;base64,")
    assert sum(box is not None for box in data["picture"]["boxes"]) >= GRID**2
