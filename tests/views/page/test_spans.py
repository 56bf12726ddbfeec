"""Parts of the text that the caller named, as rows of the page in a real browser."""

from dataclasses import replace

import numpy as np
import pytest

import attnx
from attnx.adapters import Span
from tests import zoo
from tests.made import with_scores
from tests.views.page.conftest import TEXT, made
from tests.views.page.test_browser import EVIL

pytestmark = pytest.mark.slow

PARTS = {"first": (0, 11), "second": (11, 37)}


@pytest.fixture(scope="module")
def explanation():
    return attnx.explain(zoo.classifier(), zoo.wordpiece_tokenizer(), TEXT, spans=PARTS, all_queries=True)


def rows(tab):
    return tab.locator("#spans-rows .meter")


def sums(tab):
    return [float(one.get_attribute("data-score")) for one in rows(tab).all()]


def expected(explanation, name, layer=None):
    return pytest.approx([one.score for one in explanation.by_span(name, layer)], abs=1e-8)


def test_rows_are_the_sums_of_what_is_shown(opened, explanation):
    tab = opened(explanation)
    assert rows(tab).locator(".label").all_inner_texts() == list(PARTS)
    assert sums(tab) == expected(explanation, explanation.methods[0])
    tab.get_by_role("radiogroup", name="Method").get_by_role("radio", name="rollout").click()
    tab.locator("#spans-lead", has_text="by rollout at layer 3").wait_for()
    assert sums(tab) == expected(explanation, "rollout", 3)
    tab.locator("#layer").press("ArrowLeft")
    tab.locator("#spans-lead", has_text="by rollout at layer 2").wait_for()
    assert sums(tab) == expected(explanation, "rollout", 2)


def test_hover_and_focus_tell_the_sum_and_outline_its_words(opened, explanation):
    tab = opened(explanation)
    told = explanation.by_span()
    for part, point in ((0, rows(tab).nth(0).hover), (1, rows(tab).nth(1).focus)):
        point()
        assert f"{told[part].text} {told[part].score:.6f} · rank" in tab.locator("#spans-readout").inner_text()
        words = [one.text for one in explanation.words if set(one.positions) & set(told[part].positions)]
        assert tab.locator("#reading .outlined").all_inner_texts() == words
        tab.mouse.move(0, 0)
    rows(tab).nth(1).blur()
    assert tab.locator("#reading .outlined").count() == 0


def test_markup_in_a_name_stays_text(opened):
    tab = opened(replace(made("a", "b"), spans=tuple(Span(name, (place,)) for place, name in enumerate(EVIL[:2], 1))))
    assert rows(tab).locator(".label").all_inner_texts() == EVIL[:2]
    for place in (0, 1):
        rows(tab).nth(place).hover()
        assert EVIL[place] in tab.locator("#spans-readout").inner_text()
    assert tab.locator("#spans img, #spans script").count() == 0


def test_a_result_without_parts_has_no_rows_and_one_with_many_stays_narrow(opened):
    long = made(*(f"word{index}" for index in range(40)))
    many = replace(long, spans=tuple(Span(f"{number}. {'a sentence ' * 4}", (number,)) for number in range(1, 40)))
    tab = opened([many, made("a", "b")], viewport={"width": 360, "height": 700})
    assert rows(tab).count() == 39
    assert tab.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    tab.get_by_role("button", name="Next result").click()
    tab.locator("#spans").wait_for(state="hidden")


def test_what_speaks_against_is_said(opened):
    signed = with_scores(
        replace(made("a", "b"), spans=(Span("one", (1,)), Span("other", (2,)))),
        references={"gradient": np.array([0.0, 0.5, -0.25])},
        signed=frozenset({"gradient"}),
        first="gradient",
    )
    tab = opened(signed, color_scheme="dark")
    assert rows(tab).locator(".number").all_inner_texts() == ["0.500 supports", "−0.250 opposes"]
    assert rows(tab).nth(1).locator(".fill.below").count() == 1


def test_without_scripts_there_is_a_table(watched, explanation):
    silent = watched(java_script_enabled=False)
    silent.set_content(explanation.to_html())
    cells = silent.locator("#plain td").all_inner_texts()
    assert cells[:2] == ["part", explanation.methods[0]]
    assert [cells[2], cells[4]] == list(PARTS)
    assert [float(cells[3]), float(cells[5])] == pytest.approx(
        [one.score for one in explanation.by_span()], abs=6e-3 * max(abs(one.score) for one in explanation.by_span())
    )
