"""How large pages are, how fast they open, and how long a step of the graph's slider takes.

python -m tests.benchmarks.page
"""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np
from playwright.sync_api import Browser, sync_playwright

import attnx
from attnx.adapters import Position, group_words
from attnx.results import Explanation
from tests.browser import ARGUMENTS, browser_path
from tests.made import explanation as made_explanation

LAYERS, METHODS = 6, ("raw", "rollout", "flow")
REPEATS = 5
# The slider goes from end to end, a step a frame, so that most of the lines come and go.
STEPS = """async () => {
  const slider = document.getElementById("threshold");
  const start = performance.now();
  for (let step = 0; step < 30; step++) {
    slider.value = 2 * step;
    slider.dispatchEvent(new Event("input"));
    await new Promise(requestAnimationFrame);
  }
  return (performance.now() - start) / 30;
}"""


def page_of(length: int) -> Explanation:
    """All rows of random attention; what is drawn does not depend on where numbers come from."""
    random = np.random.default_rng(0)
    positions, words = group_words([Position(index, f"token{index}") for index in range(length)], None)
    maps = {name: random.dirichlet(np.full(length, 0.1), size=(LAYERS, length)) for name in METHODS}
    return made_explanation(
        positions,
        words,
        position=0,
        layers=tuple(range(1, LAYERS + 1)),
        relevance={name: scores[:, 0].copy() for name, scores in maps.items()},
        maps={name: scores.astype("float32") for name, scores in maps.items()},
    )


def measure(browser: Browser, path: Path) -> tuple[float, float]:
    """Seconds until the page is drawn, from a fresh tab, and milliseconds of a step of the slider."""
    times, steps = [], []
    for _ in range(REPEATS):
        tab = browser.new_page(viewport={"width": 1180, "height": 900})
        start = time.perf_counter()
        tab.goto(path.as_uri())
        tab.locator("#reading .word").first.wait_for()
        times.append(time.perf_counter() - start)
        steps.append(tab.evaluate(STEPS))
        tab.close()
    return median(times), median(steps)


def main() -> None:
    with TemporaryDirectory() as folder, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=browser_path(), args=ARGUMENTS)
        for length in (60, 512):
            path = Path(folder) / f"{length}.html"
            attnx.to_html(page_of(length), path)
            opening, step = measure(browser, path)
            size = path.stat().st_size / 1e6
            print(
                f"{LAYERS} layers × {length} tokens: {size:.2f} MB, opens in {opening:.2f} s, a step {step:.0f} ms",
                flush=True,
            )
        browser.close()


if __name__ == "__main__":
    main()
