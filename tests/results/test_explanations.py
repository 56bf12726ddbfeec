"""A list of explanations is a list, and in a notebook a page with a picker."""

import attnx
from attnx.results import Explanations
from tests import zoo

TEXTS = ["the key to the cabinets", "a dull <script>alert(1)</script> movie"]


def explained():
    return attnx.explain(zoo.classifier(), zoo.wordpiece_tokenizer(), TEXTS, methods="rollout")


def test_a_list_of_texts_gives_a_list_that_a_notebook_shows():
    several = explained()
    assert isinstance(several, list)
    assert several == list(several)
    shown = several._repr_html_()
    assert shown.count("<iframe") == 1
    assert "cabinets" in shown
    assert "<script>alert" not in shown
    assert "movie" in shown


def test_its_page_is_that_of_the_list(tmp_path):
    several = explained()
    assert several.to_html() == attnx.to_html(list(several))
    several.to_html(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == several.to_html()


def test_an_empty_list_shows_as_one():
    assert Explanations()._repr_html_() is None
