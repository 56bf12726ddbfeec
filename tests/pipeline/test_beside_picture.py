"""Text that is written beside a picture: each word over the words before it, and over the patches."""

from __future__ import annotations

import numpy as np
import pytest

import attnx
from attnx.adapters import Word
from attnx.demo_models.picture_question import COLOURS, GRID, generate, load_demo
from attnx.demo_models.recall import load_demo as load_recall
from attnx.errors import ChoiceError, InputError
from attnx.generation import GenerationExplanation
from attnx.generation.result import word_row


@pytest.fixture(scope="module")
def written():
    model, processor = load_demo()
    asked = generate(1, seed=3, enlarged=4)[0]
    given = {"image": asked.image, "text": f"<image> {asked.question}"}
    return asked, attnx.explain_generation(model, processor, given, methods="rollout", references="lrp")


def test_the_model_writes_an_answer(written):
    asked, g = written
    assert g.generated[:2] == ("it", "is")
    assert g.generated[2] in COLOURS
    assert g.text.startswith(f"<image> {asked.question}")


def test_each_step_lies_over_the_picture(written):
    asked, g = written
    assert g.image_size == asked.image.size
    for number in range(3):
        assert g.step(number).overlay("lrp", bar=False).size == asked.image.size


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
    e = attnx.explain(model, processor, given, methods="rollout", references="lrp")
    count = e.sequences["picture"]
    for name, own in (("rollout", e["rollout"][-1]), ("lrp", e["lrp"])):
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
    from attnx.generation.result import _text

    data = _text(written[1], 1)
    assert data["image"]["url"].startswith("data:image/jpeg;base64,")
    assert sum(box is not None for box in data["image"]["boxes"]) >= GRID**2


def test_a_sheet_has_an_overlay_for_each_written_word(written):
    asked, g = written
    figure = g.plot_overlays("lrp", smooth=False)
    panels = [axes for axes in figure.axes if axes.images and axes.get_title()]
    assert [axes.get_title().splitlines()[0] for axes in panels] == ["it", "is", g.generated[2]]
    # The warmest place of the colour's panel is the patch that supports the word most.
    row = g["lrp"][2]
    best = max((position for position in g.positions[:-1] if position.box is not None), key=lambda it: row[it.index])
    assert row[best.index] > 0
    shades = np.asarray(panels[2].images[0].get_array()).astype(float)
    warmth = shades[..., 0] - shades[..., 2]
    scale = shades.shape[1] / asked.image.size[0]
    left, top, right, bottom = (round(edge * scale) for edge in best.box)
    assert warmth[top:bottom, left:right].mean() > warmth.mean() + 40
    assert "from the image" in panels[0].get_title()
    assert not np.array_equal(shades, np.asarray(panels[0].images[0].get_array()))


def test_a_sheet_can_be_of_some_words_at_a_layer_and_says_what_it_lacks(written, tmp_path):
    asked, g = written
    assert len([axes for axes in g.plot_overlays(words=[2]).axes if axes.get_title()]) == 1
    g.save(tmp_path / "g.safetensors")
    loaded = GenerationExplanation.load(tmp_path / "g.safetensors")
    assert loaded.plot_overlays(image=asked.image).axes
    with pytest.raises(InputError, match="files do not keep it; pass it again, image="):
        loaded.plot_overlays()
    with pytest.raises(ChoiceError, match=r"words \[7\] were requested, but 3 were generated"):
        g.plot_overlays(words=[7])
    recall, tokenizer = load_recall()
    alone = attnx.explain_generation(recall, tokenizer, "k3 v7 k1", continuation=" v2", methods="rollout")
    with pytest.raises(InputError, match="the prompt has no image"):
        alone.plot_overlays()


def test_a_word_of_several_tokens_shows_the_mean_of_their_rows(written):
    _, g = written
    both = Word(0, "isblue", (g.prompt_length + 1, g.prompt_length + 2))
    step, scores = word_row(g, both, "rollout", None)
    np.testing.assert_allclose(scores, (g["rollout"][1] + g["rollout"][2])[: len(scores)] / 2)
    assert step.prediction.label == g.generated[2]
