"""An alignment names its pairs, goes to Pharaoh's format and back, and counts its errors against a gold."""

import numpy as np
import pytest

from attnx.errors import AttnxError, InputError
from attnx.word_alignment import Alignment
from attnx.word_alignment.links import Gold, LinkCounts, read_links

SOURCE, TARGET = ("march", "third", "1998"), ("1998", "03", "03")
SCORES = np.array([[0.0, 0.1, 0.9], [0.8, 0.1, 0.1], [0.3, 0.7, 0.0]])
LINKS = {(2, 0), (0, 1), (1, 2)}


def made(scores=SCORES, choice="argmax", words=((SOURCE, TARGET),)):
    return Alignment.choose(words, [scores] * len(words), choice, method="raw", layer="cross 1")


def test_the_pairs_are_words_in_the_order_of_what_was_written():
    assert made().pairs() == (("1998", "1998"), ("march", "03"), ("third", "03"))


def test_what_goes_to_no_word_is_linked_to_none():
    null = np.array([[0.0], [2.0], [0.0]])
    assert made(np.hstack([SCORES, null])).pairs() == (("1998", "1998"), ("third", "03"))
    assert made(np.hstack([SCORES, null])).scores[0].shape == (3, 3)


def test_pharaoh_is_written_and_read(tmp_path):
    both = made(words=((SOURCE, TARGET),) * 2)
    assert both.to_pharaoh(tmp_path / "a.txt") == "2-0 0-1 1-2\n2-0 0-1 1-2\n"
    assert [one.sure for one in read_links(tmp_path / "a.txt")] == [LINKS, LINKS]
    with pytest.raises(AttnxError, match="cannot write"):
        both.to_pharaoh(tmp_path / "none" / "a.txt")


def test_errors_are_counted_against_a_file_from_0_or_from_1(tmp_path):
    (tmp_path / "gold.txt").write_text("2-0 0-1 1-1\n")
    (tmp_path / "gold.talp").write_text("3-1 1-2 2-2\n")
    for name in ("gold.txt", "gold.talp"):
        judged = made().against(tmp_path / name)
        assert judged.total == LinkCounts(found=3, sure=3, found_sure=2, found_possible=2)
        assert judged.error_rate == pytest.approx(1 / 3)
    assert made().error_rate is None
    assert made().error_interval() is None


def test_the_interval_holds_the_rate_and_is_the_same_for_the_same_seed():
    gold = [Gold(frozenset(LINKS), frozenset(LINKS)), Gold(frozenset({(0, 0)}), frozenset({(0, 0)}))] * 8
    judged = made(words=((SOURCE, TARGET),) * 16).against(gold)
    low, high = judged.error_interval()
    assert low < judged.error_rate < high
    assert judged.error_interval() == (low, high)


@pytest.mark.parametrize(
    ("text", "says"), [("0-0\n0-0\n", "2 lines, but 1 pairs"), ("3-0\n", "3 source and 3 target words .*from 1")]
)
def test_a_gold_of_other_sentences_is_refused(tmp_path, text, says):
    (tmp_path / "gold.txt").write_text(text)
    with pytest.raises(InputError, match=says):
        made().against(tmp_path / "gold.txt")


def test_two_directions_keep_what_both_say():
    backward = made(SCORES.T, words=((TARGET, SOURCE),))
    assert set((made() & backward.swapped()).sentences[0].links) == LINKS
    with pytest.raises(InputError, match="not of the same sentences"):
        made() & made(words=((SOURCE, TARGET),) * 2)


def test_a_choice_that_does_not_exist_is_told():
    with pytest.raises(AttnxError, match="argmax"):
        made(choice="best")


def test_the_grid_has_a_frame_for_each_link():
    axes = made().plot()
    assert {(round(one.get_x() + 0.5), round(one.get_y() + 0.5)) for one in axes.patches} == LINKS
    with pytest.raises(AttnxError, match="sentence 1 was requested, but the alignment has 1"):
        made().plot(1)
