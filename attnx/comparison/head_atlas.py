"""`head_atlas(model, tokenizer, texts)`: every head of every layer by itself, over one text or many."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, ClassVar

from attnx.agreement.registry import MEASURES
from attnx.arguments import checked
from attnx.comparison.explained import Explained
from attnx.data.keeping import Keeping
from attnx.errors import ChoiceError
from attnx.methods.raw import RAW
from attnx.methods.registry import asked_methods
from attnx.references.registry import AskedReferences, asked_references
from attnx.results.atlas import HeadAtlas, cells_of, gathered
from attnx.results.explanation import Explanation
from attnx.results.gathered import Cells
from attnx.running.given_model import given_model, takes_pipelines


@takes_pipelines("texts")
@checked
def head_atlas(
    model: Any,
    tokenizer: Any = None,
    texts: Any = None,
    *,
    methods: Sequence[str] | str = ("rollout",),
    references: AskedReferences = ("gradient", "blankout"),
    measure: str = "spearman",
    progress: bool = True,
    seed: int = 0,
    output: str | PathLike[str] | None = None,
    **options: Any,
) -> HeadAtlas:
    """What each head carries from the words to the explained position, and how far it agrees with each reference.

    A head carries the attention that it gives to other words than its own: not what stays, and not what goes to special
    tokens or to the first token of a decoder, where heads with nothing to do look. It agrees as far as the method (one
    of `methods`), with that head alone in its layer and heads merged below (Appendix A.1), ranks the words as the
    reference does.

    `measure` is "spearman", "kendall" or "top_k". `options` are those of `explain`: target, position, layer, residual,
    normalize, drop_sink, truncate. With `references=()` the model is run once and nothing is measured on it. With a
    folder as `output` the work is kept there, and the same call goes on, as in `compare`.

    >>> model, tokenizer = attnx.load_demo()
    >>> atlas = head_atlas(model, tokenizer, ["the keys to the cabinet"], references="value_path", progress=False)
    >>> len(atlas.best(3))
    3
    """
    MEASURES[measure]
    rows = asked_methods(methods)
    if "head" in options or len(rows) > 1:
        raise ChoiceError("an atlas shows every head by one method: leave head= out, and give methods='rollout'")
    names = list(dict.fromkeys([RAW.name, rows[0].name]))  # what a head carries is raw attention
    keeping, options = Keeping.taken(output, options)
    asked = {"methods": names, "head": "each", "references": asked_references(references), **options}
    result: HeadAtlas = keeping.result(
        Charting(asked, measure, seed), given_model(model, tokenizer), texts, progress=progress
    )
    return result


@dataclass(frozen=True)
class Charting(Explained):
    """The measurement: grids of layers and heads."""

    name: ClassVar[str] = "atlas"

    def of_each(self, explanation: Explanation) -> Cells:
        return cells_of(explanation, self.measure)

    def result(self, cells: Iterable[Cells], left_out: Mapping[str, int]) -> HeadAtlas:
        return gathered(cells, left_out, measure=self.measure, seed=self.seed)
