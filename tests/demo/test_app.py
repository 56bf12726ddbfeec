"""The demo in a browser: a text is answered, an error is said, two visitors get each their own answer."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.browser import browser_path
from tests.demo import visitor

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def address():
    pytest.importorskip("gradio", reason='the demo is made with Gradio: pip install "attnx[demo]"')
    from attnx.demo import Models, build, launch_options

    page = build(Models())
    _, local, _ = page.launch(server_name="127.0.0.1", prevent_thread_lock=True, quiet=True, **launch_options())
    yield local
    page.close()


def visit(address, *questions):
    """What visitors see who ask these (text, target) at once, and the addresses that were asked for.

    Each is in a thread of its own: the browser that the suite shares keeps the loop of this one.
    """
    with ThreadPoolExecutor(len(questions)) as visitors:
        return list(visitors.map(lambda question: visitor.visit(address, *question), questions))


@pytest.fixture(autouse=True)
def chromium():
    pytest.importorskip("playwright.sync_api", reason="the demo is looked at in a browser")
    if browser_path() is None:
        pytest.skip("there is no Chromium here")


def test_a_text_is_answered_and_nothing_is_asked_of_another_host(address):
    ((seen, asked),) = visit(address, ("the keys to the cabinet", ""))
    assert "plural" in seen
    elsewhere = [one for one in asked if not one.startswith((address, "data:", "blob:", "about:"))]
    assert elsewhere == []


def test_two_visitors_get_each_their_own_answer(address):
    (first, _), (second, _) = visit(address, ("the keys to the cabinet", ""), ("the key to the cabinets", ""))
    assert "plural" in first
    assert "99.8" in first
    assert "singular" in second
    assert "97.9" in second


def test_a_mistake_is_said_as_the_command_line_says_it(address):
    ((seen, _),) = visit(address, ("the keys", "nonsense"))
    assert "target 'nonsense' is not known; there are: singular, plural" in seen
