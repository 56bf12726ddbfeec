"""Links are chosen as their definition says, and the error rate is that of Och and Ney."""

import numpy as np
import pytest

from attnx.word_alignment.links import Gold, LinkCounts, argmax, intersection

SCORES = np.array([[0.6, 0.4, 0.0], [0.5, 0.1, 0.4], [0.0, 0.0, 0.0]])


def test_each_target_word_is_linked_to_its_highest_source_word_and_one_without_any_to_none():
    assert argmax(SCORES) == {(0, 0), (0, 1)}


def test_of_equals_the_first_is_taken():
    assert argmax(np.array([[0.5, 0.5]])) == {(0, 0)}


def test_both_directions_keep_what_is_highest_in_its_row_and_in_its_column():
    assert intersection(SCORES) == {(0, 0)}
    assert intersection(np.eye(3)) == {(0, 0), (1, 1), (2, 2)}


def test_a_sentence_without_words_has_no_links():
    assert argmax(np.zeros((2, 0))) == intersection(np.zeros((0, 2))) == set()


def test_the_error_rate_is_worked_out_by_hand():
    gold = Gold(frozenset({(0, 0), (1, 1)}), frozenset({(0, 0), (1, 1), (2, 1)}))
    counts = LinkCounts.of([(0, 0), (2, 1), (3, 3)], gold)
    assert counts == LinkCounts(found=3, sure=2, found_sure=1, found_possible=2)
    assert counts.precision == pytest.approx(2 / 3)
    assert counts.recall == pytest.approx(1 / 2)
    assert counts.error_rate == pytest.approx(1 - (1 + 2) / (3 + 2))


def test_sentences_are_summed_before_they_are_divided():
    sure = Gold(frozenset({(0, 0)}), frozenset({(0, 0)}))
    right, wrong = LinkCounts.of([(0, 0)], sure), LinkCounts.of([(1, 0), (2, 0), (3, 0)], sure)
    assert (right + wrong).error_rate == pytest.approx(1 - 2 / 6)
    assert (right.error_rate + wrong.error_rate) / 2 == pytest.approx(0.5)


def test_what_is_empty_has_no_rate():
    empty = LinkCounts()
    assert (empty.precision, empty.recall, empty.error_rate) == (None, None, None)
