"""Draw the picture of docs/sound.md: one sound with a planted tone, heard by several methods.

python docs/planted_tone_pictures.py
"""

from pathlib import Path

import attnx
from attnx.demo_models.planted_tone import generate, load_demo
from attnx.views import time_strips

IMAGES = Path(__file__).parent / "images"


def main() -> None:
    planted = generate(1, seed=3)[0]
    e = attnx.explain(
        *load_demo(), planted.audio, methods=("raw", "rollout"), references=("lrp", "attn_lrp", "blankout")
    )
    figure = time_strips(e)
    for axes in figure.axes:
        axes.axvspan(planted.start, planted.end, facecolor="none", edgecolor="0.2", linestyle=":", linewidth=0.8)
    figure.savefig(IMAGES / "planted-tone.png", dpi=75, pil_kwargs={"optimize": True})


if __name__ == "__main__":
    main()
