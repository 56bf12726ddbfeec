"""What the receptive field and single heads cost beside the plain methods, and how strong the correction is.

    python -m tests.benchmarks.decoders

Random causal attention of 12 layers, one thread, the last position at every layer; the best of three rounds.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

import numpy as np

import attnx
from attnx.methods import flow as flow_module

LAYERS = 12
FAIR = {"position": -1, "normalize": "receptive_field"}


def main() -> None:
    attnx.flow(np.full((2, 1, 4, 4), 0.25))  # compiled before anything is timed
    random = np.random.default_rng(0)
    for length in (64, 128, 256, 512):
        attention = _causal(random, length)
        _flow(attention)
        _rollout(attention)
    _heads(random)
    _correction(36)


def _flow(attention: np.ndarray) -> None:
    def first() -> None:
        flow_module._uninformed_flows.clear()
        attnx.flow(attention, threads=1, **FAIR)

    plain = _seconds(lambda: attnx.flow(attention, threads=1, position=-1))
    cold, warm = _seconds(first), _seconds(lambda: attnx.flow(attention, threads=1, **FAIR))
    print(
        f"n = {attention.shape[-1]:3d}: flow {plain:.3f} s; by its receptive field at first {cold / plain:.2f} ×, "
        f"later {warm / plain:.2f} ×"
    )


def _rollout(attention: np.ndarray) -> None:
    plain, fair = (
        _seconds(lambda: attnx.rollout(attention, position=-1)),
        _seconds(lambda: attnx.rollout(attention, **FAIR)),
    )
    print(f"         rollout {plain * 1e3:.1f} ms; by its receptive field {fair * 1e3:.1f} ms")


def _heads(random: np.random.Generator) -> None:
    attention = random.dirichlet(np.full(128, 0.3), size=(LAYERS, 12, 128))
    mean = _seconds(lambda: attnx.rollout(attention, position=0))
    each = _seconds(lambda: attnx.rollout(attention, position=0, head="all"))
    print(f"rollout of every one of 12 heads, 12 layers, n = 128: {each / mean:.2f} × that of their mean")


def _correction(length: int) -> None:
    """B / U of the last position but one against that of the first, as seen from the last."""
    mask = np.tri(length)
    for layers in (3, 6, 12, 30):
        even = np.stack([mask / mask.sum(-1, keepdims=True)] * layers)[:, None]
        ratio = attnx.rollout(even, layer=layers, **FAIR) / attnx.rollout(even, layer=layers, position=-1)
        print(f"n = {length}, {layers:2d} layers: the correction differs by a factor of {ratio[-2] / ratio[0]:.3g}")


def _causal(random: np.random.Generator, length: int) -> np.ndarray:
    scores = np.where(np.tri(length, dtype=bool), 2 * random.normal(size=(LAYERS, 1, length, length)), -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def _seconds(run: Callable[[], object]) -> float:
    def once() -> float:
        start = perf_counter()
        run()
        return perf_counter() - start

    return min(once() for _ in range(3))


if __name__ == "__main__":
    main()
