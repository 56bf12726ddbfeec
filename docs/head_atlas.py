"""Draw docs/images/head-atlas.png: the heads of the embedded model, over forty sentences.

python docs/head_atlas.py
"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt

import attnx

PICTURE = Path(__file__).parent / "images" / "head-atlas.png"
NOUNS = ("key", "keys", "author", "authors")
PLACES = ("to the cabinets", "to the cabinet", "of the book", "near the old houses", "that the men saw")
FIRST = ("the", "here the")

texts = [f"{first} {noun} {place}" for first in FIRST for noun in NOUNS for place in PLACES]
model, tokenizer = attnx.load_demo()
figure, panels = plt.subplots(1, 3, figsize=(13, 3.3), layout="constrained")
for method, by, panel in (("raw", "carried", 0), ("raw", "gradient", 1), ("rollout", "gradient", 2)):
    atlas = attnx.head_atlas(model, tokenizer, texts, methods=method, against="gradient")
    atlas.plot(ax=panels[panel], by=by)
figure.savefig(PICTURE, dpi=120)
