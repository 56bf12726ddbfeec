"""One loop runs inputs together: bounded, every input once, and lengths mixed only where padding changes nothing."""

import torch
from torch import nn

from attnx.adapters import Position, PreparedInput
from attnx.hooks import run_in_batches


def inputs(*lengths):
    return [PreparedInput({}, tuple(Position(i, "x") for i in range(length)), ()) for length in lengths]


def run(prepared, *, pad_id=0, reads_padding=False, **bounds):
    """The batches, of a model of its own that answers with the longest length if it reads padding."""

    def first(several):
        longest = max(len(one.positions) for one in several)
        return [torch.tensor([float(longest if reads_padding else len(several[0].positions))])]

    batches = run_in_batches(nn.Linear(1, 1), prepared, lambda several: several, first=first, pad_id=pad_id, **bounds)
    found = list(batches)
    assert all([prepared[row] for row in rows] == several for rows, several in found)
    return [rows for rows, _ in found]


def test_batches_hold_every_index_once_and_stay_in_bounds():
    lengths = [3, 9, 1, 4, 4, 50, 2]
    found = run(inputs(*lengths), at_most=12)
    assert sorted(index for batch in found for index in batch) == list(range(7))
    assert all(len(batch) == 1 or len(batch) * max(lengths[i] for i in batch) <= 12 for batch in found)
    assert any(len({lengths[i] for i in batch}) > 1 for batch in found)


def test_where_padding_is_read_only_equal_lengths_share_a_batch():
    apart = [[0, 2], [1], [3, 5], [4]]
    prepared = inputs(3, 9, 3, 4, 3, 4)
    assert sorted(map(sorted, run(prepared, reads_padding=True, size=2))) == apart
    assert sorted(map(sorted, run(prepared, pad_id=None, size=2))) == apart
    assert sorted(map(sorted, run(prepared, together=False, size=2))) == apart
    assert sorted(map(sorted, run(prepared, size=2))) != apart


def test_a_model_that_fails_on_padding_gets_none():
    def first(several):
        if len(several) > 1:
            raise RuntimeError("no padding here")
        return [torch.zeros(1)]

    found = run_in_batches(nn.Linear(1, 1), inputs(2, 5, 2), lambda several: len(several), first=first, pad_id=0)
    assert [size for _, size in found] == [2, 1]


def test_inputs_that_are_made_as_they_are_read_are_made_for_their_batch_alone():
    made = []

    class Lazy(list):
        def __getitem__(self, row):
            made.append(row)
            return super().__getitem__(row)

    prepared = Lazy(inputs(2, 2, 2))
    for rows, _ in run_in_batches(
        nn.Linear(1, 1),
        prepared,
        lambda several: None,
        first=lambda several: [],
        pad_id=0,
        size=1,
        lengths=[2, 2, 2],
        shapes=[()] * 3,
    ):
        assert made == list(range(rows[-1] + 1))


def test_a_batch_that_is_full_enough_is_closed_before_much_of_it_is_padding():
    short, long = 30, 60
    found = run(inputs(*[short] * 20, *[long] * 4))
    assert [len(rows) for rows in found] == [20, 4]
    assert [len(rows) for rows in run(inputs(*[short] * 4, *[long] * 4))] == [8]  # few are quicker together
