"""Draw docs/images/value-zeroing.png: value zeroing beside ALTI and rollout over the layers, two sentences.

python docs/value_zeroing_picture.py
"""

from pathlib import Path

import attnx
from attnx.paper.figures import heat_maps

TEXTS = ["the key to the cabinets", "the keys to the cabinet"]
METHODS = ["rollout", "alti", "value_zeroing"]

model, tokenizer = attnx.load_demo()
figure = heat_maps(attnx.explain(model, tokenizer, TEXTS, methods=METHODS), METHODS)
figure.savefig(Path(__file__).parent / "images" / "value-zeroing.png", dpi=110)
