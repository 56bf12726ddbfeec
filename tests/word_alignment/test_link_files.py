"""Links are read from 0 or from 1, sure or possible, and written as Pharaoh does."""

import pytest

from attnx.errors import AttnxError
from attnx.word_alignment.links import Gold, pharaoh, read_links


def written(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    return tmp_path / name


def test_pharaoh_counts_from_0_and_all_is_sure(tmp_path):
    links = frozenset({(0, 0), (2, 1)})
    assert read_links(written(tmp_path, "a.txt", "0-0 2-1\n\n")) == [Gold(links, links), Gold(frozenset(), frozenset())]


def test_talp_counts_from_1_and_p_is_possible(tmp_path):
    gold = Gold(frozenset({(0, 0)}), frozenset({(0, 0), (2, 1)}))
    assert read_links(written(tmp_path, "gold.talp", "1-1 3p2\n")) == [gold]
    assert read_links(written(tmp_path, "gold.txt", "1-1 3p2\n"), first=1) == [gold]


def test_what_is_written_is_read_again(tmp_path):
    several = [[(0, 0), (2, 1)], [], [(1, 0)]]
    read = read_links(written(tmp_path, "a.txt", pharaoh(several)))
    assert [sorted(one.sure) for one in read] == several


@pytest.mark.parametrize(
    ("line", "first", "says"),
    [
        ("0-0 1:2", None, "line 1: '1:2' is no link"),
        ("0-1", 1, "line 1: 0-1 counts from 0"),
        ("0-1", 2, "number 0 or 1"),
        ("-1-2", None, "is no link"),
    ],
)
def test_what_is_no_link_is_told_with_its_line(tmp_path, line, first, says):
    with pytest.raises(AttnxError, match=says):
        read_links(written(tmp_path, "a.txt", line), first=first)


def test_a_file_that_is_not_there_is_told(tmp_path):
    with pytest.raises(AttnxError, match="cannot read"):
        read_links(tmp_path / "none.txt")
