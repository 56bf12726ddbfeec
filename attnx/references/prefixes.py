"""Variants of a causal model from the first place that they change: everything before it is as it was.

The input is run once, and its keys and values are kept. A variant then enters at its first blank, behind the kept
beginning; variants that begin close together share a batch. Models differ in what they keep (windows, states), so it is
tried on one variant of the first input: where it differs from a plain run, or cannot be run, everything is run plainly.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from inspect import signature
from itertools import groupby
from typing import Any

import torch
from torch import Tensor

from attnx.answer.number import Score
from attnx.references import unread_rows
from attnx.references.variant import Runs
from attnx.running.batches import collate, slack

_WORTH_IT = 4_096
"""Positions that must be saved of an input: short ones run better many inputs together."""

_FULL = 2
"""A batch is a half of what it may be: all enter where the first does, so that fewer together run less twice."""

_BEHIND = 8
"""Positions of beginnings that a batch may hold, for each position that it may run."""

_SAMPLE = 4
"""Variants by which rows are found that nothing reads: the last ones, which have the least to run."""

_BY_POSITION = {"input_ids", "inputs_embeds", "attention_mask", "token_type_ids"}


def behind_beginnings(runs: Runs, at_most: int) -> Iterator[tuple[list[int], Tensor]]:
    """Rows that need not be run from their beginning, with their scores; none where the model does not show it."""
    if not _can_be_tried(runs):
        return
    proven, everywhere = False, runs.maps.unread
    for _, rows in groupby(_late(runs), key=lambda row: runs.made.variants[row].case):
        own = sorted(rows, key=lambda row: _first(runs, row))
        if sum(_first(runs, row) for row in own) < _WORTH_IT:
            continue
        try:
            kept = _Kept.of(runs, own[0])
            proven = proven or kept.agrees(own[len(own) // 2])
            if not proven:
                return
            kept.find_unread_rows(own)
            for batch in _batches([_first(runs, row) for row in own], runs.made.length(own[0]), at_most // _FULL):
                yield own[batch], kept.scores(own[batch])
        except Exception:  # whatever a model's own kind of memory leads to; the plain way is always there
            return
        finally:
            runs.maps.unread = everywhere


def _can_be_tried(runs: Runs) -> bool:
    """Whether the model takes kept keys and values, and nothing but tokens; what moves up is changed everywhere."""
    several_stacks = getattr(runs.model.config, "is_encoder_decoder", False)
    takes = "past_key_values" in signature(runs.model.forward).parameters
    one_place = not any(target.beside for several in runs.wanted.values() for target in several)  # spans name more
    plain = not runs.made.blank.shortens and not several_stacks
    return takes and plain and one_place and runs.made[0].inputs.keys() <= _BY_POSITION


def _late(runs: Runs) -> list[int]:
    """Rows that change something before their answer, by input."""
    variants = runs.made.variants
    changed = [row for row, one in enumerate(variants) if one.places]
    read = [row for row in changed if 0 < _first(runs, row) <= min(one.position for one in runs.wanted[variants[row]])]
    return sorted(read, key=lambda row: variants[row].case)


def _first(runs: Runs, row: int) -> int:
    """The first place at which a variant differs from its input."""
    return min(runs.made.variants[row].places)


def _batches(firsts: Sequence[int], length: int, at_most: int) -> Iterator[slice]:
    """Slices of variants in the order of their first places, so many that they fill a batch."""
    start = 0
    for stop in range(1, len(firsts)):
        count, begins = stop - start + 1, firsts[start]
        if count * (length - begins) > at_most or count * length > _BEHIND * at_most:
            yield slice(start, stop)
            start = stop
    yield slice(start, len(firsts))


@dataclass(frozen=True, eq=False)
class _Kept:
    """The keys and values of one input."""

    runs: Runs
    cache: Any

    @classmethod
    def of(cls, runs: Runs, row: int) -> _Kept:
        """Of the input that this row is a variant of."""
        whole = runs.made.blank.apply(runs.made.whole(row), ())
        output = runs.model(**collate(runs.model, [whole], runs.pad_id), use_cache=True)
        return cls(runs, output.past_key_values)

    def scores(self, rows: Sequence[int], kind: Score | None = None) -> Tensor:
        """The scores of variants of this input, entering at the first place of the first of them."""
        runs, start = self.runs, _first(self.runs, rows[0])
        inputs = collate(runs.model, [runs.made[row] for row in rows], runs.pad_id)
        own = {name: value if name == "attention_mask" else value[:, start:] for name, value in inputs.items()}
        past = copy.deepcopy(self.cache)  # a run adds its own to it
        past.crop(start - past.get_seq_length())  # so many are taken off
        past.batch_repeat_interleave(len(rows))
        return runs.read(rows, {**own, "past_key_values": past, "use_cache": True}, behind=start, kind=kind)

    def find_unread_rows(self, rows: Sequence[int]) -> None:
        """Of runs behind a beginning: the last variants tell it cheaply."""
        lefts = [self.runs.made.length(row) - _first(self.runs, row) for row in rows]
        sample, length = rows[-_SAMPLE:], lefts[-_SAMPLE:][0]
        unread_rows.search(self.runs, sample, self.scores, work=sum(lefts), length=length)

    def agrees(self, row: int) -> bool:
        """Whether this variant gets what a plain run gives it; by its logit, for a probability may be 1 anyway."""
        plain = self.runs.scores([row], "logit")
        return torch.allclose(self.scores([row], "logit"), plain, atol=slack(plain), rtol=0)
