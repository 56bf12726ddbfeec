"""Draw the pictures of the pages on weightings: docs/images/weightings.png and docs/images/weighting-*.png.

python docs/weightings_pictures.py              # all
python docs/weightings_pictures.py norm alti    # some
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import attnx
from attnx.attention import AttentionTensor
from attnx.graph import Graph
from attnx.graph.gradient import effective_attention, gains
from attnx.hooks import capture_batch
from attnx.pipeline.pipeline import Observation, with_answer_gradient
from attnx.targets import Target
from attnx.views.plots import draw_heat_map

IMAGES = Path(__file__).parent / "images"
TEXT, OTHER = "the key to the cabinets", "the keys to the cabinet"
LONG = "the key to the cabinets near the rivers by the gardens behind the tables of the teachers under the windows"
RED, BLUE, GREY = "#d55e00", "#0072b2", "#888888"

model, tokenizer = attnx.load_demo()


def overview() -> Figure:
    """Words alone: what the residual keeps at <bos> would outshine all others in gradient rollout."""
    methods = ["rollout", "norm_rollout", "alti", "gradient_rollout"]
    explained = attnx.explain(model, tokenizer, [TEXT, OTHER], methods=methods)
    figure = Figure(figsize=(8.4, 2.6 * len(methods)), layout="constrained")
    for row, method in zip(figure.subplots(len(methods), 2), methods, strict=True):
        for axes, e in zip(row, explained, strict=True):
            places = [place for word in e.words for place in word.positions]
            layers(axes, e, method, places, f"{method}, answer: {e.prediction}")
    return figure


def attention() -> Figure:
    figure, panels = row_of(3)
    edges(panels[0], captured(), "attention", 1, "attention W, layer 1", residual=0)
    edges(panels[1], captured(), "attention", 1, "½·W + ½·I, layer 1")
    layers(panels[2], explained("rollout"), "rollout")
    return figure


def effective() -> Figure:
    """How much of attention has no effect, by the number of positions, and where it lies in one head."""
    width = captured().layers[0].captured["values"].shape[-1]
    lengths, unseen = [], []
    words = LONG.split()
    for count in range(4, len(words) + 1):
        level = captured(" ".join(words[:count])).layers[0]
        found = effective_attention(level, 0, level.mask.length).weights
        lengths.append(level.mask.length)
        unseen.append(float((level.weights - found).norm(dim=-1).mean() / level.weights.norm(dim=-1).mean()))
    figure, (curve, rows) = row_of(2, widths=(1, 1.3))
    curve.plot(lengths, unseen, color=BLUE, marker="o", markersize=4)
    curve.axvline(width, color=RED, linewidth=1)
    curve.annotate(f"a head is\n{width} wide", (width, max(unseen)), (-6, 0), textcoords="offset points",
                   color=RED, ha="right", va="top")  # fmt: skip
    curve.set(xlabel="positions", ylabel="‖A − E‖ / ‖A‖, mean of layer 1", ylim=(-0.01, None))
    curve.spines[["top", "right"]].set_visible(False)
    both = torch.stack([found[0, 0], level.weights[0, 0].double()])
    draw_heat_map(rows, both.numpy(), tokens_of(LONG), ["E", "A"], signed=bool((both < 0).any()))
    rows.set_title("head 1 of layer 1, from <bos>", fontsize=10)
    return figure


def norm() -> Figure:
    figure, (left, sizes, right) = row_of(3)
    edges(left, captured(), "attention", 2, "attention, layer 2", residual=0)
    level = captured().layers[1]
    projected = level.captured["projections"].reshape(-1, level.heads, level.captured["values"].shape[-1])
    carried = torch.einsum("ohw,hjw->hjo", projected, level.captured["values"]).norm(dim=-1).mean(0)
    sizes.bar(range(len(carried)), carried, color=BLUE)
    sizes.set_xticks(range(len(carried)), tokens_of(), rotation=90, fontsize=9)
    sizes.set_title("size of what a head carries\nfrom each key, mean of heads", fontsize=10)
    sizes.spines[["top", "right"]].set_visible(False)
    edges(right, captured(), "norm", 2, "norm, layer 2", residual=0)
    return figure


def norm_residual() -> Figure:
    figure, (left, right, shares) = row_of(3)
    edges(left, captured(), "attention", 2, "½·attention + ½·I, layer 2")
    edges(right, captured(), "norm_residual", 2, "norm_residual, layer 2")
    for name, label, colour in (("attention", "½·attention + ½·I", GREY), ("norm_residual", "norm_residual", BLUE)):
        kept = [float(one.matrix.diagonal().mean()) for one in Graph.of(captured(), edge_weights=name).layers]
        shares.plot(range(1, len(kept) + 1), kept, color=colour, marker="o", label=label)
    shares.set(xlabel="layer", ylabel="edge to itself", ylim=(0, 1))
    shares.set_title("what stays where it is (mean)", fontsize=10)
    shares.legend(frameon=False)
    shares.spines[["top", "right"]].set_visible(False)
    return figure


def alti() -> Figure:
    figure, panels = row_of(3)
    edges(panels[0], captured(), "norm_residual", 1, "norm_residual, layer 1")
    edges(panels[1], captured(), "alti", 1, "alti, layer 1 (0: nothing at all)")
    nothing = Graph.of(captured(), edge_weights="alti").layers[0].matrix == 0
    for query, key in nothing.nonzero().tolist():
        panels[1].text(key, query, "0", ha="center", va="center", fontsize=8, color=GREY)
    layers(panels[2], explained("alti"), "alti")
    return figure


def gradient() -> Figure:
    inputs = dict(tokenizer(TEXT, return_tensors="pt"))
    watched = capture_batch(model, inputs, extras=("values",), entry=model.get_input_embeddings())
    seen = Observation(watched.attention[0], watched.output, 0)
    known = with_answer_gradient(model, seen, Target(int(watched.output.logits.argmax()), 0))
    gained = gains(known.layers[0], 0, known.length).weights
    figure, panels = row_of(3)
    square(panels[0], gained.mean(0), "A · ∂s/∂A, mean of heads, layer 1\n(orange for the answer, blue against)")
    square(panels[1], gained.clamp(min=0).mean(0), "Ā: each head clipped at 0,\nthen their mean, layer 1")
    e = explained("gradient_rollout")
    others = [place for place in range(len(e.tokens)) if place != e.position]
    layers(panels[2], e, "gradient_rollout", others, "gradient_rollout, from <bos>,\nwithout <bos> itself")
    return figure


def captured(text: str = TEXT) -> AttentionTensor:
    return attnx.capture(model, extras=("blocks",), **tokenizer(text, return_tensors="pt"))


def explained(method: str) -> attnx.Explanation:
    return attnx.explain(model, tokenizer, TEXT, methods=method)


def tokens_of(text: str = TEXT) -> list[str]:
    tokens: list[str] = tokenizer.convert_ids_to_tokens(tokenizer(text)["input_ids"])
    return tokens


def row_of(count: int, widths: Sequence[float] | None = None) -> tuple[Figure, Sequence[Axes]]:
    figure = Figure(figsize=(3.9 * count, 3.4), layout="constrained")
    figure.get_layout_engine().set(wspace=0.06)
    return figure, figure.subplots(1, count, width_ratios=widths)


def edges(axes: Axes, known: AttentionTensor, edge_weights: str, layer: int, title: str, residual: float = 0.5) -> None:
    """All edges of a layer, heads together: a row for each query."""
    graph = Graph.of(known, edge_weights=edge_weights, residual=residual)
    square(axes, graph.layers[layer - 1].matrix, title)


def square(axes: Axes, matrix: torch.Tensor, title: str) -> None:
    draw_heat_map(axes, matrix.numpy(), tokens_of(), tokens_of(), signed=bool((matrix < 0).any()))
    axes.invert_yaxis()
    axes.set(xlabel="key", ylabel="query")
    axes.set_title(title, fontsize=10)


def layers(
    axes: Axes, e: attnx.Explanation, method: str, places: Sequence[int] | None = None, title: str | None = None
) -> None:
    """What reaches the explained position from all others or some, layer by layer."""
    shown = list(range(len(e.tokens)) if places is None else places)
    tokens, rows = [e.tokens[one] for one in shown], [str(layer) for layer in e.layers]
    draw_heat_map(axes, e[method][:, shown], tokens, rows, signed=e.attributions[method].signed)
    axes.set_ylabel("layer")
    axes.set_title(title or f"{method}, from {e.tokens[e.position]}", fontsize=10)


PICTURES = {
    "weightings": overview,
    "attention": attention,
    "effective": effective,
    "norm": norm,
    "norm-residual": norm_residual,
    "alti": alti,
    "gradient": gradient,
}
"""What each page shows, by its name."""


def main(names: Sequence[str]) -> None:
    for name in names or PICTURES:
        stem = name if name == "weightings" else f"weighting-{name}"
        PICTURES[name]().savefig(IMAGES / f"{stem}.png", dpi=110)


if __name__ == "__main__":
    main(sys.argv[1:])
