"""A visitor of the demo, in a browser: types a text, and tells what the page shows."""

from __future__ import annotations

from tests.browser import ARGUMENTS, browser_path

FRAME = 'iframe[title="explanation"]'


def visit(address: str, text: str, target: str = "") -> tuple[str, list[str]]:
    """What a visitor sees who asks this, and the addresses that the page asked for."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=browser_path(), args=ARGUMENTS)
        page = browser.new_page()
        page.set_default_timeout(300_000)
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto(address)
        page.get_by_label("Text", exact=True).fill(text)
        page.get_by_label("Target").fill(target)
        page.get_by_role("button", name="Explain").click()
        answer = page.frame_locator(FRAME)
        page.locator(f"{FRAME}, :text('is not known')").first.wait_for()
        if page.locator(FRAME).count():
            answer.get_by_text("How far to trust it").wait_for()
            seen = answer.locator("body").inner_text()
        else:
            seen = page.locator("body").inner_text()
        browser.close()
        return seen, asked
