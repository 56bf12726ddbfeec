"""Measurements on texts that are read and explained as `explain` does it, by its options."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from attnx.data.fingerprint import as_setting
from attnx.data.measurement import Measurement
from attnx.data.question import Tick
from attnx.explaining.call import Call, Choices
from attnx.explaining.seam import Request
from attnx.results.explanation import Explanation
from attnx.results.gathered import Cells
from attnx.running.batches import bar


@dataclass(frozen=True)
class OnTexts(Measurement[Request]):
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
        self, model: Any, processor: Any, things: Sequence[Request], tick: Tick, progress: bool
    ) -> Sequence[Cells]:
        found: dict[int, Cells] = {}
        with bar("explaining", len(things), progress) as shown:
            for number, explanation in self.call(model, processor, things).explanations():
                found[number] = self.of_each(explanation)
                shown.update(1)
                tick()
        return [found[number] for number in range(len(things))]
