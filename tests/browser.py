"""A real browser, where there is one: started once for a process of the suite, and shared by all who look at pages."""

from __future__ import annotations

import shutil

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
# No sandbox, since tests run as root in containers; no service that would look for the network by itself.
ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip


def browser_path():
    return next(filter(None, map(shutil.which, NAMES)), None)


@pytest.fixture(scope="session")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = browser_path()
    if path is None:
        pytest.skip(f"there is no browser: none of {', '.join(NAMES)} is installed")
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield started
        started.close()
