"""An explanation as a record of Captum's text view: `visualize_text([e.to_captum()])`."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import torch

from attnx.errors import AttnxError
from attnx.explanation import Explanation
from attnx.render.printable import printable

if TYPE_CHECKING:
    from captum.attr._utils.visualization import VisualizationDataRecord


def to_captum(
    explanation: Explanation, method: str | None = None, layer: int | None = None, *, true_class: str = "–"
) -> VisualizationDataRecord:
    """The words with their scores, scaled so that the strongest is 1, the deepest colour that Captum has.

    `attr_score` is the sum of the words before they were scaled. A model without a head has no class, and its
    probability is NaN. Captum writes words and classes into the page as they are, so they come escaped.
    """
    try:
        from captum.attr import visualization
    except ImportError as error:
        raise AttnxError("to_captum needs captum: pip install captum") from error
    words = explanation.by_word(method, layer)
    scores = torch.tensor([word.score for word in words], dtype=torch.float64)
    strongest = float(scores.abs().max()) if words else 0.0
    answer = explanation.prediction
    label = escape(printable(answer.label)) if answer else "–"
    return visualization.VisualizationDataRecord(
        word_attributions=scores / strongest if strongest else scores,
        pred_prob=float("nan") if answer is None or answer.probability is None else answer.probability,
        pred_class=label,
        true_class=escape(true_class),
        attr_class=label,
        attr_score=float(scores.sum()),
        raw_input_ids=[escape(printable(word.text)) for word in words],
        convergence_score=0.0,
    )
