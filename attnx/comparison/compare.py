"""`compare(model, tokenizer, texts)`: does attention agree with what can be measured on the model itself?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn

from attnx.agreement.measures import MEASURES
from attnx.arguments import checked
from attnx.errors import InputError
from attnx.explaining.call import Call
from attnx.methods.registry import PAPER_METHODS
from attnx.references.registry import Asked, asked_references
from attnx.results.comparison import Comparison


@checked
def compare(
    model: nn.Module,
    tokenizer: Any,
    texts: Any,
    *,
    methods: Sequence[str] | str = PAPER_METHODS,
    references: Asked = ("gradient", "blankout"),
    measure: str = "spearman",
    progress: bool = True,
    seed: int = 0,
    **options: Any,
) -> Comparison:
    """How far each method agrees with each reference at every layer, over all `texts` (or the one).

    Content positions are ranked, special tokens are not; a signed reference counts by its size. `measure` is
    "spearman", "kendall" or "top_k". `options` are those of `explain`: target, position, head, residual, truncate.

    >>> model, tokenizer = attnx.load_demo()
    >>> few = {"methods": "rollout", "references": "value_path", "progress": False}
    >>> c = compare(model, tokenizer, ["the keys to the cabinet"], **few)
    >>> c.cell("value_path", "rollout").count
    1
    """
    MEASURES[measure]
    asked = asked_references(references)
    if not asked:
        raise InputError("a comparison needs a reference to compare with: references=('gradient', 'blankout')")
    call = Call.of(model, tokenizer, texts, methods=methods, references=asked, **options)
    return Comparison.of(call.in_order("comparing", progress), measure=measure, seed=seed)
