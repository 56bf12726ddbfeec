"""A question of the demo, and its answer, without a browser."""

import html
import re

import pytest

from attnx.demo.asked import LONGEST, Form, Models, answer
from attnx.errors import AttnxError, InputError
from attnx.tasks.planted_patch.generator import generate


@pytest.fixture(scope="module")
def models():
    return Models()


def page_in(frame):
    """What the frame shows."""
    return html.unescape(re.search(r'srcdoc="([^"]*)"', frame)[1])


def test_the_answer_is_the_page_that_to_html_writes(models):
    page = page_in(answer(Form("verb-number", "the keys to the cabinet"), models))
    assert page.startswith("<!doctype html>") or page.startswith("<!DOCTYPE html>")
    assert "plural" in page
    assert "value_path" in page


def test_methods_references_and_target_are_those_that_were_chosen(models):
    asked = Form(
        "verb-number", "the keys to the cabinet", methods=["rollout"], references=["gradient"], target="singular"
    )
    page = page_in(answer(asked, models))
    assert '"rollout":[' in page
    assert '"flow":[' not in page
    assert '"gradient":[' in page
    assert '"label":"singular"' in page


def test_two_targets_are_set_against_each_other(models):
    page = page_in(answer(Form("verb-number", "the keys", target="plural / singular"), models))
    assert '"against":"singular"' in page


def test_a_picture_is_asked_of_a_vision_model(models):
    assert "data:image/" in answer(Form("planted-patch", image=generate(1)[0].image), models)


def test_hostile_text_stays_text_around_the_frame_and_in_it(models):
    hostile = '"><script>alert(1)</script>'
    frame = answer(Form("verb-number", f"the keys {hostile}"), models)
    assert "<script>alert" not in frame
    assert "<script>alert" not in page_in(frame)
    assert 'sandbox="allow-scripts"' in frame


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (Form("verb-number", " "), "type one"),
        (Form("planted-patch", "the keys"), "drop one"),
        (Form("verb-number", "a " * LONGEST), "too long for the demo"),
        (Form("verb-number", "the keys", target="nonsense"), "singular, plural"),
        (Form("/etc", "the keys"), "is not offered here"),
        (Form("gpt2", "the keys"), "is not offered here"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_what_cannot_be_answered_says_why(models, asked, says):
    with pytest.raises(AttnxError, match=says):
        answer(asked, models)


def test_a_directory_is_taken_only_where_visitors_may_name_one(models, tmp_path):
    with pytest.raises(InputError, match="not offered"):
        models.get(str(tmp_path))
    with pytest.raises(InputError, match="cannot load"):
        Models(anywhere=True).get(str(tmp_path))


def test_a_model_is_loaded_once(models):
    assert models.get("recall")[0] is models.get("recall")[0]
