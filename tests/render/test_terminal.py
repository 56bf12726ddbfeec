"""The terminal view: every word, its score, and nothing that steers the terminal."""

import dataclasses

import numpy as np
import pytest
from rich.console import Console

from attnx.explanation import Explanation
from attnx.positions import Position, group_words
from attnx.render.terminal import coloured, plain


def explanation(*tokens, scores=None):
    made = [Position(0, "[CLS]", special=True), *(Position(i, token) for i, token in enumerate(tokens, start=1))]
    positions, words = group_words(made, None)
    row = np.array([[0.5, *(scores or [0.5 / len(tokens)] * len(tokens))]])
    return Explanation(positions, words, position=0, layers=(1,), relevance={"rollout": row})


def shown(one, **options):
    console = Console(force_terminal=True, color_system="truecolor", width=80, **options)
    with console.capture() as captured:
        console.print(coloured(one))
    return captured.get()


def test_the_strongest_word_has_the_strongest_colour():
    text = shown(explanation("key", "to", scores=[0.4, 0.1]))
    assert "48;2;198;88;0m key " in text
    assert "48;2;241;213;191m to " in text
    assert "key 0.400, to 0.100" in text


def test_special_tokens_are_told_apart():
    assert "special tokens hold 50% of the relevance" in plain(explanation("key", "to"))
    assert "[CLS]" not in plain(explanation("key")).splitlines()[1]


@pytest.mark.parametrize("token", ["\x1b[31mred", "\x9b31m", "\rover", "\u202eback", "\x07"])
def test_a_token_cannot_steer_the_terminal(token):
    steering = {one for one in token if not one.isprintable()}
    for view in (plain(explanation(token, "key")), Console(width=80).render_str(plain(explanation(token))).plain):
        assert not steering & set(view)
    console = Console(width=80, no_color=True, color_system=None)
    with console.capture() as captured:
        console.print(coloured(explanation(token, "key")))
    assert not steering & set(captured.get())


def test_markup_in_a_token_is_text():
    assert "[bold]x[/bold]" in shown(explanation("[bold]x[/bold]"))


def test_wide_characters_keep_the_columns_straight():
    lines = plain(explanation("我", "key")).splitlines()
    assert lines[1].index("0.2500") + 1 == lines[2].index("0.2500")


def test_nothing_of_relevance_is_drawn_without_a_bar():
    one = dataclasses.replace(explanation("key"), relevance={"rollout": np.array([[1.0, 0.0]])})
    assert "█" not in plain(one)
