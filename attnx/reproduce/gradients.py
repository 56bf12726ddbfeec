"""The gradients of Tables 2 and 3, as each protocol takes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from torch import nn

from attnx.adapters import Prepared
from attnx.references import cases, gradient
from attnx.reproduce.protocols import Protocol, gradient_case

Array = np.ndarray[Any, np.dtype[np.float64]]


def protocol_gradients(
    model: nn.Module,
    tokenizer: Any,
    prepared: Sequence[Prepared],
    protocols: Sequence[Protocol],
    *,
    embed_fully: Callable[..., Any] | None = None,
    progress: bool = False,
) -> dict[Protocol, list[Array]]:
    """Under each protocol, one array of scores for each sentence.

    `embed_fully` is the model's whole embedding layer, positions and LayerNorm included, for a protocol that applies
    it before the model applies it again.
    """
    asked = cases(model, tokenizer, prepared)
    found = {}
    for protocol in protocols:
        pairs = [gradient_case(case, protocol.gradient_of) for case in asked]
        scored = gradient(
            model,
            tokenizer,
            [case for case, _ in pairs],
            score=pairs[0][1],
            reduction=protocol.gradient_reduction,
            embed=embed_fully if protocol.embedded_twice else None,
            progress=progress,
        )
        found[protocol] = [one.scores for one in scored]
    return found
