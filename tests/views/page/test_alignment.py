"""The section of aligned words, in a real browser."""

import numpy as np
import pytest

import attnx
from attnx.word_alignment import Alignment
from attnx.word_alignment.links import Gold

pytestmark = pytest.mark.slow

SOURCE, TARGET = ("the", "third", "of", "march", "1998"), ("1998", "03", "<i>03</i>")
SCORES = np.array([[0.1, 0.1, 0.0, 0.1, 0.7], [0.0, 0.2, 0.1, 0.6, 0.1], [0.0, 0.8, 0.1, 0.1, 0.0]])
GOLD = [Gold(frozenset({(4, 0), (3, 1), (1, 2)}), frozenset({(4, 0), (3, 1), (1, 2)}))] * 2


@pytest.fixture
def alignment():
    words = [(SOURCE, TARGET), (SOURCE[::-1], TARGET)]
    return Alignment.choose(words, [SCORES, SCORES[:, ::-1]], "argmax", method="raw", layer="cross 2")


def heats(tab, side):
    return [float(one.get_attribute("data-score")) for one in tab.locator(f"#alignment-{side} button").all()]


def test_a_click_on_a_written_word_colours_the_source_and_frames_what_it_is_linked_to(opened, alignment):
    tab = opened(alignment)
    np.testing.assert_allclose(heats(tab, "source"), SCORES[0])
    tab.locator("#alignment-target button").nth(1).click()
    np.testing.assert_allclose(heats(tab, "source"), SCORES[1])
    assert tab.locator("#alignment-source .linked").all_inner_texts() == ["march"]
    assert tab.locator("#alignment-readout").inner_text() == "03 is aligned to march most: 0.6000"


def test_a_click_on_a_source_word_colours_what_was_written(opened, alignment):
    tab = opened(alignment)
    tab.locator("#alignment-source button").nth(1).click()
    np.testing.assert_allclose(heats(tab, "target"), SCORES[:, 1])
    assert tab.locator("#alignment-target .linked").all_inner_texts() == ["<i>03</i>"]


def test_the_grid_frames_every_link(opened, alignment):
    tab = opened(alignment)
    assert tab.locator("#alignment-grid tbody td").count() == SCORES.size
    assert tab.locator("#alignment-grid .linked").count() == 3
    assert tab.locator("#alignment-grid td.linked").first.get_attribute("title") == "1998 ← 1998: 0.7000"


def test_another_pair_can_be_picked_and_the_error_rate_is_told(opened, alignment):
    tab = opened(alignment.against(GOLD))
    assert "alignment error rate 0.500" in tab.locator("#alignment-notes").inner_text()
    tab.locator("#alignment-controls select").select_option("1")
    np.testing.assert_allclose(heats(tab, "source"), SCORES[0, ::-1])


def test_it_fits_a_telephone(opened, alignment):
    tab = opened(alignment, viewport={"width": 380, "height": 800})
    box = tab.locator("#alignment").bounding_box()
    assert box["x"] + box["width"] <= 380


def test_without_scripts_there_are_tables_and_nothing_is_markup(alignment):
    page = attnx.to_html(alignment)
    assert "march" in page.partition('<main id="page"')[0]
    assert "<i>03" not in page
