"""What every method says of one input: graphs made once, rows for each explained position, whole maps on demand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
from torch import Tensor

from attnx.attention.tensor import AttentionTensor
from attnx.errors import ChoiceError
from attnx.explaining.settings import Settings
from attnx.graph.asked import Asked
from attnx.graph.graph import Graph
from attnx.graph.patch_sinks import PatchSink, patch_sinks
from attnx.graph.sink import sink_share
from attnx.methods.method import Method, MethodAnswer, apply

Array = np.ndarray[Any, np.dtype[np.float64]]
T = TypeVar("T")


class Relevance:
    """The methods on the attention of one input, by the settings of a call."""

    def __init__(
        self, attention: AttentionTensor, methods: Sequence[Method], settings: Settings, spare: int | None
    ) -> None:
        """`spare` is the position whose weights are not discarded: CLS, where the input begins with it."""
        self.attention, self.methods, self.settings, self.spare = attention, methods, settings, spare
        self._graphs: dict[tuple[str, float, float, bool], Graph] = {}

    def of_positions(self, positions: Sequence[int]) -> dict[str, MethodAnswer]:
        """layer × head × position × input by method; with `over_rows` one row of all, the same for each position."""
        merge = self.settings.over_rows
        if merge is None:
            return self._answers(list(positions))
        found = self._answers(None)
        return {
            name: MethodAnswer(
                merge(one.relevance)[:, :, None].expand(-1, -1, len(positions), -1),
                {
                    kind: values.mean(1, keepdims=True).repeat(len(positions), axis=1)
                    for kind, values in one.diagnostics.items()
                },
                one.facts,
            )
            for name, one in found.items()
        }

    def maps(self) -> dict[str, Any]:
        """layers × (heads ×) query × input of each method that has rows of all positions, in single precision."""
        whole = self._answers(None, [method for method in self.methods if method.reading == "row"])
        return {name: scores(one.relevance, self.settings).astype("float32") for name, one in whole.items()}

    def patch_sinks(self, patches: Sequence[int]) -> list[dict[int, PatchSink]]:
        """Of each layer that is read, the patches that take far more attention than their share."""
        if not self.attention.whole:
            return []
        found = patch_sinks(self.attention, patches)
        layers = Asked.of(len(found), self.attention.length, layer=self.settings.layer_of(self.attention)).layers
        return [found[layer - 1] for layer in layers]

    def sink(self, of_patches: Sequence[Mapping[int, PatchSink]] = ()) -> tuple[float, ...] | None:
        """Per layer, the share of attention that goes to the first token of what a model writes, or of an image to the
        patches that are sinks; None where there is none, and of a long input."""
        if any(of_patches) and not self.attention.streams:
            return tuple(sum(one.share for one in layer.values()) for layer in of_patches)
        if not self.attention.whole or not (self.attention.causal or self.attention.streams):
            return None
        try:
            share = sink_share(self.attention, layer=self.settings.layer_of(self.attention))
        except ChoiceError:  # a window so narrow that nobody else sees it
            return None
        return tuple(share.reshape(-1).tolist())

    def _answers(self, positions: list[int] | None, methods: Sequence[Method] | None = None) -> dict[str, MethodAnswer]:
        layer = self.settings.layer_of(self.attention)
        attention, normalize = self.attention, self.settings.normalization
        if attention.copies > 1:
            every = range(attention.tokens) if positions is None else positions
            positions = [attention.answering(one) for one in every]
        asked = Asked.of(attention.layers, attention.length, layer=layer, position=positions)
        found = {
            method.name: apply(method, self._graph(method), asked, normalize(attention, method))
            for method in (self.methods if methods is None else methods)
        }
        # What a position keeps that holds no token is no token's.
        return {name: replace(one, relevance=one.relevance[..., : attention.tokens]) for name, one in found.items()}

    def _graph(self, method: Method) -> Graph:
        """The graph of a method's weighting and shares, over weights that are checked and merged once."""
        residual, discard = self.settings.residual_of(method), self.settings.discard if method.discards else 0.0
        column = self.settings.normalization(self.attention, method) == "column"
        key = (method.weighting, residual, discard, column)
        if key not in self._graphs:
            alike = (graph for other, graph in self._graphs.items() if (other[0], other[3]) == (key[0], column))
            base = next(alike, None) or Graph.of(
                self.attention,
                weighting=method.weighting,
                head=self.settings.head,
                drop_sink=self.settings.drop_sink,
                column=column,
                spare=self.spare,
            )
            self._graphs[key] = base.mixed(residual, discard)
        return self._graphs[key]


@dataclass(frozen=True, eq=False)
class Reading:
    """What methods say of one request, in the form of a result."""

    relevance: Mapping[str, Array]
    diagnostics: Mapping[str, Mapping[str, tuple[float, ...]]]
    maps: Mapping[str, Array] | None
    facts: Mapping[str, Mapping[str, float | str]] = field(default_factory=dict)
    """Method → what else it tells, for the provenance."""

    @classmethod
    def of(
        cls, answers: Mapping[str, MethodAnswer], row: int, maps: Mapping[str, Array] | None, settings: Settings
    ) -> Reading:
        """Of one of the positions that were asked for together."""
        relevance = {name: scores(one.relevance[:, :, row], settings) for name, one in answers.items()}
        facts = {name: one.facts for name, one in answers.items() if one.facts}
        return cls(relevance, diagnostics(answers, row), maps, facts)

    def joined(self, other: Reading, methods: Sequence[Method]) -> Reading:
        """Both, in the order of the methods."""
        return Reading(
            _in_order({**self.relevance, **other.relevance}, methods),
            _in_order({**self.diagnostics, **other.diagnostics}, methods),
            None if self.maps is None else _in_order({**self.maps, **(other.maps or {})}, methods),
            _in_order({**self.facts, **other.facts}, methods),
        )


def _in_order(found: Mapping[str, T], methods: Sequence[Method]) -> dict[str, T]:
    return {method.name: found[method.name] for method in methods if method.name in found}


def scores(relevance: Tensor, settings: Settings) -> Array:
    """layers × (heads ×) … of layer × head × …; the axis of heads is there when each was asked for."""
    found: Array = (relevance if settings.head == "each" else relevance[:, 0]).detach().cpu().numpy()
    return found


def diagnostics(answers: Mapping[str, MethodAnswer], row: int) -> dict[str, dict[str, tuple[float, ...]]]:
    """Method → name → a number for each layer, of one of the asked positions."""
    return {
        name: {kind: tuple(values[:, row].tolist()) for kind, values in answer.diagnostics.items()}
        for name, answer in answers.items()
        if answer.diagnostics
    }
