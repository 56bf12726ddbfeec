"""The result: relevance of every input position for the explained one, through all layers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from attnx.errors import AttentionError, ChoiceError, InputError
from attnx.explanation.views import Views
from attnx.methods.flow import tied_share
from attnx.positions import Position, Word
from attnx.prediction import Prediction
from attnx.registry import unknown

if TYPE_CHECKING:
    import pandas
    from PIL.Image import Image

Array = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class WordScore:
    """A word of the text with its relevance: the sum over its pieces."""

    text: str
    score: float
    positions: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Explanation(Views):
    """What the model looked at, keyed by position. `e["rollout"]` is layers × positions, the last layer last."""

    positions: tuple[Position, ...]
    words: tuple[Word, ...]
    position: int
    """The explained position: whose view of the input this is."""
    layers: tuple[int, ...]
    """The layers on the first axis, counted from 1 next to the input."""
    relevance: Mapping[str, Array]
    """Method → layers × positions, or layers × heads × positions when every head was asked for."""
    references: Mapping[str, Array] = field(default_factory=dict)
    """Reference → one score for each position, measured on the model itself (see `attnx.references`)."""
    text: str | tuple[str, str] | None = None
    prediction: Prediction | None = None
    saturation: tuple[float, ...] | None = None
    """Per layer, the share of inputs whose flow is all that can enter them at all; None when flow was not asked for."""
    sink: tuple[float, ...] | None = None
    """Per layer, the share of attention that goes to the first token of a decoder, whose place it may be to collect
    what has nowhere else to go; None for other models and for long inputs."""
    notes: tuple[str, ...] = ()
    """What the user should know of how the input was read."""
    provenance: Mapping[str, Any] = field(default_factory=dict)
    """Versions, model and settings that made these numbers."""
    maps: Mapping[str, Array] | None = None
    """Method → layers × (heads ×) query × input in single precision: every position explained, where asked for."""
    image: Image | None = field(default=None, repr=False)
    """The picture that was explained. It stays in memory and is not saved: files are small, and tell no faces."""
    image_size: tuple[int, int] | None = None
    """Its width and height, in which the boxes of the positions are counted; None for a text."""

    def __post_init__(self) -> None:
        for name, scores in self.relevance.items():
            ends = (scores.shape[:1], scores.shape[-1:])
            if scores.ndim not in (2, 3) or ends != ((len(self.layers),), (len(self.positions),)):
                raise AttentionError(
                    f"{name} is {' × '.join(map(str, scores.shape))}, expected {len(self.layers)} layers × "
                    f"{len(self.positions)} positions"
                )
            if not np.isfinite(scores).all():
                raise AttentionError(f"{name} has numbers that are not finite")
            scores.setflags(write=False)
        for name, scores in self.references.items():
            if scores.shape != (len(self.positions),) or not np.isfinite(scores).all():
                raise AttentionError(f"reference {name} must be {len(self.positions)} finite numbers, one a position")
            scores.setflags(write=False)
        for name, scores in (self.maps or {}).items():
            shape = (*self[name].shape[:-1], len(self.positions), len(self.positions))
            if scores.shape != shape or not np.isfinite(scores).all():
                raise AttentionError(f"the map of {name} must be {' × '.join(map(str, shape))} finite numbers")
            scores.setflags(write=False)
        places = [self.position, *(index for word in self.words for index in word.positions)]
        if not self.relevance or not all(0 <= place < len(self.positions) for place in places):
            raise AttentionError("an explanation needs a method, and words and an explained position inside its input")

    @property
    def methods(self) -> tuple[str, ...]:
        return tuple(self.relevance)

    @property
    def tokens(self) -> tuple[str, ...]:
        return tuple(one.token for one in self.positions)

    def __getitem__(self, method: str) -> Array:
        if method not in self.relevance:
            raise ChoiceError(unknown("method", method, self.relevance) + " (of those that were asked for)")
        return self.relevance[method]

    def scores(self, method: str | None = None, layer: int | None = None, head: int | None = None) -> Array:
        """One row: the relevance of each position. By default rollout (if it was asked for) at the last layer.

        The name of a reference that was asked for gives its scores, which have no layer.
        """
        if method is not None and method in self.references:
            return self.references[method]
        chosen = self[method or self.default_method]
        layer = self.layers[-1] if layer is None else layer
        if layer not in self.layers:
            raise ChoiceError(f"layer {layer} asked, the explanation has {', '.join(map(str, self.layers))}")
        row: Array = chosen[self.layers.index(layer)]
        if row.ndim == 1 and head is not None:
            raise ChoiceError(f"head {head} asked, but heads were merged; explain(..., head='each') keeps them apart")
        return row if row.ndim == 1 else _one_head(row, head)

    def map(self, method: str | None = None, head: int | None = None) -> Array:
        """Layers × query × input: the rows of all positions, of one head or of their mean where every head was kept."""
        name = method or self.default_method
        rows = self[name]
        if self.maps is None:
            raise InputError(
                "only the rows of the explained position were kept; explain(..., maps=True) keeps those of all"
            )
        chosen = self.maps[name]
        return chosen if rows.ndim == 2 else _one_head(np.moveaxis(chosen, 1, 0), head)

    @property
    def default_method(self) -> str:
        return "rollout" if "rollout" in self.relevance else self.methods[0]

    def by_word(self, method: str | None = None, layer: int | None = None) -> list[WordScore]:
        """The words of the text in their order, special tokens left out."""
        scores = self.scores(method, layer)
        return [WordScore(one.text, float(scores[list(one.positions)].sum()), one.positions) for one in self.words]

    def top(self, count: int = 5, method: str | None = None, layer: int | None = None) -> list[WordScore]:
        """The words that matter most, best first; words that tie stay in the order of the text."""
        return sorted(self.by_word(method, layer), key=lambda word: -round(word.score, 9))[:count]

    def tied(self, method: str | None = None, layer: int | None = None) -> float:
        """The share of positions whose score, rounded to 1e-9, another position has too: their order means nothing."""
        return float(tied_share(self.scores(method, layer)))

    def save(self, path: str | PathLike[str]) -> None:
        """Write a safetensors file that `Explanation.load` reads: the numbers, and a JSON header with all the rest."""
        from attnx.explanation.storage import save

        save(self, path)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Explanation:
        """Read what `save` wrote. Nothing in the file is executed."""
        from attnx.explanation.storage import load

        return load(path)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain lists, numbers and strings, ready for JSON."""
        return {
            "text": list(self.text) if isinstance(self.text, tuple) else self.text,
            "position": self.position,
            "layers": list(self.layers),
            "positions": [_plain_position(one) for one in self.positions],
            "words": [asdict(one) | {"positions": list(one.positions)} for one in self.words],
            "prediction": _plain(self.prediction),
            "relevance": {name: scores.tolist() for name, scores in self.relevance.items()},
            "references": {name: scores.tolist() for name, scores in self.references.items()},
            "saturation": None if self.saturation is None else list(self.saturation),
            "sink": None if self.sink is None else list(self.sink),
            "notes": list(self.notes),
            "provenance": dict(self.provenance),
            "maps": None if self.maps is None else {name: scores.tolist() for name, scores in self.maps.items()},
            "image_size": None if self.image_size is None else list(self.image_size),
        }

    def to_frame(self) -> pandas.DataFrame:
        """A pandas table with one row for each method, layer, (head) and position."""
        from attnx.explanation.frame import to_frame

        return to_frame(self)

    def __repr__(self) -> str:
        answer = f", predicted {self.prediction}" if self.prediction else ""
        explained = self.positions[self.position].token
        return (
            f"Explanation({len(self.positions)} positions, {len(self.layers)} layers, explained {explained!r}, "
            f"methods {', '.join(self.methods)}{answer})"
        )

    def __str__(self) -> str:
        if self.image_size is not None:
            from attnx.render.patch_table import patch_table

            return patch_table(self)
        from attnx.render.plain_text import plain

        return plain(self)


def _one_head(heads: Array, head: int | None) -> Array:
    """The asked one on the first axis, or the mean of all."""
    if head is None:
        mean: Array = heads.mean(0)
        return mean
    if not 0 <= head < len(heads):
        raise ChoiceError(f"head {head} asked, the explanation has {len(heads)} (0 to {len(heads) - 1})")
    one: Array = heads[head]
    return one


def _plain_position(position: Position) -> dict[str, Any]:
    return asdict(position) | {"box": None if position.box is None else list(position.box)}


def _plain(prediction: Prediction | None) -> dict[str, Any] | None:
    if prediction is None:
        return None
    return asdict(prediction) | {"labels": list(prediction.labels), "logits": list(prediction.logits)}
