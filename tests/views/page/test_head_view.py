"""Each head by itself: lines from one query to its keys, bounded in size, in a real browser."""

import numpy as np
import pytest

import attnx
from attnx.views import Shown
from attnx.views.page import explanation as head_view
from attnx.views.page.explanation import HEAD_BYTES
from tests import zoo
from tests.made import with_scores
from tests.views.page.conftest import made
from tests.views.page.test_page import data_in

TEXT = "the key to the cabinets is on a table"


@pytest.fixture(scope="module")
def heads():
    options = {"head": "all", "all_queries": True, "methods": ["raw", "rollout"]}
    return attnx.explain(zoo.classifier(), zoo.wordpiece_tokenizer(), TEXT, **options)


def weights(tab):
    """Key → score of the lines that are drawn large."""
    found = tab.locator("#head-view-lines line").all()
    return {int(one.get_attribute("data-key")): float(one.get_attribute("data-score")) for one in found}


def expected(row):
    return pytest.approx({place: score for place, score in enumerate(row) if score >= 0.02 * row.max()}, abs=1e-6)


@pytest.mark.slow
def test_lines_are_the_rows_of_the_chosen_layer_head_and_query(opened, heads):
    tab = opened(heads)
    assert weights(tab) == expected(heads.attributions["raw"].matrices[-1, 0, 0])
    tab.get_by_label("Layer", exact=True).and_(tab.locator("#head-view-controls select")).select_option(label="2")
    tab.get_by_label("Head", exact=True).and_(tab.locator("#head-view-controls select")).select_option(label="3")
    assert weights(tab) == expected(heads.attributions["raw"].matrices[1, 3, 0])
    tab.locator('#head-view-lines [data-query="2"]').click()
    tab.locator("#head-view-lead", has_text="From “key”").wait_for()
    assert weights(tab) == expected(heads.attributions["raw"].matrices[1, 3, 2])
    group = tab.get_by_role("radiogroup", name="Head view by")
    group.get_by_role("radio", name="rollout").click()
    assert weights(tab) == expected(heads.attributions["rollout"].matrices[1, 3, 2])
    assert "Layer 2, head 3: most to" in tab.locator("#head-view-readout").inner_text()


@pytest.mark.slow
def test_every_head_of_the_layer_is_a_small_panel_that_can_be_chosen(opened, heads):
    tab = opened(heads)
    panels = tab.locator("#head-view-panels .head-panel")
    assert panels.count() == heads.attributions["raw"].matrices.shape[1]
    panels.nth(2).click()
    assert weights(tab) == expected(heads.attributions["raw"].matrices[-1, 2, 0])
    assert panels.nth(2).get_attribute("aria-pressed") == "true"
    panels.nth(2).focus()
    tab.keyboard.press("Tab")
    tab.keyboard.press("Enter")
    assert weights(tab) == expected(heads.attributions["raw"].matrices[-1, 3, 0])


@pytest.mark.slow
def test_it_fits_a_telephone(opened, heads):
    tab = opened(heads, viewport={"width": 380, "height": 800})
    box = tab.locator("#head_view").bounding_box()
    assert box["x"] + box["width"] <= 380


def long(length, layers=4, heads=8):
    """An explanation of every head of a long input, made by hand."""
    random = np.random.default_rng(0)
    maps = random.dirichlet(np.full(length + 1, 0.1), size=(layers, heads, length + 1)).astype("float32")
    one = made(*("a" for _ in range(length)), layers=layers, heads=heads)
    return with_scores(one, relevance={"rollout": maps[:, :, 0].astype(float)}, maps={"rollout": maps})


@pytest.mark.parametrize(
    ("length", "room", "told"),
    [
        (20, HEAD_BYTES, ""),
        (150, HEAD_BYTES, "strongest of 151 weights"),
        (150, 80_000, "2 of 4 layers are in this page; of each row its 4 strongest of 151 weights"),
        (150, 10_000, "no room for the rows of each head"),
    ],
)
def test_a_page_stays_small_and_says_what_it_left_out(length, room, told, monkeypatch):
    monkeypatch.setattr(head_view, "HEAD_BYTES", room)
    found = head_view.head_view_section(Shown.of(long(length)))["results"][0]
    packed = sum(len(text or "") for one in found.get("relevance", {}).values() for text in one.values())
    assert packed <= room * 1.01
    assert (told in found["left_out"]) if told else found["left_out"] == ""


@pytest.mark.slow
def test_where_there_is_no_room_the_page_says_so(opened, monkeypatch):
    monkeypatch.setattr(head_view, "HEAD_BYTES", 10_000)
    tab = opened(long(150))
    assert tab.locator("#head-view-lead").inner_text().startswith("Not shown: the page has no room")


@pytest.mark.slow
def test_what_was_left_out_is_said_on_the_page_and_positions_are_few(opened):
    tab = opened(long(150))
    lead = tab.locator("#head-view-lead").inner_text()
    assert "strongest of 151 weights" in lead
    assert "Shown are the 40 of 151 positions that get most" in lead


def test_without_maps_of_each_head_there_is_no_such_section(heads):
    assert "head_view" in data_in(attnx.to_html(heads))
    assert "head_view" not in data_in(attnx.to_html(with_scores(heads, maps=None)))
