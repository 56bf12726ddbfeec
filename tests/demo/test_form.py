"""A form of the demo and the page that it gives, without a browser."""

import html
import re
import threading

import pytest
from PIL import Image, ImageFile

from attnx import demo
from attnx.demo import MAX_CHARACTERS, MAX_PIXELS, Form, Models, render
from attnx.demo_models import generate
from attnx.errors import AttnxError, InputError


@pytest.fixture(scope="module")
def models():
    return Models()


def page_in(frame):
    """What the frame shows."""
    return html.unescape(re.search(r'srcdoc="([^"]*)"', frame)[1])


def test_the_answer_is_the_page_that_to_html_writes(models):
    page = page_in(render(Form("verb-number", "the keys to the cabinet"), models))
    assert page.startswith("<!doctype html>") or page.startswith("<!DOCTYPE html>")
    assert "plural" in page
    assert "lrp" in page


def test_methods_references_and_target_are_the_chosen_ones(models):
    form = Form(
        "verb-number", "the keys to the cabinet", methods=["rollout"], references=["gradient"], target="singular"
    )
    page = page_in(render(form, models))
    assert '"rollout":[' in page
    assert '"flow":[' not in page
    assert '"gradient":[' in page
    assert '"label":"singular"' in page


def test_two_targets_are_contrasted(models):
    page = page_in(render(Form("verb-number", "the keys", target="plural / singular"), models))
    assert '"against":"singular"' in page


def test_an_image_is_explained_by_a_vision_model(models):
    assert "data:image/" in render(Form("planted-patch", image=generate(1)[0].image), models)


def test_hostile_text_stays_text_around_the_frame_and_in_it(models):
    hostile = '"><script>alert(1)</script>'
    frame = render(Form("verb-number", f"the keys {hostile}"), models)
    assert "<script>alert" not in frame
    assert "<script>alert" not in page_in(frame)
    assert 'sandbox="allow-scripts"' in frame


@pytest.mark.parametrize(
    ("form", "message"),
    [
        (Form("verb-number", " "), "type one"),
        (Form("planted-patch", "the keys"), "drop one"),
        (Form("verb-number", "a " * MAX_CHARACTERS), "the demo takes up to 20,000"),
        (Form("verb-number", "the keys", target="nonsense"), "singular, plural"),
        (Form("/etc", "the keys"), "is not offered here"),
        (Form("gpt2", "the keys"), "is not offered here"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_explained_says_why(models, form, message):
    with pytest.raises(AttnxError, match=message):
        render(form, models)


def test_a_directory_is_taken_only_where_visitors_may_name_one(models, tmp_path):
    with pytest.raises(InputError, match="not offered"):
        models.get(str(tmp_path))
    with pytest.raises(InputError, match="cannot load"):
        Models(anywhere=True).get(str(tmp_path))


def test_a_model_is_loaded_once(models):
    assert models.get("recall")[0] is models.get("recall")[0]


def test_models_that_were_named_come_first_and_once():
    assert Models(["some/model", "recall"]).names[:3] == ("some/model", "recall", "verb-number")
    assert Models(["recall"]).names.count("recall") == 1


def test_a_model_that_is_waited_for_keeps_nobody_else_waiting(monkeypatch):
    """One visitor waits for a hub, another asks a model that is at hand."""
    started, arrived = threading.Event(), threading.Event()

    def load(name):
        if name == "far/away":
            started.set()
            assert arrived.wait(60)
        return name, None

    monkeypatch.setattr(demo, "load", load)
    models = Models(anywhere=True)
    waiting = threading.Thread(target=models.get, args=("far/away",))
    waiting.start()
    assert started.wait(60)
    asking = threading.Thread(target=models.get, args=("near",), daemon=True)
    asking.start()
    asking.join(30)
    answered = not asking.is_alive()
    arrived.set()
    waiting.join(60)
    assert answered


def test_an_uploaded_image_is_explained_as_the_image_itself(models, tmp_path):
    image = generate(1)[0].image
    image.save(tmp_path / "x.png")
    uploaded = render(Form("planted-patch", image=str(tmp_path / "x.png")), models)
    assert uploaded == render(Form("planted-patch", image=image), models)


def test_the_size_of_an_image_is_checked_before_it_is_decoded(models, tmp_path, monkeypatch):
    side = int(MAX_PIXELS**0.5) + 1
    Image.new("1", (side, side)).save(tmp_path / "bomb.png")
    monkeypatch.setattr(ImageFile.ImageFile, "load", lambda opened: pytest.fail("it was decoded"))
    with pytest.raises(InputError, match="scale it down"):
        render(Form("planted-patch", image=str(tmp_path / "bomb.png")), models)


@pytest.mark.parametrize("content", [b"", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", b"GIF89a"])
def test_a_file_that_is_not_an_image_is_refused(models, tmp_path, content):
    (tmp_path / "x.png").write_bytes(content)
    with pytest.raises(InputError, match="the image cannot be read"):
        render(Form("planted-patch", image=str(tmp_path / "x.png")), models)


def test_without_a_model_one_is_asked_for(models):
    with pytest.raises(InputError, match="choose a model"):
        render(Form(None, "the keys"), models)
