"""One row as bars or as a strip: the numbers of the explanation, in the order of the text."""

import dataclasses

import numpy as np
import pytest
from matplotlib.colors import to_hex

from attnx.errors import ChoiceError, InputError
from attnx.views.explanation import MOST_BARS
from attnx.views.terminal import AGAINST, FOR, colour_map
from tests.made import with_scores
from tests.views.rows import explanation

SIGNED = frozenset({"occlusion"})


def labels(ticks):
    return [label.get_text() for label in ticks]


def test_a_bar_is_a_words_score(explained):
    axes = explained.plot("raw", 2)
    assert [bar.get_width() for bar in axes.patches] == [word.score for word in explained.by_word("raw", 2)]
    assert labels(axes.get_yticklabels()) == [word.text for word in explained.words]
    assert axes.get_title(loc="left") == "raw at layer 2, as seen from [CLS]"


def test_the_first_word_is_on_top(explained):
    bottom, top = explained.plot().get_ylim()
    assert bottom > top


def test_by_token_every_position_has_a_bar(explained):
    axes = explained.plot(by="token")
    np.testing.assert_array_equal([bar.get_width() for bar in axes.patches], explained.scores())
    assert labels(axes.get_yticklabels()) == list(explained.tokens)


def test_a_strip_has_the_same_numbers(explained):
    axes = explained.plot("flow", kind="heat")
    np.testing.assert_allclose(axes.images[0].get_array()[0], [word.score for word in explained.by_word("flow")])
    assert labels(axes.get_xticklabels()) == [word.text for word in explained.words]


def test_a_reference_has_its_bars_and_colours_on_both_sides_of_zero():
    signed = with_scores(explanation("key", "to"), references={"occlusion": np.array([0.0, -0.3, 0.1])}, signed=SIGNED)
    axes = signed.plot("occlusion")
    assert [bar.get_width() for bar in axes.patches] == [-0.3, 0.1]
    assert axes.get_title(loc="left") == "occlusion, measured on the model"
    assert signed.plot("occlusion", kind="heat").images[0].get_clim() == (-0.3, 0.3)


def test_a_long_text_is_reduced_and_says_so():
    scores = np.linspace(0, 1, MOST_BARS + 20).tolist()
    axes = explanation(*map(str, range(MOST_BARS + 20)), scores=scores).plot()
    assert labels(axes.get_yticklabels()) == [str(number) for number in range(20, MOST_BARS + 20)]
    assert f"the strongest {MOST_BARS} of {MOST_BARS + 20} words" in axes.get_title(loc="left")


def test_no_word_is_an_error_that_says_what_can_be_drawn():
    whole = explanation("[SEP]")
    special = tuple(dataclasses.replace(one, word=None) for one in whole.positions)
    empty = dataclasses.replace(whole, positions=special, words=())
    with pytest.raises(InputError, match='by="token"'):
        empty.plot()
    assert len(empty.plot(by="token").patches) == 2


def test_what_is_not_known_is_named(explained):
    with pytest.raises(ChoiceError, match="kind 'pie' is not known; there are: bars, heat"):
        explained.plot(kind="pie")
    with pytest.raises(ChoiceError, match="by 'words' is not known"):
        explained.plot(by="words")
    with pytest.raises(ChoiceError, match="layer 9 was requested"):
        explained.plot(layer=9)


def test_what_speaks_against_has_a_colour_of_its_own_and_a_legend():
    one = with_scores(explanation("key", "to"), references={"occlusion": np.array([0.0, -0.3, 0.1])}, signed=SIGNED)
    axes = one.plot("occlusion")
    colours = [to_hex(bar.get_facecolor()) for bar in axes.patches]
    assert colours == [AGAINST, FOR]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["supports", "opposes"]
    figure = axes.figure
    figure.canvas.draw()
    legend = axes.get_legend().get_window_extent()
    assert not any(legend.overlaps(one.get_window_extent()) for one in (*axes.patches, *axes.texts))
    title = next(one for one in axes.get_children() if getattr(one, "get_text", str)() == axes.get_title(loc="left"))
    assert not legend.overlaps(title.get_window_extent())
    assert explanation("key", "to").plot().get_legend() is None


def test_without_punctuation_the_title_says_what_it_holds():
    axes = explanation("key", ",", "to", scores=[0.2, 0.2, 0.1]).plot(content_only=True)
    assert [label.get_text() for label in axes.get_yticklabels()] == ["key", "to"]
    assert "not drawn: punctuation 20%, special tokens 50%" in axes.get_title(loc="left")


def test_the_verdict_stands_beneath():
    assert "unchecked" in explanation("key", "to").plot().get_xlabel()
    assert "unchecked" in explanation("key", "to").plot_layers().get_xlabel()


def test_a_signed_row_without_anything_against_is_drawn_as_signed():
    scores = np.array([0.0, 0.3, 0.1])
    one = with_scores(explanation("key", "to"), references={"occlusion": scores}, signed=SIGNED)
    assert one.plot("occlusion").get_legend() is not None
    (strip,) = one.plot("occlusion", kind="heat").images
    assert strip.get_clim() == (-0.3, 0.3)
    assert strip.get_cmap() == colour_map(signed=True)
    (unsigned,) = one.plot("rollout", kind="heat").images
    assert unsigned.get_clim()[0] == 0
