"""What is left out of a page is the weakest by size, and the rest says what it holds."""

from base64 import b64decode

import numpy as np
import pytest

from attnx.views.page.content import FEWEST_EDGES, kept_edges, kept_layers_and_edges, share_of_strongest, strongest

ROWS = np.array([[[0.1, -0.5, 0.2, 0.15, -0.05]]])


def test_the_strongest_are_the_largest_in_size():
    kept = strongest(ROWS, 2)
    assert np.frombuffer(b64decode(kept["indices"]), "<u2").tolist() == [1, 2]
    assert np.frombuffer(b64decode(kept["values"]), "<f4").tolist() == pytest.approx([-0.5, 0.2])
    assert share_of_strongest(ROWS, 2) == pytest.approx(0.7)
    assert share_of_strongest(np.zeros((1, 1, 5)), 2) == 0


def test_of_little_room_rows_lose_weights_and_then_layers_go():
    rows, length = 10, 100
    assert kept_edges(rows, length, 6 * rows * length) == length
    assert kept_edges(rows, length, 8 * rows * 7) == 7
    assert kept_edges(rows, length, 8 * rows * FEWEST_EDGES - 1) == 0
    assert kept_layers_and_edges(12, rows, length, 8 * rows * 12 * 7) == (list(range(12)), 7)
    layers, edges = kept_layers_and_edges(12, rows, length, 8 * rows * FEWEST_EDGES * 3)
    assert (layers, edges) == ([0, 6, 11], FEWEST_EDGES)
    assert kept_layers_and_edges(12, rows, length, 1) == ([], FEWEST_EDGES)
