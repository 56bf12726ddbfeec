"""Lines of cells, aligned for the terminal and with pipes for Markdown, and the decimals of their numbers."""

import numpy as np
import pytest

from attnx.views import TextBlock, as_markdown, as_text, decimals, places, written
from attnx.views.table import piped

BLOCKS = [
    TextBlock("a heading", ("first",), [["", "L1"], ["rollout", ".71"]], ("last", "of all")),
    TextBlock(foot=("end",)),
]


def test_a_block_is_its_heading_lead_table_and_foot():
    assert as_text(BLOCKS) == "a heading\n\nfirst\n\n         L1\nrollout  .71\n\nlast\nof all\n\nend"
    assert as_markdown(BLOCKS) == (
        "**a heading**\n\nfirst\n\n|  | L1 |\n|---|---|\n| rollout | .71 |\n\nlast\nof all\n\nend"
    )


def test_a_pipe_in_a_cell_does_not_end_it():
    assert piped([["a|b"]]).splitlines()[0] == r"| a\|b |"


@pytest.mark.parametrize(
    ("value", "printed"),
    [(0.694, ".69"), (-0.114, "−.11"), (1.0, "1.00"), (-1.0, "−1.00"), (0.0, ".00"), (-0.001, ".00"), (None, "–")],
)
def test_numbers_look_as_in_the_paper(value, printed):
    assert decimals(value) == printed


@pytest.mark.parametrize(
    ("scores", "exact", "decimals"),
    [([0.25, 0.03], None, 3), ([12.3, -840.0], None, 1), ([2e-6, 0], None, 8), ([2e-12, 0], 9, 9), ([0.0], None, 3)],
)
def test_three_figures_of_the_strongest_as_far_as_the_method_is_exact(scores, exact, decimals):
    assert places(scores, exact) == decimals


def test_a_zero_has_no_sign():
    assert written(-0.0004, 3) == "0.000"
    assert written(-0.5, 3) == "-0.500"


def test_a_rounding_changes_no_digits():
    assert places([1.0, 0.5]) == places([np.nextafter(1.0, 0), 0.5]) == 2
