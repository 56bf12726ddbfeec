"""`compare(model, tokenizer, texts)`: does attention agree with what can be measured on the model itself?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, ClassVar

from attnx.agreement.registry import MEASURES
from attnx.arguments import checked
from attnx.comparison.explained import Explained
from attnx.data.keeping import Keeping
from attnx.errors import InputError
from attnx.methods.registry import PAPER_METHODS
from attnx.references.registry import AskedReferences, asked_references
from attnx.results.comparison import Comparison, cells_of, gathered
from attnx.results.explanation import Explanation
from attnx.results.gathered import Cells
from attnx.running.given_model import given_model, takes_pipelines


@takes_pipelines("texts")
@checked
def compare(
    model: Any,
    tokenizer: Any = None,
    texts: Any = None,
    *,
    methods: Sequence[str] | str = PAPER_METHODS,
    references: AskedReferences = ("gradient", "blankout"),
    measure: str = "spearman",
    progress: bool = True,
    seed: int = 0,
    output: str | PathLike[str] | None = None,
    **options: Any,
) -> Comparison:
    """How far each method agrees with each reference at every layer, over all `texts` (or the one).

    Content positions are ranked, special tokens are not; a signed reference counts by its size. `measure` is
    "spearman", "kendall" or "top_k". `options` are those of `explain`: target, position, head, residual, truncate.

    With a folder as `output` the work is kept there, and the same call goes on where a stopped or killed one was.
    `texts` is then whatever `explain_dataset` takes, and so are its options `column`, `shard_rows`, `engine`, `workers`
    and `num_gpus`; a row that cannot be measured is left out, and the notes say why.

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
    keeping, options = Keeping.taken(output, options)
    asking = Comparing({"methods": methods, "references": asked, **options}, measure, seed)
    result: Comparison = keeping.result(asking, given_model(model, tokenizer), texts, progress=progress)
    return result


@dataclass(frozen=True)
class Comparing(Explained):
    """The measurement: how far what explanations carry agrees."""

    name: ClassVar[str] = "comparison"

    def of_each(self, explanation: Explanation) -> Cells:
        return cells_of(explanation, self.measure)

    def result(self, cells: Iterable[Cells], left_out: Mapping[str, int]) -> Comparison:
        return gathered(cells, left_out, measure=self.measure, seed=self.seed)
