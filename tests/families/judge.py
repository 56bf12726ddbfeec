"""One model type: what attnx sees, compared with what transformers returns with `attn_implementation="eager"`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch

from tests.families.models import built

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
    found = [tuple(layer for layer in maps if isinstance(layer, torch.Tensor)) for maps in _tuples(output)]
    return [maps for maps in found if maps and all(layer.ndim == 4 for layer in maps)], output


def difference(seen: torch.Tensor, returned: Maps) -> float:
    """The largest, over all layers; infinite where the shapes are not the same."""
    if len(returned) != len(seen) or any(layer.shape[1:] != seen.shape[1:] for layer in returned):
        return float("inf")
    return max(float((a - b[0]).abs().max()) for a, b in zip(seen, returned, strict=True))


def among(seen: torch.Tensor, returned: Maps, tolerance: float) -> bool:
    """Whether the levels of layer part are among the maps of all parts, in their order."""
    rest = iter(returned)
    return all(any(difference(level[None], (layer,)) <= tolerance for layer in rest) for level in seen)


def same_output(plain: Any, eager: Any) -> bool:
    """Whether eager attention is the same model at all."""
    if isinstance(plain, Mapping) and isinstance(eager, Mapping):
        return all(same_output(plain[name], eager[name]) for name in plain if name in eager)
    if isinstance(plain, (tuple, list)) and isinstance(eager, (tuple, list)):
        return all(same_output(layer, other) for layer, other in zip(plain, eager, strict=False))
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


TOLERANCE = 1e-5
WRONG = ("different", "failed")


@dataclass(frozen=True)
class Row:
    """A verdict: equal, equal by softmax, refused, eager is wrong, not built. What must not be: different, failed."""

    name: str
    verdict: str
    reason: str = ""

    @property
    def fine(self) -> bool:
        return self.verdict not in WRONG


def judge(name: str) -> Row:
    """Build the type, capture it, and hold what was seen against eager attention."""
    from attnx.errors import AttnxError

    try:
        model, eager, inputs = built(name)
    except Exception as error:
        return Row(name, "not built", _line(error))
    try:
        try:
            seen, module = _captured(model, inputs)
        except AttnxError as error:
            return Row(name, "refused", _line(error))
        return Row(name, *_verdict(name, model, eager, inputs, seen, module))
    except Exception as error:
        return Row(name, "failed", _line(error))


def _captured(model: Any, inputs: dict[str, torch.Tensor]) -> tuple[Any, str]:
    """The attention of the model, or of the part that the refusal of the whole advises: that has to work."""
    from attnx.errors import AttnxError
    from attnx.hooks.capture import capture

    try:
        return capture(model, **inputs), ""
    except AttnxError as error:
        advised = re.search(r"module='([^']+)'", str(error))
        if advised is None:
            raise
    try:
        return capture(model, module=advised[1], **inputs), advised[1]
    except AttnxError as error:
        raise RuntimeError(f"what was advised does not work: module={advised[1]!r}: {error}") from error


def _verdict(
    name: str, model: Any, eager: Any, inputs: dict[str, torch.Tensor], seen: Any, module: str
) -> tuple[str, str]:
    from attnx.hooks.capture import capture

    part = f"module={module!r}" if module else ""
    returned, output = eager_attention(eager, inputs)
    if any(difference(seen.weights, maps) <= TOLERANCE for maps in returned):
        return "equal", part
    if module and any(among(seen.weights, maps, TOLERANCE) for maps in returned):
        return "equal", part
    with torch.no_grad():
        try:
            output = output if returned else eager(**inputs)
        except Exception as error:
            return "eager is wrong", f"with eager attention the model does not run: {_line(error)}"
        if not same_output(model(**inputs), output):
            return "eager is wrong", "with eager attention the model gives another output"
    if name in EAGER_IS_WRONG:
        return "eager is wrong", EAGER_IS_WRONG[name]
    if any(difference(seen.weights, tuple(layer.softmax(-1) for layer in maps)) <= TOLERANCE for maps in returned):
        return "eager is wrong", "eager returns scores before their softmax"
    merged = seen.weights.mean(1, keepdim=True).expand_as(seen.weights)
    if any(difference(merged, maps) <= TOLERANCE for maps in returned):
        return "eager is wrong", "eager returns the mean of heads, repeated for each"
    if _comparable(seen, returned):
        found = (seen.num_layers, seen.num_heads, seen.length)
        return "different", f"{part} seen {found}, eager {[(len(maps), *maps[0].shape[1:]) for maps in returned]}"
    # Eager attention returns nothing of this stack, but its softmax can be seen; the fused kernel's is computed.
    beside = capture(eager, module=module, **inputs)
    if difference(seen.weights, tuple(beside.weights[:, None])) > TOLERANCE:
        return "different", f"{part} from the softmax of eager attention"
    return "equal by softmax", part


def _comparable(seen: Any, returned: list[Maps]) -> bool:
    """Whether some map that eager attention returns is over as many positions."""
    return any(layer.shape[-2:] == (seen.length, seen.length) for maps in returned for layer in maps)


def _line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:200]
