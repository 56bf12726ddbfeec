"""Views of sound: strips over time, a table of the best stretches, and a page with the wave under its scores."""

import json
import re
from base64 import b64decode

import numpy as np
import pytest

import attnx
from attnx.views.audio import spectrum, sums, times
from tests.sound_zoo import audio, extractor, model


@pytest.fixture(scope="module", params=["wav2vec2", "ast"])
def explanation(request):
    own = model(request.param), extractor(request.param)
    return attnx.explain(*own, audio(), methods=("raw", "rollout"), references="lrp", all_queries=True)


def page_data(page):
    found = re.search(r'<script type="application/json"[^>]*>(.*?)</script>', page, re.DOTALL)
    return json.loads(found.group(1))


def test_a_stretch_has_the_sum_of_its_bands(explanation):
    own = sums(explanation, explanation.scores("lrp"))
    assert own == pytest.approx([one.score for one in explanation.by_word("lrp")])
    assert len(times(explanation)) == len(own)


def test_all_names_have_a_strip_under_the_sound(explanation):
    figure = explanation.plot()
    assert len(figure.axes) == 1 + 3
    bars = figure.axes[1].patches
    first = explanation.scores(explanation.methods[0])
    np.testing.assert_allclose([one.get_height() for one in bars], sums(explanation, first), rtol=1e-6)
    assert bars[1].get_x() == pytest.approx(times(explanation)[1][0])


def test_one_row_lies_over_the_sound_in_the_callers_axes(explanation):
    from matplotlib.figure import Figure

    axes = Figure().subplots()
    assert explanation.plot("rollout", ax=axes) is axes
    assert axes.get_xlim() == pytest.approx((0, 0.6))


def test_layers_are_drawn_over_time(explanation):
    assert len(explanation.plot_layers("rollout").axes) >= 2


def test_the_table_has_the_best_stretch_with_its_time(explanation):
    best = max(explanation.by_word(), key=lambda one: abs(one.score))
    start, end = explanation.positions[best.positions[0]].time
    lines = str(explanation).splitlines()
    assert any(line.startswith(f"{start:7.3f} to {end:7.3f}") for line in lines)
    assert " segments, in seconds" in str(explanation)


def test_the_page_has_a_box_for_each_stretch_and_no_player_unless_asked(explanation):
    page = attnx.to_html(explanation)
    picture = page_data(page)["text"]["results"][0]["image"]
    boxes = [box for box in picture["boxes"] if box]
    assert len(boxes) == len([one for one in explanation.positions if one.time])
    assert max(box[2] for box in boxes) == pytest.approx(960)
    assert "audio/wav" not in page
    assert "media-src" not in page


def test_the_player_holds_the_sound_that_was_explained(explanation):
    page = attnx.to_html(explanation, player=True)
    assert "media-src data:" in page
    written = b64decode(page_data(page)["text"]["results"][0]["image"]["player"].partition(",")[2])
    samples = np.frombuffer(written[44:], "<i2") / 32_767
    np.testing.assert_allclose(samples, explanation.audio.samples, atol=1e-4)


def test_a_saved_explanation_has_times_and_no_sound(explanation, tmp_path):
    explanation.save(tmp_path / "e.safetensors")
    loaded = attnx.Explanation.load(tmp_path / "e.safetensors")
    assert loaded.audio is None
    assert [one.time for one in loaded.positions] == [one.time for one in explanation.positions]
    assert [one.band for one in loaded.positions] == [one.band for one in explanation.positions]
    assert "the audio is not in this page" in attnx.to_html(loaded)
    assert len(loaded.plot().axes) == 4


def test_a_tone_stands_at_its_pitch():
    from attnx.adapters import Audio

    def row(pitch):
        tone = np.sin(2 * np.pi * pitch * np.arange(8_000) / 16_000).astype(np.float32)
        return spectrum(Audio(tone, 16_000)).mean(1).argmax()

    assert row(300) < row(1_000) < row(3_000) < row(6_000)
