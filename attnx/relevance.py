"""Relevance for one explained position by every method that was asked for, and what says how far to trust it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any, Literal, TypeAlias

import numpy as np

from attnx.attention import AttentionTensor
from attnx.errors import ChoiceError
from attnx.long_attention import LongAttention
from attnx.methods import METHODS
from attnx.methods.choices import Head
from attnx.methods.flow import by_receptive_field, column_bound, saturated_share
from attnx.methods.receptive_field import NORMALIZATIONS, Normalize
from attnx.methods.sink import sink_share
from attnx.registry import unknown

Array = np.ndarray[Any, np.dtype[np.float64]]
Normalization: TypeAlias = Normalize | Literal["auto"] | None
"""How decoders are treated: "auto" is "receptive_field" for causal attention and nothing for other."""


@dataclass(frozen=True)
class Settings:
    """What a caller chose for all methods; None for residual leaves each method its own."""

    layer: int | None = None
    head: Head | None = None
    residual: float | None = None
    normalize: Normalization = "auto"
    drop_sink: bool = False
    discard: float | None = None
    spare: int | None = 0
    """The position whose weights are not discarded: CLS, where the input begins with it."""

    def __post_init__(self) -> None:
        if self.normalize not in ("auto", None, *NORMALIZATIONS):
            raise ChoiceError(unknown("normalize", self.normalize, ("auto", *NORMALIZATIONS)) + "; None leaves it out")

    def normalization(self, attention: AttentionTensor | LongAttention) -> Normalize | None:
        """The normalisation that this attention gets."""
        if self.normalize == "auto":
            return "receptive_field" if attention.causal else None
        return self.normalize

    def on_record(self, attention: AttentionTensor | LongAttention, methods: Sequence[str]) -> dict[str, Any]:
        """The settings as they were used, for the provenance of a result."""
        head = "mean" if self.head is None else self.head if isinstance(self.head, str) else int(self.head)
        defaults = {name: signature(METHODS[name]).parameters.get("residual") for name in methods}
        residuals = {
            name: self.residual if self.residual is not None else parameter.default if parameter is not None else None
            for name, parameter in defaults.items()
        }
        normalize = self.normalization(attention)
        record = {"head": head, "residual": residuals, "normalize": normalize, "drop_sink": self.drop_sink}
        record |= {"causal": True} if attention.causal else {}  # what "auto" goes by, and what has a first token
        return record if self.discard is None else record | {"discard": self.discard}

    def check_discard(self, methods: Sequence[str] | None) -> None:
        """Refuse to discard where no method does; among the usual ones, None, rollout does."""
        if methods is None or self.discard is None:
            return
        if not any("discard" in signature(METHODS[name]).parameters for name in methods):
            raise ChoiceError(f"discard={self.discard} asked, but {', '.join(methods)} discards nothing; use rollout")


@dataclass(frozen=True)
class Relevance:
    """layers × (heads ×) positions by method, and its remarks."""

    scores: Mapping[str, Array]
    saturation: tuple[float, ...] | None
    sink: tuple[float, ...] | None


def relevance_of(
    attention: AttentionTensor | LongAttention,
    position: int | Sequence[int],
    methods: Sequence[str],
    settings: Settings,
) -> Relevance:
    """What reached one position, or each of several, at the layers that were asked for."""
    found = {name: _rows(name, attention, position, settings) for name in methods}
    saturation = found["flow"][1] if "flow" in found else None
    return Relevance({name: rows for name, (rows, _) in found.items()}, saturation, _sink(attention, settings))


def _rows(
    name: str, attention: AttentionTensor | LongAttention, position: int | Sequence[int], settings: Settings
) -> tuple[Array, tuple[float, ...] | None]:
    """The scores of one method, and of flow the share of inputs that are saturated."""
    method, normalize = METHODS[name], settings.normalization(attention)
    if normalize == "receptive_field" and attention.causal:
        normalize = "prefix"  # what comes later does not change what a position knows
    asked: dict[str, Any] = {"position": position, "head": settings.head}
    asked |= {} if settings.residual is None else {"residual": settings.residual}
    asked |= {"drop_sink": True} if settings.drop_sink else {}
    own: dict[str, Any] = (
        {"normalize": normalize} if normalize is not None and _takes(method, "normalize", settings) else {}
    )
    if settings.discard is not None and "discard" in signature(method).parameters:
        own |= {"discard": settings.discard, "spare": settings.spare}
    if name != "flow":
        return _layers(method(attention, layer=settings.layer, **asked, **own), settings), None
    # Whether a flow is saturated must be asked before it is held against the receptive field.
    narrow = own if normalize == "column" else {}
    flows = method(attention, layer=settings.layer, **asked, **narrow)
    share = np.asarray(saturated_share(flows, column_bound(attention, **asked, **narrow)))
    if own != narrow:
        flows = by_receptive_field(flows, attention, layer=settings.layer, **asked, **own)
    shares = share.reshape(1 if settings.layer is not None else len(share), -1).mean(-1)
    return _layers(flows, settings), tuple(shares.tolist())


def _layers(scores: Any, settings: Settings) -> Array:
    """With an axis of one when a single layer was asked for."""
    rows: Array = scores.detach().cpu().numpy()
    return rows if settings.layer is None else rows[None]


def _takes(method: Any, name: str, settings: Settings) -> bool:
    """Whether a method knows an argument. A plug-in's may not, which is an error only if the caller insists."""
    return settings.normalize != "auto" or name in signature(method).parameters


def _sink(attention: AttentionTensor | LongAttention, settings: Settings) -> tuple[float, ...] | None:
    """Per layer, the share of attention that goes to the first token of a decoder; not known of a long input."""
    if isinstance(attention, LongAttention) or not attention.causal:
        return None
    try:
        share = sink_share(attention, layer=settings.layer)
    except ChoiceError:  # a window so narrow that nobody else sees it
        return None
    return tuple(np.atleast_1d(share.cpu().numpy()).tolist())
