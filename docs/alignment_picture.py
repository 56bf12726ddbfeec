"""Draw the grid of an alignment: python docs/alignment_picture.py"""

from pathlib import Path

import attnx
from attnx.demo_models.dates import load_demo

IMAGES = Path(__file__).parent / "images"


def main() -> None:
    model, tokenizer = load_demo()
    source, target = "not may 9 2011 but the third of march 1998", "1998 03 03"
    explained = attnx.explain(model, tokenizer, source, target_text=target, methods="raw", all_queries=True)
    figure = attnx.alignment(explained).plot().figure
    figure.savefig(IMAGES / "alignment.png", dpi=110)


if __name__ == "__main__":
    main()
