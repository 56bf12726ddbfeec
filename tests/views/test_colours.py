"""Orange supports and blue opposes in every view, legibly for everyone."""

from importlib.resources import files
from itertools import pairwise

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from rich.color import ColorType
from rich.style import Style

from attnx.views import shade
from attnx.views.terminal import AGAINST, BEHIND_AGAINST, BEHIND_FOR, FOR, STOPS_AGAINST, STOPS_FOR, colour_map

SHARES = np.linspace(0, 1, 101).tolist()


def lightness(colour):
    red, green, blue = colour[:3]
    return 0.299 * red + 0.587 * green + 0.114 * blue


def test_the_maps_end_in_the_stops_and_both_are_lightest_at_nothing():
    one_way, both_ways = colour_map(signed=False), colour_map(signed=True)
    ends = {1.0: STOPS_FOR[-1][1], 0.0: STOPS_AGAINST[-1][1], 0.5: STOPS_FOR[0][1]}
    for share, colour in ends.items():
        assert both_ways(share)[:3] == pytest.approx([part / 255 for part in colour], abs=0.02)
    assert one_way(1.0) == pytest.approx(both_ways(1.0))
    falling = [lightness(one_way(share / 10)) for share in range(11)]
    assert falling == sorted(falling, reverse=True)


@pytest.mark.parametrize("colour", [FOR, BEHIND_FOR, colour_map(signed=False)(1.0), colour_map(signed=True)(1.0)])
def test_supporting_scores_are_orange(colour):
    red, green, blue = to_rgb(colour)
    assert red > green > blue


@pytest.mark.parametrize("colour", [AGAINST, BEHIND_AGAINST, colour_map(signed=True)(0.0)])
def test_opposing_scores_are_blue(colour):
    red, green, blue = to_rgb(colour)
    assert blue > green > red


def test_the_page_on_paper_has_the_colours_of_a_notebook():
    light = files("attnx.views.page").joinpath("shared/page.css").read_text(encoding="utf-8").split("}")[0]
    assert f"--hot: {BEHIND_FOR};" in light
    assert f"--lines: {BEHIND_AGAINST};" in light


def luminance(colour):
    values = [part / 255 for part in colour.get_truecolor()]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in values]
    return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))


@pytest.mark.parametrize("sign", [1, -1])
def test_the_stronger_the_darker(sign):
    bright = [luminance(Style.parse(shade(sign * share)).bgcolor) for share in SHARES]
    assert all(upper < lower for lower, upper in pairwise(bright))


@pytest.mark.parametrize("share", [*SHARES[::10], *(-share for share in SHARES[::10])])
def test_words_stand_out_from_their_background(share):
    style = Style.parse(shade(share))
    dark, light = sorted([luminance(style.color), luminance(style.bgcolor)])
    assert (light + 0.05) / (dark + 0.05) > 4.5


def test_sixteen_colours_are_named_and_not_rounded():
    styles = [Style.parse(shade(sign * share, "standard")) for share in SHARES for sign in (1, -1)]
    assert len({style.bgcolor for style in styles}) == 7
    assert all(style.bgcolor.type is ColorType.STANDARD for style in styles)
    assert all(style.color != style.bgcolor for style in styles)
