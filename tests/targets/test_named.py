"""What is explained, from what the user called it."""

import pytest

from attnx.errors import ChoiceError
from attnx.targets.base import class_index, token_index


def test_a_number_is_a_class_also_where_labels_are_numbers():
    stars = ("1", "2", "3", "4", "5")
    assert [class_index(1, stars), class_index("1", stars), class_index("0", stars)] == [1, 0, 0]
    assert class_index("us", ("US", "us")) == 1


def test_a_token_id_is_a_whole_number_of_the_vocabulary():
    assert token_index(3, None, 10) == 3
    with pytest.raises(ChoiceError, match=r"target must be a whole number, found 1\.5"):
        token_index(1.5, None, 10)
    with pytest.raises(ChoiceError, match="target 10 is no token id of this vocabulary of 10"):
        token_index(10, None, 10)
