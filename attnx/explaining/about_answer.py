"""Methods whose edges know the answer: of each request a way back through the run, and a graph of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

from torch import nn

from attnx.answer.prediction import Prediction
from attnx.answer.target import Target
from attnx.attention.tensor import AttentionTensor
from attnx.errors import ChoiceError
from attnx.explaining.relevance import Reading, Relevance
from attnx.explaining.settings import Settings
from attnx.inputs.adapter import Prepared
from attnx.methods.method import Method
from attnx.running.answer_gradient import with_answer_gradient
from attnx.running.observe import Observation
from attnx.running.readout import readouts_of, with_brought


def by_kind(methods: Sequence[Method]) -> tuple[list[Method], list[Method]]:
    """Those that know nothing of the answer, and those that do."""
    about = [method for method in methods if method.about_answer]
    return [method for method in methods if method not in about], about


@dataclass(frozen=True, eq=False)
class AnswerEdges:
    """The methods about the answer of one input, which was seen with its values and a way back."""

    model: nn.Module
    processor: Any
    methods: Sequence[Method]
    settings: Settings
    prepared: Prepared
    seen: Observation
    spare: int | None

    def readings(self, places: Sequence[int], predictions: Sequence[Prediction | None]) -> Iterator[Reading]:
        """What they say of the answer at each place: the prediction, or what was asked for. All share one run."""
        if not self.methods or predictions[0] is None:  # a head that answers does so everywhere
            yield from (Reading({}, {}, None) for _ in places)
            return
        targets = [Target.of(self.model, *pair) for pair in zip(predictions, places, strict=True)]
        for target, attention in zip(targets, self._known(targets), strict=True):
            relevance = Relevance(attention, self.methods, self.settings, self.spare)
            maps = relevance.maps() if self.settings.maps else None
            yield Reading.of(relevance.of_positions([target.position]), 0, maps, self.settings)

    def _known(self, targets: Sequence[Target]) -> Iterator[AttentionTensor]:
        """The attention with what the methods must know of each answer."""
        reading = [method.name for method in self.methods if method.reading == "share"]
        gone_back = any(method.edges.about_answer for method in self.methods)
        read = (
            readouts_of(self.model, self.processor, self.prepared, self.seen.attention, targets, ", ".join(reading))
            if reading
            else repeat({})
        )
        for target, brought in zip(targets, read, strict=False):
            known = with_answer_gradient(self.model, self.seen, target) if gone_back else self.seen.attention
            yield with_brought(known, brought)

    def notes(self, prediction: Prediction | None, others: Sequence[Method]) -> tuple[str, ...]:
        """That they were left out, where there is no answer; an error if no other method is left."""
        if not self.methods or prediction is not None:
            return ()
        names = ", ".join(method.name for method in self.methods)
        why = f"{type(self.model).__name__} has no head that predicts, and {names} explains an answer"
        if not others:
            raise ChoiceError(f"{why}; load the model with its head, or ask for rollout or alti")
        return (f"{names} left out: {why}",)
