"""Photograph the section of docs/counterfactuals.md: a sentence of the embedded model before and after a change.

python docs/counterfactual_picture.py
"""

import shutil
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image
from playwright.sync_api import sync_playwright

import attnx

PICTURE = Path(__file__).parent / "images" / "side-by-side.png"
BROWSER = shutil.which("chromium") or shutil.which("google-chrome")

model, tokenizer = attnx.load_demo()
e = attnx.explain(model, tokenizer, "the key to the cabinets near the door")
with TemporaryDirectory() as folder, sync_playwright() as playwright:
    path = Path(folder) / "both.html"
    attnx.counterfactual(model, tokenizer, e, {"key": "keys", "near": "and"}).to_html(path)
    browser = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox", "--disable-gpu"])
    page = browser.new_page(viewport={"width": 1000, "height": 900}, device_scale_factor=1.5)
    page.goto(path.as_uri())
    taken = page.locator("#side_by_side").screenshot()
    Image.open(BytesIO(taken)).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(PICTURE, optimize=True)
    browser.close()
