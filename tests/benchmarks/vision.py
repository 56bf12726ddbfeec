"""How fast flow and overlays are at the size of ViT-base, beside igraph: measured in one run, printed, never asserted.

    python -m tests.benchmarks.vision

The model has the shape of ViT-base (12 layers, 12 heads, 14 × 14 patches and CLS: 197 positions) and random weights.
As they are drawn its attention is nearly even, the hardest case for flow; with queries and keys scaled up it is
as uneven as in a trained model.
"""

from __future__ import annotations

import os
import time
from typing import Any

import igraph
import numpy as np
import torch
import transformers
from PIL import Image

import attnx
from attnx.adapters import adapter_for
from attnx.graph import Graph
from tests.benchmarks.flow import least_time

SHARPNESS = (1.0, 3.0)
"""Factors on the weights of queries and keys."""
IGRAPH_PAIRS = 12
Array = np.ndarray[Any, np.dtype[np.float64]]


def main() -> None:
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(min(2, os.cpu_count() or 1))
    model, processor, photo = vit_base(SHARPNESS[-1]), transformers.ViTImageProcessor(), picture(1280, 960)
    begin = time.perf_counter()
    prepared = adapter_for(model).prepare(model, processor, photo)
    print(f"reading a photo of 1280 × 960, its geometry measured    {time.perf_counter() - begin:8.2f} s")
    again = least_time(lambda: adapter_for(model).prepare(model, processor, photo), times=3)
    print(f"  another of the same size                              {again:8.2f} s")
    pixels = prepared.inputs["pixel_values"][None]
    run = least_time(lambda: attnx.capture(model, pixel_values=pixels), times=2)
    print(f"capture of all heads                                    {run:8.2f} s")
    for sharpness in SHARPNESS:
        flow_row(attnx.capture(vit_base(sharpness), pixel_values=pixels))
    whole = least_time(lambda: attnx.explain(model, processor, photo), times=1)
    print(f"explain, raw, rollout and flow at all 12 layers         {whole:8.2f} s")
    drawn = least_time(attnx.explain(model, processor, photo).overlay, times=3)
    print(f"overlay at full size                                    {drawn:8.2f} s")


def flow_row(attention: Any) -> None:
    weights = attention.numpy()
    entropy = -(weights * np.log(np.maximum(weights, 1e-12))).sum(-1).mean() / np.log(weights.shape[-1])
    print(f"flow, CLS row at the last layer, 197 positions, 12 layers; entropy of rows {entropy:.0%} of an even one's")
    ours = least_time(lambda: attnx.flow(weights, layer=12, position=0, threads=2), times=5)
    print(f"  attnx, two threads                                    {ours:8.3f} s   (floor: 5 s)")
    single = least_time(lambda: attnx.flow(weights, layer=12, position=0, threads=1), times=5)
    print(f"  attnx, one thread                                     {single:8.3f} s")
    every = least_time(lambda: attnx.flow(weights, position=0, threads=2), times=2)
    print(f"  attnx, two threads, CLS at all 12 layers              {every:8.3f} s")
    values = attnx.flow(weights, layer=12, position=0)
    seconds, worst = igraph_row(weights, values)
    print(
        f"  igraph maxflow_value, {IGRAPH_PAIRS} of 197 pairs, scaled         {seconds:8.1f} s   "
        f"{seconds / single:,.0f} × attnx with one thread; differs by {worst:.0e}"
    )


def igraph_row(weights: Array, values: Array) -> tuple[float, float]:
    """Seconds for a whole row, and the widest difference from attnx."""
    capacities = np.stack([edges.matrix.numpy() for edges in Graph.of(weights).layers])
    layers, length, _ = capacities.shape
    layer, query, key = np.nonzero(capacities)
    edges = np.stack([(layer + 1) * length + query, layer * length + key], axis=1)
    graph = igraph.Graph(n=(layers + 1) * length, edges=edges.tolist(), directed=True)
    graph.es["capacity"] = capacities[layer, query, key].tolist()
    worst, sinks = 0.0, np.random.default_rng(0).choice(length, IGRAPH_PAIRS, replace=False).tolist()
    begin = time.perf_counter()
    for sink in sinks:
        value = graph.maxflow_value(layers * length, sink, capacity="capacity")
        worst = max(worst, abs(value - values[sink]))
    return (time.perf_counter() - begin) / IGRAPH_PAIRS * length, worst


def vit_base(sharpness: float) -> Any:
    torch.manual_seed(0)
    model = transformers.ViTModel(transformers.ViTConfig()).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim == 2 and any(part in name for part in ("query", "key", "q_proj", "k_proj")):
                parameter.mul_(sharpness)
    return model


def picture(width: int, height: int) -> Any:
    """Coloured blobs, so that patches differ."""
    coarse = np.random.default_rng(0).integers(0, 255, (12, 16, 3), dtype=np.uint8)
    return Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)


if __name__ == "__main__":
    main()
