"""`compare(model, tokenizer, texts)`: does attention agree with what can be measured on the model itself?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn

from attnx.adapters import adapter_for
from attnx.agreement.measures import MEASURES
from attnx.capture.watch import unwrapped
from attnx.comparison.comparison import Comparison
from attnx.errors import InputError
from attnx.explain import explain
from attnx.explanation import Explanation
from attnx.inputs import check_all
from attnx.progress import bar
from attnx.references.registry import Asked, asked_references

_AT_ONCE = 16
"""Texts between two steps of the progress bar: enough of them to fill batches."""


def compare(
    model: nn.Module,
    tokenizer: Any,
    texts: Any,
    *,
    methods: Sequence[str] | str = ("raw", "rollout", "flow"),
    references: Asked = ("gradient", "blankout"),
    measure: str = "spearman",
    progress: bool = True,
    seed: int = 0,
    **options: Any,
) -> Comparison:
    """How far each method agrees with each reference at every layer, over all `texts` (or the one).

    Content positions are ranked, special tokens are not; a signed reference counts by its size. `measure` is
    "spearman", "kendall" or "top_k". `options` are those of `explain`: target, position, head, residual, truncate.
    """
    MEASURES[measure]
    asked = asked_references(references)
    if not asked:
        raise InputError("a comparison needs a reference to compare with: references=('gradient', 'blankout')")
    several = list(texts) if isinstance(texts, list) else [texts]
    if not several:
        raise InputError("the list of texts is empty: give at least one")
    model = unwrapped(model)
    reading = {name: bool(options.get(name, False)) for name in ("truncate", "interpolate")}
    check_all(adapter_for(model), model, tokenizer, several, **reading)
    explanations: list[Explanation] = []
    with bar("comparing", len(several), progress) as shown:
        for start in range(0, len(several), _AT_ONCE):
            chunk = several[start : start + _AT_ONCE]
            explanations += explain(model, tokenizer, chunk, methods=methods, references=asked, **options)
            shown.update(len(chunk))
    return Comparison.of(explanations, measure=measure, seed=seed)
