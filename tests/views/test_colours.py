"""Orange is for, blue is against, in every view."""

from importlib.resources import files

import pytest
from matplotlib.colors import to_rgb

from attnx.views import colour_map
from attnx.views.terminal import AGAINST, BEHIND_AGAINST, BEHIND_FOR, FOR, STOPS_AGAINST, STOPS_FOR


def lightness(colour):
    red, green, blue = colour[:3]
    return 0.299 * red + 0.587 * green + 0.114 * blue


def test_the_maps_end_in_the_stops_and_both_are_lightest_at_nothing():
    one_way, both_ways = colour_map(signed=False), colour_map(signed=True)
    ends = {1.0: STOPS_FOR[-1][1], 0.0: STOPS_AGAINST[-1][1], 0.5: STOPS_FOR[0][1]}
    for share, colour in ends.items():
        assert both_ways(share)[:3] == pytest.approx([one / 255 for one in colour], abs=0.02)
    assert one_way(1.0) == pytest.approx(both_ways(1.0))
    falling = [lightness(one_way(share / 10)) for share in range(11)]
    assert falling == sorted(falling, reverse=True)


@pytest.mark.parametrize("colour", [FOR, BEHIND_FOR, colour_map(signed=False)(1.0), colour_map(signed=True)(1.0)])
def test_for_is_orange(colour):
    red, green, blue = to_rgb(colour)
    assert red > green > blue


@pytest.mark.parametrize("colour", [AGAINST, BEHIND_AGAINST, colour_map(signed=True)(0.0)])
def test_against_is_blue(colour):
    red, green, blue = to_rgb(colour)
    assert blue > green > red


def test_the_page_on_paper_has_the_colours_of_a_notebook():
    light = files("attnx.views.page").joinpath("shared/page.css").read_text(encoding="utf-8").split("}")[0]
    assert f"--hot: {BEHIND_FOR};" in light
    assert f"--lines: {BEHIND_AGAINST};" in light
