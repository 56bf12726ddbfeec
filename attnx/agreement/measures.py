"""The measures of agreement by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from attnx.agreement.kendall import kendall
from attnx.agreement.spearman import spearman
from attnx.agreement.top_k import top_k
from attnx.registry import Registry

Array = np.ndarray[Any, np.dtype[np.float64]]
Measure: TypeAlias = Callable[[Array, Array], Array]
"""(scores[…, position], reference[position]) → a number for each row, NaN where it is undefined."""

MEASURES: Registry[Measure] = Registry("measure")
for _measure in (spearman, kendall, top_k):
    MEASURES.add(_measure.__name__, _measure)
