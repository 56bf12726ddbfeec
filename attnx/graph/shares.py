"""Shares that a caller chooses of a graph: how much the residual has, how much is left out."""

from __future__ import annotations

from attnx.errors import ChoiceError


def check_share(share: float) -> float:
    """A share of the weights to discard, which leaves something."""
    if not isinstance(share, (int, float)) or isinstance(share, bool) or not 0 <= share < 1:
        raise ChoiceError(f"discard is a share of the weights, from 0 to less than 1; {share!r} asked")
    return share


def check_residual(residual: float) -> float:
    """The share of the residual connection."""
    if not isinstance(residual, (int, float)) or not 0 <= residual <= 1:
        raise ChoiceError(f"residual is a share between 0 and 1, {residual!r} asked")
    return residual
