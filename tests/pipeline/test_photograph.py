"""A photograph goes through whole: boxes in its own pixels, overlays of its size, the pages of both."""

from __future__ import annotations

import numpy as np
from PIL import Image

import attnx
from attnx.demo_models.picture_question import load_demo
from tests import pictures_with_text as zoo
from tests.adapters.test_picture_and_text import llava_next_processor
from tests.two_towers import Processor, two_towers


def test_a_photograph_in_tiles(assets, tmp_path):
    path = assets / "photos" / "china.jpg"
    e = attnx.explain(
        zoo.model("llava_next"),
        llava_next_processor(),
        {"image": path, "text": "<image> what is there ?"},
        methods="rollout",
    )
    width, height = Image.open(path).size
    assert e.image_size == (width, height)
    covered = np.zeros((height, width), bool)
    for one in e.positions:
        if one.box is not None and one.token.startswith("tile"):
            left, top, right, bottom = (round(edge) for edge in one.box)
            assert 0 <= left < right <= width
            assert 0 <= top < bottom <= height
            covered[top:bottom, left:right] = True
    assert covered.mean() > 0.98
    assert e.overlay(bar=False).size == (width, height)
    e.to_html(tmp_path / "page.html")
    assert "data:image/jpeg" in (tmp_path / "page.html").read_text()


def test_a_photograph_is_held_against_a_text(assets, tmp_path):
    path = assets / "photos" / "chelsea.png"
    s = attnx.explain_similarity(two_towers("clip"), Processor(), path, "the key to the cabinets")
    picture = s.explanations[0]
    width, height = Image.open(path).size
    assert picture.image_size == (width, height)
    boxes = np.array([one.box for one in picture.positions if one.box is not None])
    # Resized by its shorter side and cropped in the middle: a square as high as the photograph.
    np.testing.assert_allclose(boxes[:, [1, 3]].min(0)[0], 0, atol=1)
    np.testing.assert_allclose(boxes[:, 3].max(), height, atol=1)
    np.testing.assert_allclose(boxes[:, 0].min() + boxes[:, 2].max(), width, atol=2)
    assert picture.overlay("lrp", bar=False).size == (width, height)
    s.plot().savefig(tmp_path / "both.png")
    s.to_html(tmp_path / "both.html")
    assert "data:image/jpeg" in (tmp_path / "both.html").read_text()


def test_every_word_written_about_a_photograph_has_its_overlay(assets, tmp_path):
    model, processor = load_demo()
    given = {"image": assets / "photos" / "coffee.png", "text": "<image> which colour is the square at the top left ?"}
    g = attnx.explain_generation(model, processor, given, methods="rollout", references="lrp", layer="all")
    titles = [axes.get_title().splitlines()[0] for axes in g.plot_overlays().axes if axes.get_title()]
    assert titles == list(g.generated[:3])
    assert g.step(2).overlay("lrp", bar=False).size == Image.open(given["image"]).size
    g.to_html(tmp_path / "written.html")
    assert "data:image/jpeg" in (tmp_path / "written.html").read_text()
