"""An explanation as a long pandas table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from attnx.errors import AttnxError

if TYPE_CHECKING:
    import pandas

    from attnx.explanation import Explanation


def to_frame(explanation: Explanation) -> pandas.DataFrame:
    """One row for each method, layer, head (where every head was asked for) and position; references as columns."""
    try:
        import pandas
    except ImportError as error:
        raise AttnxError("to_frame needs pandas: pip install pandas") from error
    words = {index: word.text for word in explanation.words for index in word.positions}
    rows: list[dict[str, Any]] = []
    for method, scores in explanation.relevance.items():
        for place, score in np.ndenumerate(scores):
            position = explanation.positions[place[-1]]
            row = {"method": method, "layer": explanation.layers[place[0]]}
            if len(place) == 3:
                row["head"] = place[1]
            row |= {
                "position": position.index,
                "token": position.token,
                "word": words.get(position.index),
                "special": position.special,
                "score": float(score),
                **{name: float(values[position.index]) for name, values in explanation.references.items()},
            }
            rows.append(row)
    return pandas.DataFrame(rows)
