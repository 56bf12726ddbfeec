"""Requests about the output of an encoder–decoder: one token that was written, every one, or the next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from torch import nn

from attnx.errors import ChoiceError
from attnx.explaining.names import EVERY
from attnx.explaining.seam import Request
from attnx.graph.asked import check_position


def of_every_token(requests: Sequence[Request], model: nn.Module, *, single: bool) -> list[Request]:
    """A request for each token of the output, and for the one that comes next."""
    if not single or not requests[0].prepared.rewrites:
        raise ChoiceError(
            f"position={EVERY!r} explains each token that an encoder–decoder writes for one source; for "
            f"{type(model).__name__} here give a number, or use explain_generation"
        )
    (request,) = requests
    source, output = request.prepared.streams.values()
    return [replace(request, position=source + place) for place in range(output)]


def of_output(request: Request) -> Request:
    """Of an encoder–decoder, inside its output, the token that was written there is what is explained."""
    prepared, position = request.prepared, request.position
    if not prepared.rewrites or position is None or request.target is not None:
        return request
    source, output = prepared.streams.values()
    place = check_position(position, source + output)
    if place < source:
        raise ChoiceError(
            f"position {position} is in the source, and only the output is predicted: give {source} (the start) to "
            f"{source + output - 1} (the last token so far, from which the next is predicted)"
        )
    if place == source + output - 1:
        return request
    return replace(request, target=int(prepared.inputs["decoder_input_ids"][place - source + 1]))
