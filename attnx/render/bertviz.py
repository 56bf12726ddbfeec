"""An explanation as BertViz takes it: `head_view(**e.to_bertviz())`, `model_view(**e.to_bertviz())`."""

from __future__ import annotations

from typing import Any

import torch

from attnx.errors import InputError
from attnx.explanation import Explanation


def to_bertviz(explanation: Explanation, method: str | None = None) -> dict[str, Any]:
    """The keyword arguments of BertViz's views: `attention`, a tensor of 1 × heads × n × n a layer, and `tokens`.

    By default raw attention, which is what BertViz shows. Rollout and flow take the same place, each line then leading
    to the input position itself. For a pair of texts there is `sentence_b_start`, too.
    """
    name = method or ("raw" if "raw" in explanation.relevance else explanation.default_method)
    explanation[name]
    if explanation.maps is None:
        raise InputError(
            'BertViz draws the rows of all positions and heads: explain(..., methods="raw", head="each", maps=True)'
        )
    maps = torch.from_numpy(explanation.maps[name].copy())
    heads = maps if maps.ndim == 4 else maps[:, None]
    given: dict[str, Any] = {"attention": tuple(heads[:, None]), "tokens": list(explanation.tokens)}
    second = [one.index for one in explanation.positions if one.segment == 1]
    return given | ({"sentence_b_start": second[0]} if second else {})
