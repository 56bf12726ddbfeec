"""What makes two inputs similar: `explain_similarity(model, tokenizer, a, b)`, of two texts or of an image and a text.

Each side is explained for its cosine with the other's embedding, through the pipeline of `explain`. The grid decomposes
the cosine over pairs: by lrp an embedding is the sum of what each position and the biases add to it, so the cosine is
the sum of the products of all pairs.
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
from attnx.results import Explanation, layered, unlayered
from attnx.similarity.result import COSINE, Similarity
from attnx.targets import HEAD_KINDS, SimilarityTarget, pooled, read

if TYPE_CHECKING:
    from attnx.attribution import AskedReferences


@dataclass(frozen=True, eq=False)
class Side:
    """One of the two inputs."""

    call: Call
    """Of one request, without a target yet."""
    pooling: str
    """How one embedding is made of all positions."""
    tower: Kind | None = None
    """Which tower of a dual encoder it goes through; None where one model embeds both."""

    @property
    def model(self) -> nn.Module:
        return self.call.model

    @property
    def prepared(self) -> PreparedInput:
        return self.call.requests[0].prepared

    @property
    def name(self) -> str:
        """Its text, or what it is."""
        text = self.prepared.text
        return text if isinstance(text, str) else "the image" if self.prepared.image is not None else "the other text"

    @cached_property
    def states(self) -> Tensor:
        """position × width as it leaves the model, in double precision; of a tower its embedding alone."""

        def last_states(row: int, output: Any, index: int) -> Tensor:
            states = HEAD_KINDS[SimilarityTarget.kind].logits(self.model, output)
            if states is None or read(self.model, output) is not None:
                raise ChoiceError(
                    f"{type(self.model).__name__} has a prediction head and is no embedding model; load it with "
                    "AutoModel, or use attnx.explain"
                )
            return states[index, : len(self.prepared.positions)].detach().double().cpu()

        return map_outputs(self.model, self.call.tokenizer, [self.prepared], last_states)[0]

    @cached_property
    def unit(self) -> Tensor:
        """The embedding, of length 1."""
        embedding = pooled(self.states, self.pooling, len(self.prepared.positions))
        unit: Tensor = embedding / embedding.norm()
        return unit

    def cosine_with(self, direction: Any, name: str = "") -> SimilarityTarget:
        """The cosine with a fixed embedding as target."""
        return SimilarityTarget(tuple(direction), name, self.pooling, len(self.prepared.positions))

    def matched_with(self, other: Side) -> Side:
        """This side in front of the matching head that reads both; the other side is held fixed."""
        assert self.tower is not None
        inputs = collate(other.model, [other.prepared], None)
        joined = tower(self.model.whole, self.tower, inputs)  # type: ignore[arg-type]
        settings = replace(self.call.settings, module=joined.levels)
        return replace(self, call=replace(self.call, model=joined, settings=settings))

    def explained_for(self, other: Side, *, match: bool) -> Explanation:
        """For the cosine of both, or for the prediction of the matching head."""
        side = self.matched_with(other) if match else self
        target: Any = (MATCH, NO_MATCH) if match else self.cosine_with(other.unit.tolist(), other.name)
        call = replace(side.call, requests=[replace(side.call.requests[0], target=target)])
        explanation = call.in_order()[0]
        if self.tower is None:
            return explanation
        mixing = [name for name in layered(explanation) if not explanation.attributions[name].target_specific]
        notes = [
            f"{', '.join(mixing)} {'is' if len(mixing) == 1 else 'are'} of the {self.tower} tower alone and would be "
            f"the same for any other {other.tower}"
        ] * bool(mixing)
        if match and "lrp" in unlayered(explanation):
            notes.append(f"what the {other.tower} adds by itself is counted with the biases")
        return replace(explanation, notes=(*explanation.notes, *notes))


def _side(model: nn.Module, processor: Any, input_: Any, pooling: str | None, options: Mapping[str, Any]) -> Side:
    """One input, prepared and checked before anything runs."""
    if is_dual_encoder(model):
        return _tower_side(model, processor, input_, pooling, options)
    pooling = embedding_pooling(model, pooling)
    call = _call(model, processor, input_, {**({"position": MEAN} if pooling == MEAN else {}), **options})
    prepared = call.requests[0].prepared
    position = {"cls": 0, "last": len(prepared.positions) - 1}.get(pooling)
    return Side(replace(call, requests=[Request(prepared, position)]), pooling)


def _tower_side(model: nn.Module, processor: Any, input_: Any, pooling: str | None, options: Mapping[str, Any]) -> Side:
    if pooling is not None:
        raise ChoiceError(
            f"pooling={pooling!r} was requested, but {type(model).__name__} makes its embeddings itself; leave it out"
        )
    kind = kind_of(input_)
    call = _call(tower(model, kind), side_processor(processor, kind), input_, options)
    prepared = call.requests[0].prepared
    if kind == TEXT_SIDE:
        prepared = pad_as_trained(model, call.tokenizer, prepared)
    position = embedding_position(model, prepared, kind)
    if position == MEAN:
        call = replace(call, settings=replace(call.settings, over_rows=mean_row))
    request = Request(prepared, position if isinstance(position, int) else None)
    return Side(replace(call, requests=[request]), OWN, kind)


def _call(model: nn.Module, processor: Any, input_: Any, options: Mapping[str, Any]) -> Call:
    call = Call.of(model, processor, input_, **options)
    if len(call.requests) != 1:
        raise InputError(
            f"a similarity has two inputs, but one of them contains {len(call.requests)}; give one as a and one as b"
        )
    return call


Grid = Literal["lrp", "states"]
GRIDS: tuple[Grid, ...] = ("lrp", "states")

METHODS = ("rollout", "gradient_rollout")
REFERENCES = ("lrp", "blankout")

_MOST_BACKWARD = 100_000
"""The largest default grid by lrp: embedding width × positions of the shorter input."""


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
    """Explain which words of the texts `a` and `b`, or which patches of an image, make their embeddings similar.

    Args:
        model: an embedding model, a SentenceTransformer, a pipeline, or the name of a saved model; of an image and a
            text a dual encoder (CLIP, SigLIP, BLIP).
        tokenizer: of a dual encoder its processor; none with a SentenceTransformer or a pipeline:
            `explain_similarity(sentence_transformer, a, b)`.
        a: a text or an image.
        b: a text or an image.
        pooling: how one embedding is made of all positions: "mean", "cls" (the first) or "last"; by default as
            sentence-transformers stores it, in its modules or beside the checkpoint. Dual encoders pool by themselves.
        methods: as in `explain`, with the cosine as target.
        references: as in `explain`.
        grid: what each pair of words adds to the cosine: "lrp" by words as they enter the model, "states" by positions
            as they leave it, False leaves it out. The default is the first, or the second where that would take long or
            the model cannot be followed.
        score: "cosine", or "match" of a head that reads both sides together, which is the default where there is one.
        options: those of `explain`.

    Returns:
        A `Similarity`.

    Example:
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
    scores = (MATCH, COSINE) if matches(model) else (COSINE,)
    score = scores[0] if score is None else score
    if score not in scores:
        raise ChoiceError(unknown("score", score, scores))
    for name in ("target", "position"):
        if name in options:
            raise ChoiceError(f"explain_similarity chooses the {name} itself: the {score} of the two inputs")
    options = {"progress": True, "methods": methods, "references": references, **options}
    check_dual_encoder(model)
    first, second = (_side(model, tokenizer, input_, pooling, options) for input_ in (a, b))
    cosine = float(first.unit @ second.unit)
    explanations = [
        side.explained_for(other, match=score == MATCH) for side, other in ((first, second), (second, first))
    ]
    pair = (_unlayered_first(explanations[0]), _unlayered_first(explanations[1]))
    array, grid_by, notes = _grid((first, second), grid, score)
    return Similarity(pair, cosine, first.pooling, array, grid_by, notes, pair[0].provenance, score)


def _grid(sides: tuple[Side, Side], grid: str | bool | None, score: str) -> tuple[Any, str, tuple[str, ...]]:
    """The grid, what it is made of, and notes about it."""
    if grid is False or (score == MATCH and grid is None):
        return None, "", ()
    if score == MATCH:
        raise ChoiceError(f"grid={grid!r} decomposes the cosine, not the {MATCH}; score={COSINE!r} explains it")
    pools_itself = sides[0].pooling == OWN
    if grid == "states" and pools_itself:
        raise ChoiceError(
            f"the embedding of {type(sides[0].model).__name__} is not a sum over positions as they leave the model; "
            "grid='lrp' decomposes it by positions as they enter"
        )
    reason = ""
    if grid != "states":
        reason = _too_long(sides) if grid != "lrp" else ""
        try:
            if not reason:
                return _lrp_grid(sides), "lrp", ()
        except AttnxError as error:
            if grid == "lrp":
                raise
            reason = str(error)
    if pools_itself:
        return None, "", (f"there is no grid of pairs: {reason}",)
    first, second = map(_state_shares, sides)
    array = np.pad((first @ second.T).numpy(), ((0, 1), (0, 1)))
    note = f"the grid is of positions as they leave the model, not of words as they enter it: {reason}"
    return array, "states", (note,) if reason else ()


def _too_long(sides: tuple[Side, Side]) -> str:
    width = len(sides[0].unit)
    if width * min(len(side.prepared.positions) for side in sides) <= _MOST_BACKWARD:
        return ""
    return f"that takes {width:,} backward passes through the shorter input; grid='lrp' computes it all the same"


def _state_shares(side: Side) -> Tensor:
    """position × width: what each position adds to the embedding of length 1."""
    states, length = side.states, len(side.states)
    weights = {"mean": torch.full((length,), 1 / length), "cls": torch.eye(length)[0], "last": torch.eye(length)[-1]}
    weighted = states * weights[side.pooling].to(states)[:, None]
    shares: Tensor = weighted / weighted.sum(0).norm()
    return shares


def _lrp_grid(sides: tuple[Side, Side]) -> Any:
    """(positions + 1) × (positions + 1), biases last.

    The shorter input is decomposed along each dimension of its embedding, the longer only along the parts of that.
    """
    short = min((0, 1), key=lambda number: len(sides[number].prepared.positions))
    parts = _lrp_along(sides[short], torch.eye(len(sides[short].unit), dtype=torch.float64).numpy())
    grid = _lrp_along(sides[1 - short], parts)
    return grid.T if short == 0 else grid


def _lrp_along(side: Side, directions: Any) -> Any:
    """direction × width → (positions + 1) × direction: what each position adds along each direction, biases last."""
    from attnx.attribution import Case
    from attnx.attribution.lrp import lrp  # Captum is loaded only where it is needed

    cases = [Case(replace(side.prepared), side.cosine_with(direction).target(0)) for direction in directions.tolist()]
    scored = lrp(side.model, side.call.tokenizer, cases, sink=False)
    return np.stack([np.append(row.scores, float(row.facts["biases"])) for row in scored]).T


def _unlayered_first(explanation: Explanation) -> Explanation:
    """The methods that know the similarity stand in front of those that describe mixing."""
    names = (*unlayered(explanation), *layered(explanation))
    return replace(explanation, attributions={name: explanation.attributions[name] for name in names})
