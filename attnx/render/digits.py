"""How many decimals of a score mean something: three figures of the strongest, as far as its method is exact."""

from __future__ import annotations

from typing import Any

import numpy as np

FIGURES = 3
_FEWEST, _MOST = 1, 12


def places(scores: Any, exact: int | None = None) -> int:
    """Decimals for scores that are read side by side; `exact` are those of their method.

    >>> places([0.25, 0.031]), places([12.3, -840.0]), places([2e-7, 0]), places([2e-7, 0], exact=9)
    (3, 1, 9, 9)
    >>> places([1.0]), places([1 - 1e-16])  # rounding is not seen
    (2, 2)
    """
    most = float(np.abs(np.asarray(scores, dtype=float)).max(initial=0))
    if most == 0:
        return FIGURES
    wanted = FIGURES - 1 - int(np.floor(np.log10(float(f"{most:.{FIGURES - 1}e}"))))
    return max(_FEWEST, min(wanted, _MOST if exact is None else exact))


def written(score: float, decimals: int) -> str:
    """A score with so many decimals; a zero has no sign.

    >>> written(-0.0004, 3)
    '0.000'
    """
    return f"{round(score, decimals) + 0.0:.{decimals}f}"
