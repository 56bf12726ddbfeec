"""`head_atlas(model, tokenizer, texts)`: every head of every layer by itself, over one text or many."""

from __future__ import annotations

from typing import Any

from torch import nn

from attnx.agreement.measures import MEASURES
from attnx.atlas.atlas import HeadAtlas
from attnx.errors import ChoiceError, InputError
from attnx.explain import explain
from attnx.explanation import Explanation
from attnx.progress import bar
from attnx.references.registry import Asked, asked_references

_AT_ONCE = 16
"""Texts between two steps of the progress bar: enough of them to fill batches."""


def head_atlas(
    model: nn.Module,
    tokenizer: Any,
    texts: Any,
    *,
    method: str = "rollout",
    references: Asked = ("gradient", "blankout"),
    measure: str = "spearman",
    progress: bool = True,
    seed: int = 0,
    **options: Any,
) -> HeadAtlas:
    """What each head carries from the words to the explained position, and how far it agrees with each reference.

    A head carries the attention that it gives to other words than its own: not what stays, and not what goes to special
    tokens or to the first token of a decoder, where heads with nothing to do look. It agrees as far as `method`, with
    that head alone in its layer and heads merged below (Appendix A.1), ranks the words as the reference does.

    `measure` is "spearman", "kendall" or "top_k". `options` are those of `explain`: target, position, layer, residual,
    normalize, drop_sink, truncate. With `references=()` the model is run once and nothing is measured on it.
    """
    MEASURES[measure]
    if "head" in options or "methods" in options:
        raise ChoiceError("an atlas shows every head by one method: leave head= out, and give method='rollout'")
    several = list(texts) if isinstance(texts, list) else [texts]
    if not several:
        raise InputError("the list of texts is empty: give at least one")
    asked = asked_references(references)
    methods = ["raw", *([] if method == "raw" else [method])]
    explanations: list[Explanation] = []
    with bar("heads", len(several), progress) as shown:
        for start in range(0, len(several), _AT_ONCE):
            chunk = several[start : start + _AT_ONCE]
            explanations += explain(model, tokenizer, chunk, methods=methods, head="each", references=asked, **options)
            shown.update(len(chunk))
    return HeadAtlas.of(explanations, measure=measure, seed=seed)
