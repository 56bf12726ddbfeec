"""The demo in a browser: a text is answered, an error is said, two visitors get each their own answer."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

gradio = pytest.importorskip("gradio", reason='the demo is made with Gradio: pip install "attnx[demo]"')

CHROMIUM = Path("/usr/bin/chromium")
FRAME = 'iframe[title="what attnx says"]'

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def address():
    from attnx.demo.app import build, looks
    from attnx.demo.asked import Models

    page = build(Models())
    _, local, _ = page.launch(server_name="127.0.0.1", prevent_thread_lock=True, quiet=True, **looks())
    yield local
    page.close()


def visit(address, text, target="", *, wait_for=FRAME):
    """(what a visitor sees who asks this, addresses that were asked for)."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=arguments)
        page = browser.new_page()
        page.set_default_timeout(300_000)
        asked = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto(address)
        page.get_by_label("Text", exact=True).fill(text)
        page.get_by_label("Target").fill(target)
        page.get_by_role("button", name="Explain").click()
        page.locator(wait_for).first.wait_for()
        seen = (
            page.frame_locator(FRAME).locator("body").inner_text()
            if wait_for == FRAME
            else page.locator("body").inner_text()
        )
        browser.close()
        return seen, asked


@pytest.fixture(autouse=True)
def chromium():
    pytest.importorskip("playwright.sync_api", reason="the demo is looked at in a browser")
    if not CHROMIUM.exists():
        pytest.skip("there is no Chromium here")


def test_a_text_is_answered_and_nothing_is_asked_of_another_host(address):
    seen, asked = visit(address, "the keys to the cabinet")
    assert "plural" in seen
    elsewhere = [one for one in asked if not one.startswith((address, "data:", "blob:", "about:"))]
    assert elsewhere == []


def test_two_visitors_get_each_their_own_answer(address):
    with ThreadPoolExecutor(2) as visitors:
        several = visitors.map(
            lambda text: visit(address, text)[0], ["the keys to the cabinet", "the key to the cabinets"]
        )
        first, second = several
    assert "plural" in first
    assert "99.8" in first
    assert "singular" in second
    assert "97.9" in second


def test_a_mistake_is_said_as_the_command_line_says_it(address):
    seen, _ = visit(address, "the keys", "nonsense", wait_for="text=is not known")
    assert "target 'nonsense' is not known; there are: singular, plural" in seen
