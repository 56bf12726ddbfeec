"""What a flow would cost, told before it is begun: an error in one line is better than an hour without a word."""

from __future__ import annotations

from collections.abc import Iterable

from attnx.errors import CostError

LIMIT = 60.0
"""Seconds on one core that `flow` begins upon without being told to; measured by tests/benchmarks/long_inputs.py."""

SECONDS_PER_EDGE = 2e-10
"""One source and one sink through one layer of n × n edges cost about n² of these, measured by the same script."""


def estimated_seconds(heights: Iterable[int], length: int, sources: int = 1) -> float:
    """For `sources` positions or heads at each of these heights (layers below and including theirs), to all sinks."""
    searched = [height for height in heights if height > 2]  # two layers have a closed form
    return SECONDS_PER_EDGE * sources * sum(searched) * float(length) ** 3


def check_cost(heights: Iterable[int], length: int, sources: int, limit: float | None) -> None:
    """Refuse what would take longer than `limit` seconds."""
    seconds = estimated_seconds(heights, length, sources)
    if limit is not None and seconds > limit:
        raise CostError(
            f"flow over {length} positions would take about {_duration(seconds)} on one core; use rollout, a shorter "
            f"text, or one layer (layer=…); attnx.flow(attention, limit=None) waits for it"
        )


def _duration(seconds: float) -> str:
    for size, name in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {name}"
    return f"{seconds:.0f} seconds"
