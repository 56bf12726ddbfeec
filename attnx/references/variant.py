"""A variant of an input: nothing at some of its places. Each is made when its batch is: all at once they would be many
times the size of the inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from attnx.answer.kind import position_moved
from attnx.answer.number import Score
from attnx.answer.registry import ANSWERS
from attnx.answer.score import answered, as_rows
from attnx.answer.target import Target
from attnx.inputs.adapter import Prepared
from attnx.references.blank import Blank
from attnx.references.case import Case
from attnx.references.said import KeptAnswers, key_of
from attnx.running.alike import Alike
from attnx.running.batches import collate
from attnx.running.linear_map import LinearMaps


@dataclass(frozen=True)
class Variant:
    """Input number `case` with nothing at these `places`."""

    case: int
    places: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class Made(Sequence[Prepared]):
    """The inputs of variants, each made when it is read."""

    cases: Sequence[Case]
    variants: Sequence[Variant]
    blank: Blank

    def __len__(self) -> int:
        return len(self.variants)

    def __getitem__(self, row: Any) -> Any:
        return self.blank.apply(self.whole(row), self.variants[row].places)

    def whole(self, row: int) -> Prepared:
        """The input itself."""
        return self.cases[self.variants[row].case].prepared

    def length(self, row: int) -> int:
        gone = len(self.variants[row].places) if self.blank.shortens else 0
        return len(self.whole(row).positions) - gone


@dataclass(frozen=True, eq=False)
class Runs:
    """What the runs of one measurement share: variants, all of them different, and what is read of each."""

    model: nn.Module
    pad_id: int | None
    made: Made
    wanted: Mapping[Variant, tuple[Target, ...]]
    kind: Score
    answers: str
    """The row of `ANSWERS` that all targets name."""
    said: KeptAnswers | None = None
    """Where answers are kept for another question."""
    maps: LinearMaps = field(default_factory=LinearMaps)

    def asked(self, rows: Sequence[int]) -> list[tuple[int, Variant, Target]]:
        """What is read of these rows, in the order of their scores: place in the batch, variant, target."""
        variants = [self.made.variants[row] for row in rows]
        return [(place, one, target) for place, one in enumerate(variants) for target in self.wanted[one]]

    def scores(self, rows: Sequence[int], kind: Score | None = None) -> Tensor:
        """The scores of what is `asked` of these rows, run together."""
        return self.read(rows, collate(self.model, [self.made[row] for row in rows], self.pad_id), kind=kind)

    def read(
        self, rows: Sequence[int], inputs: dict[str, Any], *, behind: int = 0, kind: Score | None = None
    ) -> Tensor:
        """The same of inputs that lack so many positions in front."""
        asked, device = self.asked(rows), next(iter(inputs.values())).device
        targets = as_rows([self._read_at(target, variant) for _, variant, target in asked], device)
        targets[:, 1] -= behind
        of = torch.tensor([place for place, _, _ in asked], device=device)
        self.maps.begin(targets[:, 1].long() if len(asked) == len(rows) else None, Alike.of(inputs))
        row, answers = answered(self.model, inputs, targets, of, answers=self.answers)
        if self.said is not None and kind is None:
            self.said.keep([self.key(variant, target) for _, variant, target in asked], row, answers)
        return row.score(self.model, answers, targets, kind or self.kind)

    def key(self, variant: Variant, target: Target) -> Any:
        """Under which what is said of a variant is kept."""
        prepared = self.made.cases[variant.case].prepared
        return key_of(self.model, prepared, self.made.blank, variant.places, target, self.answers)

    def _read_at(self, target: Target, variant: Variant) -> Target:
        """The target where it has moved to."""
        if not self.made.blank.shortens:
            return target
        moved = ANSWERS[target.kind].moved if target.kind else position_moved
        return moved(target, variant.places)
