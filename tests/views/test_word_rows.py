"""Rows of scores by word, and what is left of a long text."""

import numpy as np

from attnx.views import reduction_note, strongest
from attnx.views.text import GAP, layer_rows, named_rows
from tests.made import with_scores
from tests.views.rows import explanation


def test_each_method_is_on_its_own_scale():
    one = explanation("key", "to", scores=[0.4, 0.1])
    two = with_scores(one, relevance={"rollout": one["rollout"], "flow": np.array([[1.0, 2.0, 4.0]])})
    np.testing.assert_allclose(named_rows(two, two.methods).shares, [[1, 0.25], [0.5, 1]])


def test_layers_share_one_scale_and_the_last_is_on_top():
    rows = layer_rows(explanation("key", "to", scores=[0.4, 0.1], layers=2), "rollout")
    assert rows.labels == ("layer 2", "layer 1")
    np.testing.assert_allclose(rows.shares, [[1, 0.25], [0.5, 0.125]])


def test_a_long_text_keeps_its_strongest_words_in_order_and_says_so():
    rows = named_rows(explanation(*"abcdefg", scores=[0, 0, 0.2, 0, 0, 0.1, 0.3]), ["rollout"]).shortened(3)
    assert rows.words == (GAP, "c", GAP, "f", "g")
    np.testing.assert_allclose(rows.scores, [[0, 0.2, 0, 0.1, 0.3]])
    assert rows.note == f"the strongest 3 of 7 words; {GAP} stands for the rest"


def test_a_short_text_is_whole():
    rows = named_rows(explanation("key", "to"), ["rollout"])
    assert rows.shortened(2) is rows
    assert rows.note == ""


def test_negative_scores_are_against_on_the_same_scale():
    rows = named_rows(explanation("key", "to", scores=[-0.4, 0.1]), ["rollout"])
    np.testing.assert_allclose(rows.shares, [[-1, 0.25]])


def test_of_equal_scores_the_earlier_are_kept():
    assert strongest([1, 2, 2, 2], 2) == [1, 2]
    assert reduction_note(2, 1234, "lines") == "the strongest 2 of 1,234 lines"
    assert reduction_note(4, 4, "lines") == ""
