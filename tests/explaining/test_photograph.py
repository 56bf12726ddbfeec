"""A photograph goes through whole: tiles, boxes in its own pixels, an overlay of its size."""

from __future__ import annotations

import numpy as np
from PIL import Image

import attnx
from tests import pictures_with_text as zoo
from tests.inputs.test_picture_and_text import llava_next_processor


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
