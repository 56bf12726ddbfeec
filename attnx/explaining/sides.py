"""Two inputs that are held against one another, and for each the model that embeds it and the call that explains it.

Two texts go through one embedding model. A picture and a text go each through its own tower of CLIP, SigLIP or BLIP.
Where a head reads both sides together (BLIP's matching), each is explained for its answer with the other held fixed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from torch import Tensor, nn

from attnx.answer.kinds.similarity import SimilarTo, pooled
from attnx.answer.registry import ANSWERS, read
from attnx.errors import ChoiceError, InputError
from attnx.explaining.call import Call
from attnx.explaining.seam import Request
from attnx.explaining.settings import mean_row
from attnx.inputs.adapter import Prepared
from attnx.inputs.pooling import MEAN, OWN, embedding_pooling
from attnx.inputs.towers import (
    MATCH,
    NO_MATCH,
    TEXT_SIDE,
    Kind,
    answers_at,
    as_trained,
    check_sides,
    is_two_sided,
    kind_of,
    side_processor,
    tower,
)
from attnx.results.explanation import Explanation
from attnx.running.answers import each_answer
from attnx.running.batches import collate


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
    def prepared(self) -> Prepared:
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
            states = ANSWERS[SimilarTo.kind].logits(self.model, output)
            if states is None or read(self.model, output) is not None:
                raise ChoiceError(
                    f"{type(self.model).__name__} has a head that answers, and is no embedding model; load it by "
                    "AutoModel, or use attnx.explain"
                )
            return states[place, : len(self.prepared.positions)].detach().double().cpu()

        return each_answer(self.model, self.call.tokenizer, [self.prepared], own)[0]

    @cached_property
    def unit(self) -> Tensor:
        """The embedding, of length 1."""
        found = pooled(self.states, self.pooling, len(self.prepared.positions))
        length: Tensor = found / found.norm()
        return length

    def towards(self, direction: Any, name: str = "") -> SimilarTo:
        """The target: the cosine with an embedding that stands fixed."""
        return SimilarTo(tuple(direction), name, self.pooling, len(self.prepared.positions))

    def explained(self, target: Any) -> Explanation:
        request = replace(self.call.requests[0], target=target)
        return replace(self.call, requests=[request]).in_order()[0]

    def beside(self, other: Side) -> Side:
        """The same in front of a head that reads both; the other side is held fixed."""
        assert self.tower is not None
        inputs = collate(other.model, [other.prepared], None)
        joined = tower(self.model.whole, self.tower, inputs)  # type: ignore[arg-type]
        settings = replace(self.call.settings, within=joined.within)
        return replace(self, call=replace(self.call, model=joined, settings=settings))


def two_sides(
    model: nn.Module, processor: Any, inputs: tuple[Any, Any], pooling: str | None, options: Mapping[str, Any]
) -> tuple[Side, Side]:
    """What is compared, prepared and checked, before anything runs."""
    check_sides(model)
    made = _of_two_towers if is_two_sided(model) else _of_one_model
    first, second = (made(model, processor, one, pooling, options) for one in inputs)
    return first, second


def explained_pair(sides: tuple[Side, Side], *, match: bool) -> tuple[Explanation, Explanation]:
    """Each side for the other: for their cosine, or for the answer of the head that reads both."""
    found = []
    for own, other in (sides, sides[::-1]):
        asked = own.beside(other) if match else own
        one = asked.explained((MATCH, NO_MATCH) if match else own.towards(other.unit.tolist(), other.name))
        found.append(replace(one, notes=(*one.notes, *_notes(own, other, one, match=match))))
    return found[0], found[1]


def _of_one_model(
    model: nn.Module, tokenizer: Any, given: Any, pooling: str | None, options: Mapping[str, Any]
) -> Side:
    how = embedding_pooling(model, pooling)
    averaged: dict[str, Any] = {"position": MEAN} if how == MEAN else {}
    call = _call(model, tokenizer, given, {**averaged, **options})
    own = call.requests[0].prepared
    place = {"cls": 0, "last": len(own.positions) - 1}.get(how)
    return Side(replace(call, requests=[Request(own, place)]), how)


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
        prepared = as_trained(model, call.tokenizer, prepared)
    place = answers_at(model, prepared, kind)
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


def _notes(own: Side, other: Side, one: Explanation, *, match: bool) -> tuple[str, ...]:
    """What the methods of a tower do not know, and where the other side is in the sum."""
    if own.tower is None:
        return ()
    blind = [name for name in one.methods if name not in one.about_answer]
    names = f"{', '.join(blind)} {'is' if len(blind) == 1 else 'are'}"
    untold = (
        (f"{names} of the {own.tower} tower alone and would be the same for any other {other.tower}",) if blind else ()
    )
    counted = match and "value_path" in one.references
    return (*untold, *((f"what the {other.tower} adds by itself is counted with the biases",) if counted else ()))
