"""Draws docs/images/demo.png: the demo in a browser. Needs Gradio, Playwright and Chromium."""

from pathlib import Path

from playwright.sync_api import sync_playwright

from attnx.demo import Models, build, launch_options

FRAME = 'iframe[title="explanation"]'

page = build(Models(anywhere=True))
_, address, _ = page.launch(server_name="127.0.0.1", prevent_thread_lock=True, quiet=True, **launch_options())
with sync_playwright() as driver:
    browser = driver.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"])
    view = browser.new_page(viewport={"width": 1200, "height": 900})
    view.goto(address)
    view.get_by_role("button", name="Explain").click()
    view.frame_locator(FRAME).get_by_text("How far to trust it").wait_for(timeout=300_000)
    view.screenshot(path=Path(__file__).parent / "images" / "demo.png")
    browser.close()
page.close()
