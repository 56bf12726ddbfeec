"""What makes two inputs similar: `explain_similarity(model, tokenizer, a, b)`, of two texts or of a picture and a text.

Each is explained for its cosine with the other's embedding, by the road of `explain` (see `sides`). The grid takes the
cosine apart over pairs: along the value path an embedding is the sum of what each position and the biases bring to it,
so the cosine is the sum of the products of all pairs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from attnx.adapters import (
    MATCH,
    MEAN,
    NO_MATCH,
    OWN,
    TEXT_SIDE,
    Kind,
    PreparedInput,
    check_dual_encoder,
    embedding_pooling,
    embedding_position,
    is_dual_encoder,
    is_sentence_transformer,
    kind_of,
    matches,
    pad_as_trained,
    sentence_transformer_pooling,
    side_processor,
    tower,
)
from attnx.arguments import checked
from attnx.errors import AttnxError, ChoiceError, InputError
from attnx.hooks import collate, map_outputs, unwrap_model
from attnx.pipeline import Call, Request, mean_row, model_and_processor, takes_pipelines
from attnx.registry import unknown
from attnx.results import Explanation
from attnx.similarity.result import COSINE, Similarity
from attnx.targets import HEAD_KINDS, SimilarityTarget, pooled, read

if TYPE_CHECKING:
    from attnx.attribution import AskedReferences


@dataclass(frozen=True, eq=False)
class Side:
    """One of the two inputs."""

    call: Call
    """Of one request, whose target is not known yet."""
    pooling: str
    """How one embedding is made of all positions."""
    tower: Kind | None = None
    """Which tower of a model of two it goes through; None where there is one model for both."""

    @property
    def model(self) -> nn.Module:
        return self.call.model

    @property
    def prepared(self) -> PreparedInput:
        return self.call.requests[0].prepared

    @property
    def name(self) -> str:
        """What it is, in words: its text, or the picture."""
        text = self.prepared.text
        return text if isinstance(text, str) else "the picture" if self.prepared.image is not None else "the other text"

    @cached_property
    def states(self) -> Tensor:
        """position × width, as it leaves the model; of a tower its embedding alone. In double precision."""

        def own(row: int, output: Any, place: int) -> Tensor:
            states = HEAD_KINDS[SimilarityTarget.kind].logits(self.model, output)
            if states is None or read(self.model, output) is not None:
                raise ChoiceError(
                    f"{type(self.model).__name__} has a head that answers, and is no embedding model; load it by "
                    "AutoModel, or use attnx.explain"
                )
            return states[place, : len(self.prepared.positions)].detach().double().cpu()

        return map_outputs(self.model, self.call.tokenizer, [self.prepared], own)[0]

    @cached_property
    def unit(self) -> Tensor:
        """The embedding, of length 1."""
        tensor = pooled(self.states, self.pooling, len(self.prepared.positions))
        length: Tensor = tensor / tensor.norm()
        return length

    def towards(self, direction: Any, name: str = "") -> SimilarityTarget:
        """The target: the cosine with an embedding that stands fixed."""
        return SimilarityTarget(tuple(direction), name, self.pooling, len(self.prepared.positions))

    def explained(self, target: Any) -> Explanation:
        request = replace(self.call.requests[0], target=target)
        return replace(self.call, requests=[request]).in_order()[0]

    def beside(self, other: Side) -> Side:
        """The same in front of a head that reads both; the other side is held fixed."""
        assert self.tower is not None
        inputs = collate(other.model, [other.prepared], None)
        joined = tower(self.model.whole, self.tower, inputs)  # type: ignore[arg-type]
        settings = replace(self.call.settings, module=joined.levels)
        return replace(self, call=replace(self.call, model=joined, settings=settings))


def two_sides(
    model: nn.Module, processor: Any, inputs: tuple[Any, Any], pooling: str | None, options: Mapping[str, Any]
) -> tuple[Side, Side]:
    """What is compared, prepared and checked, before anything runs."""
    check_dual_encoder(model)
    made = _of_two_towers if is_dual_encoder(model) else _of_one_model
    first, second = (made(model, processor, input_, pooling, options) for input_ in inputs)
    return first, second


def explained_pair(sides: tuple[Side, Side], *, match: bool) -> tuple[Explanation, Explanation]:
    """Each side for the other: for their cosine, or for the answer of the head that reads both."""
    explanations = []
    for own, other in (sides, sides[::-1]):
        asked = own.beside(other) if match else own
        explanation = asked.explained((MATCH, NO_MATCH) if match else own.towards(other.unit.tolist(), other.name))
        explanations.append(
            replace(explanation, notes=(*explanation.notes, *_notes(own, other, explanation, match=match)))
        )
    return explanations[0], explanations[1]


def _of_one_model(
    model: nn.Module, tokenizer: Any, given: Any, pooling: str | None, options: Mapping[str, Any]
) -> Side:
    how = embedding_pooling(model, pooling)
    averaged: dict[str, Any] = {"position": MEAN} if how == MEAN else {}
    call = _call(model, tokenizer, given, {**averaged, **options})
    prepared = call.requests[0].prepared
    place = {"cls": 0, "last": len(prepared.positions) - 1}.get(how)
    return Side(replace(call, requests=[Request(prepared, place)]), how)


def _of_two_towers(
    model: nn.Module, processor: Any, given: Any, pooling: str | None, options: Mapping[str, Any]
) -> Side:
    if pooling is not None:
        raise ChoiceError(
            f"pooling={pooling!r} asked, but {type(model).__name__} makes its embeddings itself; leave it out"
        )
    kind = kind_of(given)
    own = tower(model, kind)
    call = _call(own, side_processor(processor, kind), given, options)
    prepared = call.requests[0].prepared
    if kind == TEXT_SIDE:
        prepared = pad_as_trained(model, call.tokenizer, prepared)
    place = embedding_position(model, prepared, kind)
    if place == MEAN:
        call = replace(call, settings=replace(call.settings, over_rows=mean_row))
    request = Request(prepared, place if isinstance(place, int) else None)
    return Side(replace(call, requests=[request]), OWN, kind)


def _call(model: nn.Module, processor: Any, given: Any, options: Mapping[str, Any]) -> Call:
    call = Call.of(model, processor, given, **options)
    if len(call.requests) != 1:
        raise InputError(
            f"two inputs have a similarity, found {len(call.requests)} as one of them; give one as a and one as b"
        )
    return call


def _notes(own: Side, other: Side, explanation: Explanation, *, match: bool) -> tuple[str, ...]:
    """What the methods of a tower do not know, and where the other side is in the sum."""
    if own.tower is None:
        return ()
    blind = [name for name in explanation.methods if name not in explanation.target_specific]
    names = f"{', '.join(blind)} {'is' if len(blind) == 1 else 'are'}"
    untold = (
        (f"{names} of the {own.tower} tower alone and would be the same for any other {other.tower}",) if blind else ()
    )
    counted = match and "lrp" in explanation.references
    return (*untold, *((f"what the {other.tower} adds by itself is counted with the biases",) if counted else ()))


Grid = Literal["lrp", "states"]
GRIDS: tuple[Grid, ...] = ("lrp", "states")

METHODS = ("rollout", "gradient_rollout")
REFERENCES = ("lrp", "blankout")

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
    pair of words adds to the cosine: by "lrp", words as they enter the model; by "states", positions as they
    leave it; False leaves it out. By default it is the first, and the second where that would take long or the model
    cannot be followed. `score` says which number is explained: "cosine", or "match" of a head that reads both sides
    together, which comes first where there is one. Further `options` are those of `explain`.

    >>> from attnx.demo_models.recall import load_demo
    >>> decoder, tokenizer = load_demo()
    >>> few = {"methods": "rollout", "references": "lrp"}
    >>> s = explain_similarity(decoder.model, tokenizer, "k3 v7", "k3 v2", pooling="mean", **few)
    >>> round(s.cosine, 2)
    1.0
    """
    if is_sentence_transformer(model):
        pooling = sentence_transformer_pooling(model, pooling)
    model, tokenizer = model_and_processor(model, tokenizer)
    model = unwrap_model(model)
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
    first, second = (replace(explanation, first=measured) for explanation in explanations)
    found, by, notes = _grid(sides, grid, asked)
    return Similarity((first, second), cosine, sides[0].pooling, found, by, notes, first.provenance, asked)


def _score(model: nn.Module, name: str | None) -> str:
    """Which number is explained: that of a matching head where there is one, else the cosine."""
    offered = (MATCH, COSINE) if matches(model) else (COSINE,)
    if name is not None and name not in offered:
        raise ChoiceError(unknown("score", name, offered))
    return offered[0] if name is None else name


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
            "them; grid='lrp' takes it apart as it entered"
        )
    why = _too_long(sides) if asked in (None, True) else ""
    if asked != "states" and not why:
        try:
            return _along_paths(sides), "lrp", ()
        except AttnxError as error:
            if asked == "lrp":
                raise
            why = str(error)
    if sides[0].pooling == OWN:
        return None, "", (f"there is no grid of pairs: {why}",)
    first, second = (_shares(one) for one in sides)
    array = np.zeros((len(first) + 1, len(second) + 1))
    array[:-1, :-1] = (first @ second.T).numpy()
    told = (f"the grid is of positions as they leave the model, not of words as they enter it: {why}",) if why else ()
    return array, "states", told


def _too_long(sides: tuple[Side, Side]) -> str:
    width = len(sides[0].unit)
    positions = width * min(len(one.prepared.positions) for one in sides)
    if positions <= _AT_MOST:
        return ""
    return f"that takes {width:,} ways back through the shorter input; it is computed where lrp is named for it"


def _shares(side: Side) -> Tensor:
    """What each position brings to the embedding of length 1; positions that are not pooled bring nothing."""
    states, length = side.states, len(side.states)
    weights = {"mean": torch.full((length,), 1 / length), "cls": torch.eye(length)[0], "last": torch.eye(length)[-1]}
    tensor = states * weights[side.pooling].to(states)[:, None]
    shares: Tensor = tensor / tensor.sum(0).norm()
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
    from attnx.attribution import Case
    from attnx.attribution.lrp import lrp  # Captum's road is loaded only for those who take it

    cases = [Case(replace(side.prepared), side.towards(direction).target(0)) for direction in directions.tolist()]
    scored = lrp(side.model, side.call.tokenizer, cases, sink=False)
    return np.stack([np.append(one.scores, float(one.facts["biases"])) for one in scored]).T
