"""Draw docs/images/weightings.png: rollout of four kinds of edges over the layers, two sentences.

python docs/weightings_picture.py
"""

from pathlib import Path

import attnx
from attnx.reproduce.pictures import heat_maps

TEXTS = ["the key to the cabinets", "the keys to the cabinet"]
METHODS = ["rollout", "norm_rollout", "alti", "gradient_rollout"]

model, tokenizer = attnx.load_demo()
figure = heat_maps(attnx.explain(model, tokenizer, TEXTS, methods=METHODS), METHODS)
figure.savefig(Path(__file__).parent / "images" / "weightings.png", dpi=110)
