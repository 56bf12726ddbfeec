"""What the paper prints."""

from attnx.paper.tables import PUBLISHED_TABLE_1 as PUBLISHED_TABLE
from attnx.paper.tables import PUBLISHED_TABLE_2


def test_the_published_tables_are_the_papers():
    assert PUBLISHED_TABLE["flow"][2] == (0.70, 0.25)
    assert PUBLISHED_TABLE["raw"][3] == (-0.09, 0.52)
    assert PUBLISHED_TABLE_2["rollout"][5] == (0.54, 0.31)
    assert all(len(cells) == 6 for each in (PUBLISHED_TABLE, PUBLISHED_TABLE_2) for cells in each.values())
