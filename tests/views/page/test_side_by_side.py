"""The section that sets explanations side by side, in a real browser."""

import numpy as np
import pytest

import attnx
from tests import zoo

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def both():
    model, tokenizer = zoo.classifier(), zoo.wordpiece_tokenizer()
    before = attnx.explain(model, tokenizer, "the movie is witty, and the book is dull.")
    return attnx.counterfactual(model, tokenizer, before, {3: "plain bad", "and": ""})


def shown(tab):
    """The scores of the page, row by row."""
    rows = []
    for twin in tab.locator("#side-words .twin").all():
        found = [one.get_attribute("data-score") for one in twin.locator("span").all()]
        rows.append([np.nan if one is None else float(one) for one in found])
    return rows


def test_every_word_stands_above_what_became_of_it(opened, both):
    tab = opened(both)
    twins = tab.locator("#side-words .twin")
    assert [one.all_inner_texts() for one in (twin.locator("span") for twin in twins.all())] == [
        [word or "–" for word in both.words(row)] for row in range(len(both.rows))
    ]
    assert tab.locator("#side-words .differs").count() == 2
    np.testing.assert_allclose(shown(tab), both.scores(), atol=1e-8)
    answers = tab.locator("#side-predictions").inner_text()
    assert "p(POSITIVE)" in answers
    assert f"{both.explanations[1].prediction.probability:.3f}" in answers


def test_other_methods_can_be_picked_and_a_word_tells_its_numbers(opened, both):
    tab = opened(both)
    tab.get_by_role("radiogroup", name="Side by side by").get_by_role("radio", name="rollout").click()
    np.testing.assert_allclose(shown(tab), both.scores("rollout"), atol=1e-8)
    before, after = both.scores("rollout")[3]
    tab.locator("#side-words .twin").nth(3).hover()
    assert tab.locator("#side-readout").inner_text().startswith(f"witty → plain bad {before:.4f} → {after:.4f}")
    tab.locator("#side-words .twin").nth(3).focus()
    assert "witty" in tab.locator("#side-readout").inner_text()


def test_each_of_them_has_the_whole_page(opened, both):
    tab = opened(both)
    told = tab.locator("#result option").all_inner_texts()
    assert [text.partition(":")[0] for text in told] == ["1. before", "2. after"]
    tab.locator("#next").click()
    tab.locator("#reading .word", has_text="plain").wait_for()
    assert tab.locator("#summary").count() == 0


def test_it_fits_a_telephone(opened, both):
    tab = opened(both, viewport={"width": 380, "height": 800})
    box = tab.locator("#side_by_side").bounding_box()
    assert box["x"] + box["width"] <= 380


def test_without_scripts_there_are_tables(both):
    page = attnx.to_html(both)
    assert "witty → plain bad" in page.partition('<main id="page"')[0]
