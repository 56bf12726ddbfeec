"""An explained image in the page: its picture under the scores of its patches."""

from __future__ import annotations

import base64
from dataclasses import replace
from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from attnx.adapters import Position, group_words
from attnx.views import Shown
from attnx.views.page import explanation as text
from tests.made import explanation as made_explanation


def pictured(rows=2, columns=3, side=100):
    """An image of red and blue halves, of which each patch has its own score."""
    image = Image.new("RGB", (columns * side, rows * side), "red")
    image.paste("blue", (0, 0, side, rows * side))
    patches = [(row, column) for row in range(rows) for column in range(columns)]
    boxes = [(c * side, r * side, (c + 1) * side, (r + 1) * side) for r, c in patches]
    positions, words = group_words([Position(0, "[CLS]", special=True), *(
        Position(index, f"r{r}c{c}", box=box) for index, ((r, c), box) in enumerate(zip(patches, boxes, strict=True), 1)
    )], None)  # fmt: skip
    scores = np.arange(1.0, len(positions) + 1)[None] / 100
    whole = np.tile(scores[:, None], (1, len(positions), 1)).astype("float32")
    return made_explanation(
        positions, words, 0, (1,), {"rollout": scores}, image=image, image_size=image.size, maps={"rollout": whole}
    )


def test_the_picture_is_in_the_page_with_the_boxes_of_its_patches():
    shown = Shown.of(pictured())
    assert shown.contents[0]["title"] == "image of 300 × 200 pixels"
    (picture,) = (one["image"] for one in text.text_section(shown)["results"])
    (kind, data) = picture["url"].split(",")
    assert kind == "data:image/jpeg;base64"
    assert Image.open(BytesIO(base64.b64decode(data))).size == (300, 200)
    assert picture["boxes"][:2] == [None, [0, 0, 100, 100]]


def test_large_pictures_are_made_small_and_several_smaller():
    large = pictured(side=1000)
    sizes = []
    for several in ([large], [large] * 4):
        data = text.text_section(Shown.of(several))["results"][0]["image"]["url"].split(",")[1]
        sizes.append(Image.open(BytesIO(base64.b64decode(data))).size[0])
    assert sizes == [640, 320]


def test_a_loaded_result_says_that_its_picture_is_missing():
    shown = Shown.of(replace(pictured(), image=None))
    assert text.text_section(shown)["results"][0]["image"] is None
    assert any("the image is not in this page" in note for note in shown.contents[0]["notes"])


@pytest.mark.slow
def test_a_patch_tells_its_score_and_explains_its_row(opened):
    tab = opened(pictured())
    assert not tab.locator("#reading").is_visible()
    box = tab.locator("#image canvas").bounding_box()
    tab.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + box["height"] * 0.75)
    assert tab.locator("#readout").inner_text() == "r1c1 0.060000 · rank 2 of 6 · no tie"
    tab.mouse.click(box["x"] + box["width"] * 0.5, box["y"] + box["height"] * 0.75)
    tab.locator("#back").wait_for()
    tab.locator("#image canvas").focus()
    tab.keyboard.press("ArrowRight")
    assert tab.locator("#readout").inner_text().startswith("r1c2 ")


@pytest.mark.slow
def test_a_strong_patch_has_a_strong_colour(opened):
    tab = opened(pictured())
    strengths = tab.evaluate("""() => {
      const pen = document.querySelector("#image canvas").getContext("2d");
      return [[50, 50], [250, 150]].map(([x, y]) => pen.getImageData(x, y, 1, 1).data[3]);
    }""")
    assert strengths[0] < strengths[1]
