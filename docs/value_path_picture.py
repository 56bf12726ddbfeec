"""Draw docs/images/value-path.png: what each word adds to the answer, and where that stood on its way up.

python docs/value_path_picture.py
"""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")
from matplotlib import pyplot as plt

import attnx
from attnx.adapters import adapter_for
from attnx.attribution import cases
from attnx.attribution.lrp import lrp, lrp_by_layer
from attnx.views.terminal import AGAINST, FOR, colour_map

PICTURE = Path(__file__).parent / "images" / "value-path.png"
TEXTS = ["the key to the cabinets", "the keys to the cabinet"]


def main() -> None:
    model, tokenizer = attnx.load_demo()
    prepared = [adapter_for(model).prepare(model, tokenizer, text) for text in TEXTS]
    asked = cases(model, tokenizer, prepared)
    scored, layers = lrp(model, tokenizer, asked), lrp_by_layer(model, tokenizer, asked)
    figure, axes = plt.subplots(2, 2, figsize=(9.4, 5.6), layout="constrained")
    for (bars, rows), case, one, held in zip(axes, asked, scored, layers, strict=True):
        tokens = [position.token for position in case.prepared.positions]
        label = model.config.id2label[case.target.index]
        parts = [*one.scores, one.facts["biases"]]
        bars.bar(range(len(parts)), parts, color=[FOR if part > 0 else AGAINST for part in parts])
        bars.set_xticks(range(len(parts)), [*tokens, "(biases)"], rotation=30)
        bars.set_title(f"what speaks for {label}: {one.facts['value']:+.2f}", fontsize=10)
        bars.axhline(0, color="#888888", linewidth=0.8)
        bars.spines[["top", "right"]].set_visible(False)
        most = float(np.abs(held).max())
        image = rows.imshow(held, cmap=colour_map(signed=True), vmin=-most, vmax=most, aspect="auto", origin="lower")
        rows.set_xticks(range(len(tokens)), tokens, rotation=30)
        rows.set_yticks(range(len(held)), range(1, len(held) + 1))
        rows.set_ylabel("entering layer")
        rows.set_title("where it stands", fontsize=10)
        figure.colorbar(image, ax=rows)
    figure.savefig(PICTURE, dpi=110)


if __name__ == "__main__":
    main()
