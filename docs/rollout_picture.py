"""Draw raw attention and rollout of two sentences over the layers.

python docs/rollout_picture.py
"""

from pathlib import Path

import attnx
from attnx.paper.figures import heat_maps

TEXTS = ["the key to the cabinets", "the keys to the cabinet"]
METHODS = ["raw", "rollout"]

model, tokenizer = attnx.load_demo()
figure = heat_maps(attnx.explain(model, tokenizer, TEXTS, methods=METHODS), METHODS)
figure.savefig(Path(__file__).parent / "images" / "rollout.png", dpi=110)
