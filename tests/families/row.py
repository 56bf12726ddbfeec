"""One model type: what became of it, in a word and with its reason."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import torch

from tests.families.building import built
from tests.families.eager import EAGER_IS_WRONG, Maps, among, difference, eager_attention, same_output

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
    told, output = eager_attention(eager, inputs)
    if any(difference(seen.weights, maps) <= TOLERANCE for maps in told):
        return "equal", part
    if module and any(among(seen.weights, maps, TOLERANCE) for maps in told):
        return "equal", part
    with torch.no_grad():
        try:
            output = output if told else eager(**inputs)
        except Exception as error:
            return "eager is wrong", f"with eager attention the model does not run: {_line(error)}"
        if not same_output(model(**inputs), output):
            return "eager is wrong", "with eager attention the model gives another output"
    if name in EAGER_IS_WRONG:
        return "eager is wrong", EAGER_IS_WRONG[name]
    if any(difference(seen.weights, tuple(one.softmax(-1) for one in maps)) <= TOLERANCE for maps in told):
        return "eager is wrong", "eager returns scores before their softmax"
    if any(difference(seen.weights.mean(1, keepdim=True).expand_as(seen.weights), maps) <= TOLERANCE for maps in told):
        return "eager is wrong", "eager returns the mean of heads, repeated for each"
    if _comparable(seen, told):
        found = (seen.num_layers, seen.num_heads, seen.length)
        return "different", f"{part} seen {found}, eager {[(len(maps), *maps[0].shape[1:]) for maps in told]}"
    # Eager attention returns nothing of this stack, but its softmax can be seen; the fused kernel's is computed.
    beside = capture(eager, module=module, **inputs)
    if difference(seen.weights, tuple(beside.weights[:, None])) > TOLERANCE:
        return "different", f"{part} from the softmax of eager attention"
    return "equal by softmax", part


def _comparable(seen: Any, told: list[Maps]) -> bool:
    """Whether some map that eager attention returns is over as many positions."""
    return any(one.shape[-2:] == (seen.length, seen.length) for maps in told for one in maps)


def _line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:200]
