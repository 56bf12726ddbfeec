"""What makes two inputs similar: `explain_similarity(model, tokenizer, a, b)`, of two texts or of a picture and a text.

Each is explained for its cosine with the other's embedding, by the road of `explain` (see `sides`). The grid takes the
cosine apart over pairs: along the value path an embedding is the sum of what each position and the biases bring to it,
so the cosine is the sum of the products of all pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from attnx.arguments import checked
from attnx.capturing.watch import unwrapped
from attnx.errors import AttnxError, ChoiceError
from attnx.explaining.sides import Side, explained_pair, two_sides
from attnx.inputs.pooling import OWN, is_sentence_transformer, pooling_of
from attnx.inputs.towers import MATCH, matches
from attnx.registry import unknown
from attnx.results.similarity import COSINE, Similarity
from attnx.running.given_model import model_and_processor, takes_pipelines

if TYPE_CHECKING:
    from attnx.references.registry import AskedReferences

Grid = Literal["value_path", "states"]
GRIDS: tuple[Grid, ...] = ("value_path", "states")

METHODS = ("rollout", "gradient_rollout")
REFERENCES = ("value_path", "blankout")

_AT_MOST = 100_000
"""Positions that are gone back through for a grid that nobody insisted on: width × positions of the shorter input."""


@takes_pipelines("a", "b")
@checked
def explain_similarity(
    model: Any,
    tokenizer: Any = None,
    a: Any = None,
    b: Any = None,
    *,
    pooling: str | None = None,
    methods: Sequence[str] | str = METHODS,
    references: AskedReferences = REFERENCES,
    grid: str | bool | None = None,
    score: str | None = None,
    **options: Any,
) -> Similarity:
    """Which words of the texts `a` and `b`, or which patches of a picture, make their embeddings similar.

    Of a picture and a text the model is one of two towers (CLIP, SigLIP, BLIP), and `tokenizer` its processor. Without
    a tokenizer the model is a SentenceTransformer, a pipeline, or the name of a saved model:
    `explain_similarity(sentence_transformer, a, b)`. `pooling` makes one embedding of all positions: "mean", "cls" (the
    first) or "last"; by default as sentence-transformers keeps it, in its modules or beside the checkpoint. Two towers
    do that themselves. `methods` and `references` are those of `explain`, for the cosine as target. `grid` is what each
    pair of words adds to the cosine: by "value_path", words as they enter the model; by "states", positions as they
    leave it; False leaves it out. By default it is the first, and the second where that would take long or the model
    cannot be followed. `score` says which number is explained: "cosine", or "match" of a head that reads both sides
    together, which comes first where there is one. Further `options` are those of `explain`.

    >>> from attnx.tasks.recall.checkpoint import load_demo
    >>> decoder, tokenizer = load_demo()
    >>> few = {"methods": "rollout", "references": "value_path"}
    >>> s = explain_similarity(decoder.model, tokenizer, "k3 v7", "k3 v2", pooling="mean", **few)
    >>> round(s.cosine, 2)
    1.0
    """
    if is_sentence_transformer(model):
        pooling = pooling_of(model, pooling)
    model, tokenizer = model_and_processor(model, tokenizer)
    model = unwrapped(model)
    if grid is not None and not isinstance(grid, bool) and grid not in GRIDS:
        raise ChoiceError(unknown("grid", grid, GRIDS))
    asked = _score(model, score)
    for name in ("target", "position"):
        if name in options:
            raise ChoiceError(f"{name} is what explain_similarity chooses itself: the {asked} of the two inputs")
    chosen: dict[str, Any] = {"progress": True, "methods": methods, "references": references, **options}
    sides = two_sides(model, tokenizer, (a, b), pooling, chosen)
    cosine = float(sides[0].unit @ sides[1].unit)
    explanations = explained_pair(sides, match=asked == MATCH)
    measured = next(iter(explanations[0].references), None)
    first, second = (replace(one, first=measured) for one in explanations)
    found, by, notes = _grid(sides, grid, asked)
    return Similarity((first, second), cosine, sides[0].pooling, found, by, notes, first.provenance, asked)


def _score(model: nn.Module, asked: str | None) -> str:
    """Which number is explained: that of a matching head where there is one, else the cosine."""
    offered = (MATCH, COSINE) if matches(model) else (COSINE,)
    if asked is not None and asked not in offered:
        raise ChoiceError(unknown("score", asked, offered))
    return offered[0] if asked is None else asked


def _grid(sides: tuple[Side, Side], asked: str | bool | None, score: str) -> tuple[Any, str, tuple[str, ...]]:
    """The grid, what it is made of, and what there is to say of it."""
    if asked is False or (score == MATCH and asked is None):
        return None, "", ()
    if score == MATCH:
        raise ChoiceError(
            f"grid={asked!r} takes the cosine apart, and the {MATCH} is none; score={COSINE!r} explains it"
        )
    if asked == "states" and sides[0].pooling == OWN:
        raise ChoiceError(
            f"{type(sides[0].model).__name__} makes its embedding of positions in a way of its own, which is no sum of "
            "them; grid='value_path' takes it apart as it entered"
        )
    why = _too_long(sides) if asked in (None, True) else ""
    if asked != "states" and not why:
        try:
            return _along_paths(sides), "value_path", ()
        except AttnxError as error:
            if asked == "value_path":
                raise
            why = str(error)
    if sides[0].pooling == OWN:
        return None, "", (f"there is no grid of pairs: {why}",)
    first, second = (_shares(one) for one in sides)
    found = np.zeros((len(first) + 1, len(second) + 1))
    found[:-1, :-1] = (first @ second.T).numpy()
    told = (f"the grid is of positions as they leave the model, not of words as they enter it: {why}",) if why else ()
    return found, "states", told


def _too_long(sides: tuple[Side, Side]) -> str:
    width = len(sides[0].unit)
    positions = width * min(len(one.prepared.positions) for one in sides)
    if positions <= _AT_MOST:
        return ""
    return f"that takes {width:,} ways back through the shorter input; it is computed where value_path is named for it"


def _shares(side: Side) -> Tensor:
    """What each position brings to the embedding of length 1; positions that are not pooled bring nothing."""
    states, length = side.states, len(side.states)
    weights = {"mean": torch.full((length,), 1 / length), "cls": torch.eye(length)[0], "last": torch.eye(length)[-1]}
    own = states * weights[side.pooling].to(states)[:, None]
    shares: Tensor = own / own.sum(0).norm()
    return shares


def _along_paths(sides: tuple[Side, Side]) -> Any:
    """(positions + 1) × (positions + 1), biases last.

    The shorter input is taken apart along each of its embedding's dimensions. The longer is then followed only towards
    the parts that were found.
    """
    short = min((0, 1), key=lambda number: len(sides[number].prepared.positions))
    parts = _paths(sides[short], torch.eye(len(sides[short].unit), dtype=torch.float64).numpy())
    found = _paths(sides[1 - short], parts)
    return found.T if short == 0 else found


def _paths(side: Side, directions: Any) -> Any:
    """direction × width → (positions + 1) × direction: what each position brings to each of them, and biases last."""
    from attnx.references.case import Case
    from attnx.references.paths import value_path  # Captum's road is loaded only for those who take it

    cases = [Case(replace(side.prepared), side.towards(one).target(0)) for one in directions.tolist()]
    scored = value_path(side.model, side.call.tokenizer, cases, sink=False)
    return np.stack([np.append(one.scores, float(one.facts["biases"])) for one in scored]).T
