"""Colours that everyone can read."""

from itertools import pairwise

import numpy as np
import pytest
from rich.color import ColorType
from rich.style import Style

from attnx.views import shade

SHARES = np.linspace(0, 1, 101).tolist()


def luminance(colour):
    values = [one / 255 for one in colour.get_truecolor()]
    linear = [one / 12.92 if one <= 0.03928 else ((one + 0.055) / 1.055) ** 2.4 for one in values]
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
