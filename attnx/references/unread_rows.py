"""Rows that nothing reads: behind the last attention a model that answers from one position computes all the others.

Which linear maps these are is found by trying, from the last one down: a map whose other rows may be 0 without
changing the answer is one that nothing else reads. So no family has to be known, and one that pools over its positions
has none. In six layers they are a seventh of the work, in thirty little.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from attnx.answer.number import Score
from attnx.errors import AttnxError
from attnx.references.variant import Runs

_WORTH_A_SEARCH = 1.0
"""How many times its own work a search must save."""

_FOUND = 5
"""Maps that it finds, about: of the last layer all but keys and values."""

_MISSES = 4
"""Maps that are read everywhere, after which there are no more: keys, values, and those of the layer below."""

_BY: Score = "logit"
"""What is compared: a confident model's probability rounds to 1 whatever is lost below."""


def find_unread_rows(runs: Runs) -> None:
    """Have `runs.maps` leave out what nothing reads, by four variants of one text that differ as much as they can."""
    if not len(runs.made) or not _answer_at_one_end(runs):
        return
    sample = _sample(runs)
    if not _pays(runs, sample):
        return
    try:
        runs.maps.unread = _unread(runs, sample)
    except (AttnxError, RuntimeError, IndexError):  # streams of other lengths, answers without a logit
        runs.maps.unread = frozenset()


def _pays(runs: Runs, sample: Sequence[int]) -> bool:
    """Whether so many variants save more than a search costs: of thirty layers the last is little."""
    maps = sum(isinstance(module, nn.Linear) for module in runs.model.modules())
    saved = sum(map(runs.made.length, range(len(runs.made)))) * _FOUND / max(maps, 1)
    return saved >= _WORTH_A_SEARCH * sum(map(runs.made.length, sample)) * (1 + _FOUND + _MISSES)


def _answer_at_one_end(runs: Runs) -> bool:
    """Whether all inputs are read where the tried one is: at their first position, or at their last."""
    ends = {
        (target.position == 0, target.position == len(runs.made.whole(row).positions) - 1)
        for row, variant in enumerate(runs.made.variants)
        for target in runs.wanted[variant]
    }
    return all(first for first, _ in ends) or all(last for _, last in ends)


def _sample(runs: Runs) -> list[int]:
    made = runs.made
    own = [row for row, one in enumerate(made.variants) if one.case == made.variants[0].case]
    by_count = sorted(own, key=lambda row: len(made.variants[row].places))
    alike = [row for row in by_count if made.length(row) == made.length(by_count[0])]
    return sorted({alike[int(at * (len(alike) - 1))] for at in (0, 0.3, 0.7, 1)})


def _unread(runs: Runs, sample: list[int]) -> frozenset[int]:
    """The numbers of the maps of which only the answer's row is read."""
    whole = runs.scores(sample, _BY)
    tolerance = 1e-6 * (1 + float(whole.abs().amax()))
    kept: frozenset[int] = frozenset()
    misses = 0
    for number in reversed(range(runs.maps.count)):
        runs.maps.unread = kept | {number}
        if torch.allclose(runs.scores(sample, _BY), whole, atol=tolerance, rtol=0):
            kept = runs.maps.unread
        else:
            misses += 1
        if misses == _MISSES:
            break
    return kept
