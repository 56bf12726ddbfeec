"""Heads or windows: what (batch · something) × query × key counts, where a model has folded it into one axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from attnx.errors import CaptureError

_NAMES = ("num_heads", "num_attention_heads", "n_heads", "n_head", "nhead", "num_attn_heads")


@dataclass
class Folded:
    """A call whose heads came folded with the batch, and with windows if the model has any."""

    maps: int
    """For each input."""
    width: int
    """Of one head's values."""
    named: int | None
    """Heads, as the module or its config names them."""
    projected: int | None = None
    """The width of all heads together, seen where they enter the output projection."""

    @property
    def heads(self) -> int | None:
        """What is known of the number of heads: from the shape of the values, else from the config."""
        if self.projected is not None and self.projected % self.width == 0:
            return self.projected // self.width
        return 1 if self.maps == 1 else self.named


def named_heads(module: Any) -> int | None:
    """The number of heads that a module, or the config that it carries, tells by a name that is known."""
    for owner in (module, getattr(module, "config", None)):
        for name in _NAMES:
            value = getattr(owner, name, None)
            if isinstance(value, int) and value > 0:
                return value
    return None


def check_heads(folded: Folded, module: str, positions: int) -> None:
    """That the maps of a folded call are its heads and nothing else."""
    if folded.heads == folded.maps:
        return
    if folded.heads is None:
        raise CaptureError(
            f"attention in {module or 'the model'} has {folded.maps} maps of {positions} positions, and neither "
            "the model's config nor an output projection says whether they are heads or windows"
        )
    raise CaptureError(
        f"attention in {module} is in windows: {folded.maps} maps of {positions} positions, but {folded.heads} heads"
    )
