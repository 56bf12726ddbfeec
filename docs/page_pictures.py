"""Photograph pages of the embedded model in a browser: light, dark, narrow, and several results in one.

python docs/page_pictures.py
"""

import shutil
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image
from playwright.sync_api import Page, sync_playwright

import attnx

TEXT = "the key to the cabinets"
TEXTS = [
    TEXT,
    "the keys to the cabinet",
    "the author of the books",
    "the books on the table by the window",
    "here the NNS differ in that the female",
    "the people who know the man",
]
LONG = (
    "in the garden behind the old house that the family of the two painters bought many years ago with the money from "
    "the sale of some of their best known works the people who planted trees along the wall near the gate"
)
REFERENCES = ("lrp", "blankout")
IMAGES = Path(__file__).parent / "images"
BROWSER = shutil.which("chromium") or shutil.which("google-chrome")


def photograph(page: Page, name: str, part: str | None = None, *, whole: bool = False) -> None:
    """Few colours are in a page, so a palette of 256 makes the file small and changes nothing that is seen."""
    page.wait_for_timeout(400)
    taken = page.locator(part).screenshot() if part else page.screenshot(full_page=whole)
    picture = Image.open(BytesIO(taken)).convert("RGB").quantize(256, dither=Image.Dither.NONE)
    picture.save(IMAGES / f"{name}.png", optimize=True)


model, tokenizer = attnx.load_demo()
with TemporaryDirectory() as folder, sync_playwright() as playwright:
    one, long, several = (Path(folder) / f"{name}.html" for name in ("one", "long", "several"))
    attnx.explain(model, tokenizer, TEXT, all_queries=True, references=REFERENCES).to_html(one)
    attnx.explain(model, tokenizer, LONG, all_queries=True, references=REFERENCES).to_html(long)
    attnx.to_html(
        attnx.explain(model, tokenizer, TEXTS, all_queries=True, references=REFERENCES), several, title="Six beginnings"
    )
    browser = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox", "--disable-gpu"])

    def opened(path: Path, width: int, height: int, scheme: str = "light", scale: float = 1.5) -> Page:
        size = {"width": width, "height": height}
        page = browser.new_page(viewport=size, color_scheme=scheme, device_scale_factor=scale)
        page.goto(path.as_uri())
        return page

    photograph(opened(one, 1180, 1020), "page")
    photograph(opened(one, 390, 1180), "page-narrow")
    photograph(opened(several, 1180, 780), "page-several")
    photograph(opened(long, 1180, 1100, "dark"), "page-dark")
    graph = opened(several, 1180, 1100, scale=1)
    graph.locator("#result").select_option("4")
    graph.get_by_role("radio", name="raw").click()
    photograph(graph, "page-graph", "#graph")
    every = Path(folder) / "heads.html"
    attnx.explain(model, tokenizer, TEXT, methods=["raw", "rollout"], head="all", all_queries=True).to_html(every)
    heads = opened(every, 1180, 1100, scale=1)
    heads.locator('#head-view-panels [data-head="4"]').click()
    photograph(heads, "page-heads", "#head_view")
    browser.close()
