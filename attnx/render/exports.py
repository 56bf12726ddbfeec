"""An explanation as other tools take it: `head_view(**e.to_bertviz())`, Captum's `visualize_text([e.to_captum()])`."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

import torch

from attnx.errors import AttnxError, InputError
from attnx.render.printable import printable
from attnx.results.explanation import Explanation

if TYPE_CHECKING:
    from captum.attr._utils.visualization import VisualizationDataRecord


def to_bertviz(explanation: Explanation, method: str | None = None) -> dict[str, Any]:
    """The keyword arguments of BertViz's views: `attention`, a tensor of 1 × heads × n × n a layer, and `tokens`.

    By default raw attention, which is what BertViz shows. Rollout and flow take the same place, each line then leading
    to the input position itself. For a pair of texts there is `sentence_b_start`, too. Of an encoder–decoder they are
    `encoder_attention`, `decoder_attention`, `cross_attention` and the tokens of both.
    """
    of_one_layer = (name for name in explanation.methods if name in explanation.local)
    name = method or next(of_one_layer, explanation.default_method)
    explanation[name]
    if explanation.maps is None:
        raise InputError(
            'BertViz draws the rows of all positions and heads: explain(..., methods="raw", head="each", maps=True)'
        )
    explanation.map(name)  # a method of the answer alone has none, and says so
    maps = torch.from_numpy(explanation.maps[name].copy())
    heads = maps if maps.ndim == 4 else maps[:, None]
    if explanation.streams:
        return _of_two_streams(explanation, heads)
    given: dict[str, Any] = {"attention": tuple(heads[:, None]), "tokens": list(explanation.tokens)}
    second = [one.index for one in explanation.positions if one.segment == 1]
    return given | ({"sentence_b_start": second[0]} if second else {})


def _of_two_streams(explanation: Explanation, heads: torch.Tensor) -> dict[str, Any]:
    """The levels of each kind by themselves, over the positions of its streams."""
    length = next(iter(explanation.streams.values()))
    source, output = slice(0, length), slice(length, len(explanation.positions))
    kinds = explanation.provenance["settings"]["levels"]
    places = {"encoder": (source, source), "decoder": (output, output), "cross": (output, source)}
    given: dict[str, Any] = {"encoder_tokens": list(explanation.tokens[source])}
    given["decoder_tokens"] = list(explanation.tokens[output])
    for name, (rows, columns) in places.items():
        kind = "self" if name == "decoder" else name
        own = [one for one, number in zip(heads, explanation.layers, strict=True) if kinds[number - 1] == kind]
        if own:
            given[f"{name}_attention"] = tuple(one[None, :, rows, columns] for one in own)
    return given


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
    predicted, target = ("–", "–") if answer is None else (answer.predicted, answer.label)
    return visualization.VisualizationDataRecord(
        word_attributions=scores / strongest if strongest else scores,
        pred_prob=float("nan") if answer is None or answer.certainty is None else answer.certainty,
        pred_class=escape(printable(predicted)),
        true_class=escape(true_class),
        attr_class=escape(printable(target)),
        attr_score=float(scores.sum()),
        raw_input_ids=[escape(printable(word.text)) for word in words],
        convergence_score=0.0,
    )
