"""Rows that nothing reads: behind the last attention a model that answers from one position computes all the others.

Which linear maps these are is found by trying, from the last one down: a map whose other rows may be 0 without
changing the answer is one that nothing else reads. So no family has to be known, and one that pools over its positions
has none. In six layers they are a seventh of the work, in thirty a thirtieth. What was found of a model is tried first
when it comes again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from attnx.answer.number import Score
from attnx.errors import AttnxError
from attnx.references.variant import Runs

_WORTH_A_SEARCH = 1.0
"""How many times its own work a search must save."""

_FOUND = 5
"""Maps that it finds, about: of the last layer all but keys and values."""

_MISSES = 4
"""Maps that are read everywhere, after which there are no more: keys, values, and those of the layer below."""

_LEAST = 32
"""Positions that a run costs at least: so many are multiplied while the weights come out of memory."""

_SHORTEST = 4
"""Positions of an input that can show it: where there is but the answer's, everything seems unread."""

_BY: Score = "logit"
"""What is compared: a confident model's probability rounds to 1 whatever is lost below."""

Scores: TypeAlias = Callable[[Sequence[int], Score], Tensor]
"""(rows, kind) → their scores, run in some way."""

_found: WeakKeyDictionary[nn.Module, frozenset[int]] = WeakKeyDictionary()
"""What the last search in a model gave. It is believed of no other run before it was tried."""


def find_unread_rows(runs: Runs) -> None:
    """Have `runs.maps` leave out what nothing reads, by two variants of one text that differ as much as they can."""
    if len(runs.made):
        sample = _sample(runs)
        work = sum(map(runs.made.length, range(len(runs.made))))
        search(runs, sample, runs.scores, work=work, length=runs.made.length(sample[0]))


def search(runs: Runs, sample: Sequence[int], scores: Scores, *, work: int, length: int) -> None:
    """The same by a sample of equal `length` and a way to run it; `work` is told in positions, too."""
    a_run = max(len(sample) * length, _LEAST)
    several = any(len(runs.wanted[runs.made.variants[row]]) > 1 for row in sample)  # of which all rows may be read
    if length < _SHORTEST or several or not _answer_at_one_end(runs) or not _pays(runs, work, a_run):
        return
    try:
        runs.maps.unread = _unread(runs, sample, scores)
    except (AttnxError, RuntimeError, IndexError):  # streams of other lengths, answers without a logit
        runs.maps.unread = frozenset()


def _pays(runs: Runs, work: int, a_run: int) -> bool:
    """Whether so much work saves more than a search costs."""
    maps = sum(isinstance(module, nn.Linear) for module in runs.model.modules())
    tried = 2 if runs.model in _found else 1 + _FOUND + _MISSES
    return work * _FOUND / max(maps, 1) >= _WORTH_A_SEARCH * a_run * tried


def _answer_at_one_end(runs: Runs) -> bool:
    """Whether all inputs are read where the tried one is: at their first position, or at their last."""
    ends = {
        (target.position == 0, target.position == len(runs.made.whole(row).positions) - 1)
        for row, variant in enumerate(runs.made.variants)
        for target in runs.wanted[variant]
    }
    return all(first for first, _ in ends) or all(last for _, last in ends)


def _sample(runs: Runs) -> list[int]:
    """Of a short text: it tells as much as a long one."""
    made = runs.made
    lengths = {variant.case: len(made.whole(row).positions) for row, variant in enumerate(made.variants)}
    enough = [length for length in lengths.values() if length >= 2 * _SHORTEST]
    case = next(case for case, length in lengths.items() if length == min(enough, default=max(lengths.values())))
    own = [row for row, one in enumerate(made.variants) if one.case == case]
    by_count = sorted(own, key=lambda row: len(made.variants[row].places))
    alike = [row for row in by_count if made.length(row) == made.length(by_count[0])]
    return sorted({alike[int(at * (len(alike) - 1))] for at in (0, 1)})


def _unread(runs: Runs, sample: Sequence[int], scores: Scores) -> frozenset[int]:
    """The numbers of the maps of which only the answer's row is read."""
    runs.maps.unread = frozenset()
    whole = scores(sample, _BY)
    count, tolerance = runs.maps.count, 1e-6 * (1 + float(whole.abs().amax()))

    def tried(left_out: frozenset[int]) -> frozenset[int] | None:
        """Those of which rows were left out, where the answer stayed the same; None where it did not."""
        runs.maps.unread = left_out
        same = torch.allclose(scores(sample, _BY), whole, atol=tolerance, rtol=0)
        return frozenset(runs.maps.left_out) if same else None

    known = _found.get(runs.model)
    if known is None or tried(known) != known:
        known = _found[runs.model] = _from_the_last(count, tried)
    return known


def _from_the_last(count: int, tried: Callable[[frozenset[int]], frozenset[int] | None]) -> frozenset[int]:
    kept: frozenset[int] = frozenset()
    misses = 0
    for number in reversed(range(count)):
        left_out = tried(kept | {number})
        if left_out is None:
            misses += 1
        else:
            kept = left_out  # without this one, where it has no rows by position
        if misses == _MISSES:
            break
    return kept
