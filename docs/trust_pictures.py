"""Draws docs/images/agreement.png and docs/images/faithfulness.png: the embedded model on 60 generated sentences."""

from __future__ import annotations

from pathlib import Path

import attnx
from attnx.demo_models.verb_number_data import generate
from attnx.paper import save_picture

IMAGES = Path(__file__).parent / "images"
SENTENCES = 60


def main() -> None:
    model, tokenizer = attnx.load_demo()
    texts = [one.text for one in generate(SENTENCES, seed=2_000_000)]
    comparison = attnx.compare(model, tokenizer, texts)
    print(comparison)
    faithfulness = attnx.faithfulness(model, tokenizer, texts)
    print(faithfulness)
    for name, panels in (("agreement", comparison.plot()), ("faithfulness", faithfulness.plot())):
        png, svg = save_picture(panels[0].figure, IMAGES / name)
        svg.unlink()
        print(png.name)


if __name__ == "__main__":
    main()
