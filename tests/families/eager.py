"""What transformers itself returns as attention, with `attn_implementation="eager"`, and how far it agrees."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import torch

Maps: TypeAlias = tuple[torch.Tensor, ...]
"""A map for each layer, batch × head × query × key."""

EAGER_IS_WRONG = {
    "cpmant": "eager returns the maps without the positions of its prompt",
    "minimax": "eager returns the state of its linear layer among the maps",
}
"""What is returned as attention and is not what was computed, found by reading transformers' code."""


def eager_attention(model: Any, inputs: Mapping[str, torch.Tensor]) -> tuple[list[Maps], Any]:
    """Every tuple of attention maps that the model returns, and all that it returns."""
    try:
        with torch.no_grad():
            output = model(**inputs, output_attentions=True)
    except Exception:
        return [], None
    found = [tuple(one for one in maps if isinstance(one, torch.Tensor)) for maps in _tuples(output)]
    return [maps for maps in found if maps and all(one.ndim == 4 for one in maps)], output


def difference(seen: torch.Tensor, told: Maps) -> float:
    """The largest, over all layers; infinite where the shapes are not the same."""
    if len(told) != len(seen) or any(one.shape[1:] != seen.shape[1:] for one in told):
        return float("inf")
    return max(float((a - b[0]).abs().max()) for a, b in zip(seen, told, strict=True))


def among(seen: torch.Tensor, told: Maps, tolerance: float) -> bool:
    """Whether the levels of one part are among the maps of all parts, in their order."""
    rest = iter(told)
    return all(any(difference(level[None], (one,)) <= tolerance for one in rest) for level in seen)


def same_output(plain: Any, eager: Any) -> bool:
    """Whether eager attention is the same model at all."""
    if isinstance(plain, Mapping) and isinstance(eager, Mapping):
        return all(same_output(plain[name], eager[name]) for name in plain if name in eager)
    if isinstance(plain, (tuple, list)) and isinstance(eager, (tuple, list)):
        return all(same_output(one, other) for one, other in zip(plain, eager, strict=False))
    if isinstance(plain, torch.Tensor) and isinstance(eager, torch.Tensor):
        return plain.shape == eager.shape and torch.allclose(plain.float(), eager.float(), atol=1e-3, rtol=1e-3)
    return True


def _tuples(output: Any) -> Iterator[tuple[Any, ...]]:
    if isinstance(output, Mapping):
        for name, value in output.items():
            if "attentions" in name and isinstance(value, (tuple, list)):
                yield tuple(value)
            else:
                yield from _tuples(value)
