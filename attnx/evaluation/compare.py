"""`compare(model, tokenizer, texts)`: does attention agree with what can be measured on the model itself?"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import Any, ClassVar

from attnx.arguments import checked
from attnx.attribution import AskedReferences, asked_references
from attnx.errors import InputError
from attnx.evaluation.evaluation_table import Comparison, cells_of
from attnx.evaluation.evaluation_table import gathered_comparison as gathered
from attnx.methods import PAPER_METHODS
from attnx.pipeline import Call, Choices, Request, given_model, takes_pipelines
from attnx.progress import progress_bar
from attnx.results import Explanation
from attnx.runs import Cells, DatasetTask, OutputOptions, RowCallback, as_setting
from attnx.statistics import MEASURES


@dataclass(frozen=True)
class OnTexts(DatasetTask[Request]):
    """What all of them share."""

    options: Mapping[str, Any] = field(default_factory=dict)
    """Those of `explain`."""

    def settings(self) -> dict[str, Any]:
        chosen = {**{name: value for name, value in vars(self).items() if name != "options"}, **self.options}
        return {name: as_setting(value) for name, value in sorted(chosen.items()) if value is not None}

    def check(self, model: Any) -> None:
        Choices.of(model, **self.options)

    def read(self, model: Any, processor: Any, given: Any) -> Sequence[Request]:
        return Choices.of(model, **self.options).requests(processor, given)[0]

    def call(self, model: Any, processor: Any, things: Sequence[Request]) -> Call:
        return Choices.of(model, **self.options).call(processor, things)


@dataclass(frozen=True)
class Explained(OnTexts):
    """A row is what one explanation tells."""

    measure: str = "spearman"
    seed: int = 0
    """Of the bootstrap, which the result draws: no row depends on it."""

    def settings(self) -> dict[str, Any]:
        return {name: value for name, value in super().settings().items() if name != "seed"}

    @abstractmethod
    def of_each(self, explanation: Explanation) -> Cells:
        """What one text adds."""

    def cells(
        self, model: Any, processor: Any, things: Sequence[Request], tick: RowCallback, progress: bool
    ) -> Sequence[Cells]:
        found: dict[int, Cells] = {}
        with progress_bar("explaining", len(things), progress) as shown:
            for number, explanation in self.call(model, processor, things).explanations():
                found[number] = self.of_each(explanation)
                shown.update(1)
                tick()
        return [found[number] for number in range(len(things))]


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
    run_dir: str | PathLike[str] | None = None,
    **options: Any,
) -> Comparison:
    """How far each method agrees with each reference at every layer, over all `texts` (or the one).

    Content positions are ranked, special tokens are not; a signed reference counts by its size. `measure` is
    "spearman", "kendall" or "top_k". `options` are those of `explain`: target, position, head, residual, truncate.

    With a folder as `run_dir` the work is kept there, and the same call goes on where a stopped or killed one was.
    `texts` is then whatever `explain_dataset` takes, and so are its options `column`, `shard_rows`, `engine`, `workers`
    and `num_gpus`; a row that cannot be measured is left out, and the notes say why.

    >>> model, tokenizer = attnx.load_demo()
    >>> few = {"methods": "rollout", "references": "lrp", "progress": False}
    >>> c = compare(model, tokenizer, ["the keys to the cabinet"], **few)
    >>> c.cell("lrp", "rollout").count
    1
    """
    MEASURES[measure]
    asked = asked_references(references)
    if not asked:
        raise InputError("a comparison needs a reference to compare with: references=('gradient', 'blankout')")
    keeping, options = OutputOptions.taken(run_dir, options)
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
