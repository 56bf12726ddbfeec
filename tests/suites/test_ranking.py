"""Ranks of what is right, against a count over all orders that ties leave open."""

from itertools import pairwise, permutations

import numpy as np
import pytest

from attnx.benchmarks.ranking import fixed_orders, is_first, reciprocal_rank


def by_hand(scores, right):
    """The mean over all orders in which no unit stands before one with a higher score."""
    ranks = []
    for order in permutations(range(len(scores))):
        if all(scores[one] >= scores[next_] for one, next_ in pairwise(order)):
            ranks.append(1 + min(order.index(one) for one in right))
    return np.mean([1 / rank for rank in ranks]), np.mean([rank == 1 for rank in ranks])


@pytest.mark.parametrize("right", [[0], [3], [1, 2], [0, 4]])
@pytest.mark.parametrize(
    "scores", [[3, 1, 1, 2, 1], [0, 0, 0, 0, 0], [5, 4, 3, 2, 1], [1, 2, 2, 2, 1], [-1, 0, 0, -1, 2]]
)
def test_ranks_are_the_mean_over_all_orders_that_ties_leave_open(scores, right):
    mean, first = by_hand(scores, right)
    assert reciprocal_rank(scores, right) == pytest.approx(mean)
    assert is_first(scores, right) == pytest.approx(first)


def test_chance_is_the_same_arithmetic_on_scores_that_all_tie():
    assert reciprocal_rank(fixed_orders(4)["chance"], [2]) == pytest.approx(np.mean([1, 1 / 2, 1 / 3, 1 / 4]))


def test_a_word_against_the_answer_ranks_last():
    assert reciprocal_rank([0.1, -5.0, 0.2], [1]) == pytest.approx(1 / 3)


def test_scores_that_differ_by_rounding_tie():
    assert is_first([0.5, 0.5 + 1e-12], [0]) == 0.5


def test_fixed_orders_name_the_first_the_last_and_the_second_place():
    orders = fixed_orders(5)
    assert {name: is_first(scores, [place]) for name, scores, place in
            [("(first)", orders["(first)"], 0), ("(last)", orders["(last)"], 4), ("(second)", orders["(second)"], 1)]
            } == {"(first)": 1.0, "(last)": 1.0, "(second)": 1.0}  # fmt: skip


def test_one_unit_alone_is_always_first_in_every_order():
    assert all(reciprocal_rank(scores, [0]) == 1.0 for scores in fixed_orders(1).values())
