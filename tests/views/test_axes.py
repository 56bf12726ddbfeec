"""Plots are drawn where the caller says, show nothing, and leave matplotlib as it was."""

import os

import matplotlib
import pytest
from matplotlib import pyplot
from matplotlib.figure import Figure

from tests.children import python
from tests.views.rows import explanation

VIEWS = {
    "plot": lambda one, **options: one.plot(**options),
    "strip": lambda one, **options: one.plot(kind="heat", **options),
    "plot_layers": lambda one, **options: one.plot_layers(**options),
}


@pytest.mark.parametrize("view", VIEWS)
def test_it_draws_into_the_given_axes(view, explained):
    given, open_before = Figure().subplots(), pyplot.get_fignums()
    assert VIEWS[view](explained, ax=given) is given
    assert pyplot.get_fignums() == open_before


@pytest.mark.parametrize("view", VIEWS)
def test_else_into_a_new_figure_that_is_not_shown(view, explained, monkeypatch):
    monkeypatch.setattr(pyplot, "show", lambda *_, **__: pytest.fail("shown"))
    axes = VIEWS[view](explained)
    assert axes.figure in map(pyplot.figure, pyplot.get_fignums())


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("token", ["$", "$x^", r"\frac", "a_b%#&", "⏎\n", "\x1b"])
def test_any_token_can_be_drawn(view, token):
    axes = VIEWS[view](explanation(token, "$$", layers=2), ax=Figure().subplots())
    axes.figure.canvas.draw()


def test_settings_stay_the_users(explained):
    before = dict(matplotlib.rcParams)
    explained.plot_layers()
    assert dict(matplotlib.rcParams) == before


@pytest.mark.slow
def test_it_draws_without_a_display_and_into_given_axes_without_pyplot(children, tmp_path):
    code = (
        "from tests.views.rows import explanation; from matplotlib.figure import Figure; import sys;"
        "one = explanation('key'); one.plot_layers(ax=Figure().subplots()); print('matplotlib.pyplot' in sys.modules);"
        "one.plot().figure.savefig(sys.argv[1])"
    )
    without_display = {name: value for name, value in os.environ.items() if name not in ("DISPLAY", "WAYLAND_DISPLAY")}
    done = children.run(python(code, str(tmp_path / "x.png")), env=without_display | {"MPLBACKEND": "tkagg"})
    assert done.stdout == "False\n", done.stderr  # axes of one's own need no pyplot
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")
