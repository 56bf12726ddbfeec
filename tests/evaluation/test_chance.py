"""Chance is drawn by the text itself, in pairs, and no longer than it takes."""

from itertools import islice

import numpy as np
import pytest

import attnx
from attnx.evaluation import RANDOM
from attnx.evaluation.removal import FIRST, MOST, generator_of, narrow_enough, random_orders
from tests import verb_number_zoo as zoo


def test_orders_come_in_pairs_that_are_each_others_reverse():
    drawn = list(islice(random_orders([(2,), (3, 4), (5,), (7,)], np.random.default_rng(0)), 6))
    assert all(sorted(one) == [(2,), (3, 4), (5,), (7,)] for one in drawn)
    assert [one[::-1] for one in drawn[0::2]] == drawn[1::2]
    assert len(set(drawn)) > 2


def test_draws_hang_on_the_text_the_seed_and_the_purpose_alone():
    one, other = zoo.prepared(*zoo.TEXTS[:2])
    (again,) = zoo.prepared(zoo.TEXTS[0])
    first = generator_of(one, 0, RANDOM).random(4)
    np.testing.assert_array_equal(first, generator_of(again, 0, RANDOM).random(4))
    for drawn in (generator_of(other, 0, RANDOM), generator_of(one, 1, RANDOM), generator_of(one, 0, "raw")):
        assert not np.array_equal(first, drawn.random(4))


def test_a_text_gets_the_same_numbers_whatever_stands_around_it():
    asked = {"methods": "raw", "references": (), "progress": False}
    alone = attnx.faithfulness(zoo.model(), zoo.tokenizer(), [zoo.TEXTS[1]], **asked)
    among = attnx.faithfulness(zoo.model(), zoo.tokenizer(), list(zoo.TEXTS), **asked)
    for name in ("raw", RANDOM):
        np.testing.assert_allclose(alone.values[name][0], among.values[name][1], atol=1e-6)


@pytest.mark.parametrize(("values", "narrow"), [([0.5, 0.1, 0.4, 0.2], True), ([0.9, 0.7, 0.1, 0.1], False)])
def test_pairs_that_agree_are_narrow_enough_and_others_are_not(values, narrow):
    assert narrow_enough([np.array([one]) for one in values], 1.0) is narrow


def test_orders_are_drawn_between_the_bounds_and_the_table_says_how_many():
    found = attnx.faithfulness(zoo.model(), zoo.tokenizer(), list(zoo.TEXTS), methods="raw", progress=False)
    assert FIRST <= found.fewest_orders <= found.orders <= MOST
    fixed = attnx.faithfulness(zoo.model(), zoo.tokenizer(), zoo.TEXTS[0], methods="raw", random=3, progress=False)
    assert (fixed.fewest_orders, fixed.orders) == (3, 3)
    assert attnx.Faithfulness.from_json(found.to_json()).fewest_orders == found.fewest_orders
