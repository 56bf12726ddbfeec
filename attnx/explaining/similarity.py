"""Which words of two texts make their embeddings similar: `explain_similarity(model, tokenizer, a, b)`.

Each text is explained for its cosine with the other's embedding, by the road of `explain`. The grid takes the cosine
apart over pairs: along the value path an embedding is the sum of what each position and the biases bring to it, so the
cosine is the sum of the products of all pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from attnx.answer.kinds.similarity import SimilarTo, pooled
from attnx.answer.registry import ANSWERS, read
from attnx.arguments import checked
from attnx.capturing.watch import unwrapped
from attnx.errors import AttnxError, ChoiceError, InputError
from attnx.explaining.call import Call
from attnx.explaining.seam import Request
from attnx.inputs.adapter import Prepared
from attnx.inputs.pooling import MEAN, embedding_pooling
from attnx.registry import unknown
from attnx.results.similarity import Similarity
from attnx.running.answers import each_answer

if TYPE_CHECKING:
    from attnx.references.registry import Asked

Grid = Literal["value_path", "states"]
GRIDS: tuple[Grid, ...] = ("value_path", "states")

METHODS = ("rollout", "gradient_rollout")
REFERENCES = ("value_path", "blankout")

_AT_MOST = 100_000
"""Positions that are gone back through for a grid that nobody insisted on: width × positions of the shorter text."""


@checked
def explain_similarity(
    model: nn.Module,
    tokenizer: Any,
    a: Any,
    b: Any,
    *,
    pooling: str | None = None,
    methods: Sequence[str] | str = METHODS,
    references: Asked = REFERENCES,
    grid: str | bool | None = None,
    **options: Any,
) -> Similarity:
    """Which words of the texts `a` and `b` make their embeddings similar, as a `Similarity`.

    `pooling` makes one embedding of all positions: "mean", "cls" (the first) or "last"; by default as
    sentence-transformers keeps it beside the checkpoint. `methods` and `references` are those of `explain`, for the
    cosine as target. `grid` is what each pair of words adds to the cosine: by "value_path", words as they enter the
    model; by "states", positions as they leave it; False leaves it out. By default it is the first, and the second
    where that would take long or the model cannot be followed. Further `options` are those of `explain`.

    >>> from attnx.tasks.recall.checkpoint import load_demo
    >>> decoder, tokenizer = load_demo()
    >>> few = {"methods": "rollout", "references": "value_path"}
    >>> s = explain_similarity(decoder.model, tokenizer, "k3 v7", "k3 v2", pooling="mean", **few)
    >>> round(s.cosine, 2)
    1.0
    """
    model = unwrapped(model)
    how = embedding_pooling(model, pooling)
    if grid is not None and not isinstance(grid, bool) and grid not in GRIDS:
        raise ChoiceError(unknown("grid", grid, GRIDS))
    for name in ("target", "position"):
        if name in options:
            raise ChoiceError(f"{name} is what explain_similarity chooses itself: the cosine of the two texts")
    chosen: dict[str, Any] = {"progress": True} | ({"position": MEAN} if how == MEAN else {}) | options
    call = Call.of(model, tokenizer, [a, b], methods=methods, references=references, **chosen)
    if len(call.requests) != 2:
        raise InputError(f"two texts have a similarity, found {len(call.requests)}; give one as a and one as b")
    prepared = [request.prepared for request in call.requests]
    units = _units(model, tokenizer, prepared, how)
    directions = [_towards(units[1 - side], prepared[1 - side], how, own) for side, own in enumerate(prepared)]
    explanations = replace(
        call,
        requests=[Request(one, _position(how, one), target) for one, target in zip(prepared, directions, strict=True)],
    ).in_order()
    measured = next(iter(explanations[0].references), None)
    explanations = [replace(one, first=measured) for one in explanations]
    found, by, notes = _grid(model, tokenizer, prepared, how, grid)
    return Similarity(
        (explanations[0], explanations[1]),
        float(units[0] @ units[1]),
        how,
        found,
        by,
        notes,
        explanations[0].provenance,
    )


def _units(model: nn.Module, tokenizer: Any, prepared: Sequence[Prepared], pooling: str) -> list[Tensor]:
    """The embedding of each text, of length 1, in double precision."""
    states = _states(model, tokenizer, prepared)
    found = [pooled(own, pooling, len(own)) for own in states]
    return [one / one.norm() for one in found]


def _states(model: nn.Module, tokenizer: Any, prepared: Sequence[Prepared]) -> list[Tensor]:
    """Of each text position × width, as it leaves the last layer."""

    def own(row: int, output: Any, place: int) -> Tensor:
        states = ANSWERS[SimilarTo.kind].logits(model, output)
        if states is None or read(model, output) is not None:
            raise ChoiceError(
                f"{type(model).__name__} has a head that answers, and is no embedding model; load it by AutoModel, or "
                "use attnx.explain"
            )
        return states[place, : len(prepared[row].positions)].detach().double().cpu()

    return each_answer(model, tokenizer, prepared, own)


def _towards(unit: Tensor, other: Prepared, pooling: str, own: Prepared) -> SimilarTo:
    text = other.text if isinstance(other.text, str) else "the other text"
    return SimilarTo(tuple(unit.tolist()), text, pooling, len(own.positions))


def _position(pooling: str, prepared: Prepared) -> int | None:
    return {"cls": 0, "last": len(prepared.positions) - 1}.get(pooling)


def _grid(
    model: nn.Module, tokenizer: Any, prepared: Sequence[Prepared], pooling: str, asked: str | bool | None
) -> tuple[Any, str, tuple[str, ...]]:
    """The grid, what it is made of, and what there is to say of it."""
    if asked is False:
        return None, "", ()
    why = ""
    if asked in (None, True):
        why = _too_long(model, prepared)
    if asked != "states" and not why:
        try:
            return _along_paths(model, tokenizer, prepared, pooling), "value_path", ()
        except AttnxError as error:
            if asked == "value_path":
                raise
            why = str(error)
    first, second = (_shares(own, pooling) for own in _states(model, tokenizer, prepared))
    found = np.zeros((len(first) + 1, len(second) + 1))
    found[:-1, :-1] = (first @ second.T).numpy()
    told = (f"the grid is of positions as they leave the model, not of words as they enter it: {why}",) if why else ()
    return found, "states", told


def _too_long(model: nn.Module, prepared: Sequence[Prepared]) -> str:
    width = getattr(model.config, "hidden_size", 768)
    positions = width * min(len(one.positions) for one in prepared)
    if positions <= _AT_MOST:
        return ""
    return f"that takes {width:,} ways back through the shorter text; grid='value_path' insists"


def _shares(states: Tensor, pooling: str) -> Tensor:
    """What each position brings to the embedding of length 1; positions that are not pooled bring nothing."""
    length = len(states)
    weights = {"mean": torch.full((length,), 1 / length), "cls": torch.eye(length)[0], "last": torch.eye(length)[-1]}
    own = states * weights[pooling].to(states)[:, None]
    shares: Tensor = own / own.sum(0).norm()
    return shares


def _along_paths(model: nn.Module, tokenizer: Any, prepared: Sequence[Prepared], pooling: str) -> Any:
    """(positions + 1) × (positions + 1), biases last.

    The shorter text is taken apart along each of its embedding's dimensions. The longer is then followed only towards
    the parts that were found.
    """
    short = min((0, 1), key=lambda number: len(prepared[number].positions))
    width = len(_units(model, tokenizer, [prepared[short]], pooling)[0])
    parts = _paths(model, tokenizer, prepared[short], torch.eye(width, dtype=torch.float64).numpy(), pooling)
    found = _paths(model, tokenizer, prepared[1 - short], parts, pooling)
    return found.T if short == 0 else found


def _paths(model: nn.Module, tokenizer: Any, prepared: Prepared, directions: Any, pooling: str) -> Any:
    """direction × width → (positions + 1) × direction: what each position brings to each of them, and biases last."""
    from attnx.references.case import Case
    from attnx.references.paths import value_path  # Captum's road is loaded only for those who take it

    cases = [
        Case(replace(prepared), SimilarTo(tuple(one), "", pooling, len(prepared.positions)).target(0))
        for one in directions.tolist()
    ]
    scored = value_path(model, tokenizer, cases, sink=False)
    return np.stack([np.append(one.scores, float(one.facts["biases"])) for one in scored]).T
