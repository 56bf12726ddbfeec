"""Which positions of an input are patches of a vision tower, and what is kept of those that are sinks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attnx.graph.patch_sinks import PatchSink
from attnx.inputs.adapter import Prepared


def tower_patches(prepared: Prepared) -> list[int]:
    """The patches as the tower counts them; image tokens, which have boxes as well, are words of a decoder."""
    if prepared.image is None:
        return []
    begin = prepared.text_length if prepared.streams else 0
    return [place for place in prepared.positions.content if place >= begin]


def sink_facts(prepared: Prepared, layers: Sequence[Mapping[int, PatchSink]]) -> dict[str, Any]:
    """The sinks among the patches, each where it takes the most, those that take the most first."""
    best: dict[int, PatchSink] = {}
    for found in layers:
        best |= {place: one for place, one in found.items() if place not in best or one.times > best[place].times}
    told = [
        {"patch": prepared.positions[one.position].token, "layer": one.layer, "share": one.share, "times": one.times}
        for one in sorted(best.values(), key=lambda one: -one.times)
    ]
    return {"sinks": told} if told else {}
