"""The scores of one method for one input, with all that bears on how far to trust them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np

from attnx.errors import AttentionError, ChoiceError
from attnx.results.base import Array

_LARGEST = 1e100
"""No score of a model is as large, and sums and squares of smaller ones are still numbers."""


@dataclass(frozen=True)
class Attribution:
    """Scores of one method for one input.

    Attributes:
        method: Its name in the registry of methods.
        scores: layers × positions, or layers × heads × positions where every head was kept; positions alone where
            the method has no layers.
        layers: The layers on the first axis, counted from 1 next to the input; None where there is no such axis.
        signed: Whether scores support or oppose the target; those of all others say only how much.
        target_specific: Whether scores depend on the predicted target; others describe mixing only.
        single_layer: Whether scores are of one layer alone, and lead to the layer below and not to the input.
        precision: Decimals beyond which the order means nothing; None where scores are exact.
        diagnostics: What tells how far to trust the scores: a number for each layer (`saturation`, `tied`), or one for
            all (`value`, the score that is explained; what `biases` and the `sink` have of it).
        matrices: layers × (heads ×) query × position in single precision, where all query positions were requested.
    """

    method: str
    scores: Array
    layers: tuple[int, ...] | None
    signed: bool
    target_specific: bool
    single_layer: bool = False
    precision: int | None = None
    diagnostics: Mapping[str, Any] = field(default_factory=dict)
    matrices: Annotated[Array, np.float32] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "scores", np.asarray(self.scores, dtype=np.float64))
        for array in (self.scores, self.matrices):
            if array is not None:
                array.setflags(write=False)

    def check(self, positions: int) -> None:
        """That shapes fit so many positions, and that every number is finite."""
        axes = 1 if self.layers is None else 2
        shape = self.scores.shape
        fits = shape[-1:] == (positions,) and len(shape) in ({1} if axes == 1 else {2, 3})
        if self.layers is not None:
            fits = fits and shape[0] == len(self.layers) and 0 not in shape
        if not fits or not (np.abs(self.scores) <= _LARGEST).all():
            expected = (
                f"{positions} positions" if axes == 1 else f"{len(self.layers or ())} layers × {positions} positions"
            )
            raise AttentionError(
                f"the scores of {self.method} must be finite numbers for {expected}, found {_shape(shape)}"
            )
        for name, values in self.diagnostics.items():
            if isinstance(values, (list, tuple)) and (
                len(values) != len(self.layers or ()) or not all(isinstance(number, (int, float)) for number in values)
            ):
                raise AttentionError(f"{name} of {self.method} must be {len(self.layers or ())} numbers, one a layer")
        if self.matrices is not None:
            expected_shape = (*shape[:-1], positions, positions)
            if self.matrices.shape != expected_shape or not np.isfinite(self.matrices).all():
                raise AttentionError(f"the matrices of {self.method} must be {_shape(expected_shape)} finite numbers")

    @property
    def facts(self) -> dict[str, Any]:
        """The diagnostics that are of all layers."""
        return {name: value for name, value in self.diagnostics.items() if not isinstance(value, (list, tuple))}

    def index(self, layer: int | None) -> int:
        """Where a layer stands on the first axis, by default the last."""
        layers = self.layers or ()
        if layer is None or not layers:
            return len(layers) - 1
        if layer not in layers:
            raise ChoiceError(
                f"layer {layer} was requested, but the explanation has layers {', '.join(map(str, layers))}"
            )
        return layers.index(layer)

    def at(self, layer: int | None) -> dict[str, Any]:
        """The diagnostics of a layer, by default the last, and those of all."""
        place = self.index(layer)
        return {
            name: value[place] if isinstance(value, (list, tuple)) else value
            for name, value in self.diagnostics.items()
        }

    def row(self, layer: int | None, head: int | None) -> Array:
        """The scores of a layer, and of a head where heads were kept apart."""
        row: Array = self.scores[self.index(layer)]
        if row.ndim == 1 and head is not None:
            raise ChoiceError(
                f"head {head} was requested, but heads were merged; explain(..., head='all') keeps them apart"
            )
        return row if row.ndim == 1 else one_head(row, head)


def one_head(heads: Array, head: int | None) -> Array:
    """One of the heads on the first axis, or the mean of all."""
    if head is None:
        mean: Array = heads.mean(0)
        return mean
    if not 0 <= head < len(heads):
        raise ChoiceError(
            f"head {head} was requested, but the explanation has {len(heads)} heads (0 to {len(heads) - 1})"
        )
    array: Array = heads[head]
    return array


def _shape(shape: tuple[int, ...]) -> str:
    return " × ".join(map(str, shape))
