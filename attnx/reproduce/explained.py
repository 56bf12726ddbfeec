"""What each method says of each sentence of a table, at every layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import nn

from attnx.agreement.ties import rounded
from attnx.errors import InputError
from attnx.explaining.call import Call
from attnx.explaining.seam import Request
from attnx.explaining.settings import Settings
from attnx.inputs.adapter import Prepared
from attnx.methods.registry import METHODS, PAPER_METHODS
from attnx.results import table

Array = np.ndarray[Any, np.dtype[np.float64]]


def answer_aware() -> tuple[str, ...]:
    """The methods of the registry that a target changes, which the paper did not have."""
    return tuple(name for name in METHODS.names() if METHODS[name].about_answer)


_AT_ONCE = 64
"""Sentences in a batch: they are short."""


@dataclass(frozen=True, eq=False)
class Rows:
    """`relevance[method]` is layer × position; `predicted` the class that the model chose."""

    relevance: Mapping[str, Array]
    predicted: int
    digits: Mapping[str, int]
    """Decimals that a method's scores are ranked to."""
    signed: frozenset[str] = frozenset()
    """Methods whose scores are for and against the answer: their sizes are compared with references, which have no
    sign."""

    def ranked(self, method: str) -> Array:
        """What is ranked of a method: layer × position."""
        scores = self.relevance[method]
        return rounded(np.abs(scores) if method in self.signed else scores, self.digits.get(method))


def relevance_rows(
    model: nn.Module,
    tokenizer: Any,
    prepared: Sequence[Prepared],
    rows: table.Rows,
    *,
    methods: Sequence[str] = PAPER_METHODS,
    progress: bool = False,
) -> list[Rows]:
    """One entry for each sentence, in their order."""
    over_rows = (lambda relevance: relevance.amax(2)) if rows == "maximum" else None
    settings = Settings.of(methods, normalize=None, over_rows=over_rows)
    requests = [Request(one) for one in prepared]
    call = Call(model, tokenizer, requests, settings, references={}, single=False, batch_size=_AT_ONCE)
    found = []
    for one in call.in_order("attention", progress):
        if one.prediction is None or one.prediction.kind != "class":
            raise InputError(f"{type(model).__name__} does not classify whole inputs; load it with such a head")
        found.append(Rows(one.relevance, one.prediction.index, one.digits, one.signed))
    return found
