"""What is explained, from what the user called it."""

from attnx.target import class_index


def test_a_number_is_a_class_also_where_labels_are_numbers():
    stars = ("1", "2", "3", "4", "5")
    assert [class_index(1, stars), class_index("1", stars), class_index("0", stars)] == [1, 0, 0]
    assert class_index("us", ("US", "us")) == 1
