"""The terminal view: every word, its score, and nothing that steers the terminal."""

import dataclasses
import os
import re

import numpy as np
import pytest
from rich.cells import cell_len
from rich.console import Console

import attnx
from attnx.adapters import Span
from attnx.views import show
from attnx.views.terminal import MOST_WORDS, coloured, coloured_layers
from attnx.views.text import plain, plain_layers
from tests import zoo
from tests.children import attnx_command
from tests.made import with_scores
from tests.views.rows import explanation


def shown(view, width=80, colours="truecolor"):
    console = Console(force_terminal=True, color_system=colours, width=width, _environ={})
    with console.capture() as captured:
        console.print(view)
    return captured.get()


def without_colours(text):
    return re.sub(r"\x1b\[[\d;]*m", "", text)


def test_the_strongest_word_has_the_strongest_colour():
    text = shown(coloured(explanation("key", "to", scores=[0.4, 0.1])))
    assert "48;2;190;72;0m key " in text
    assert "48;2;242;205;166m to " in text


def test_the_best_words_have_position_score_and_bar():
    text = without_colours(shown(coloured(explanation("the", "key", "the", scores=[0.1, 0.05, 0.2]))))
    assert re.findall(r"(\d) +(\w+) +(0\.\d+) +(━*)", text) == [
        ("3", "the", "0.200", "━" * 24),
        ("1", "the", "0.100", "━" * 12),
        ("2", "key", "0.050", "━" * 6),
    ]


def test_every_method_is_a_row():
    one = attnx.explain(zoo.classifier(), zoo.wordpiece_tokenizer(), "the key to the cabinets")
    text = without_colours(shown(coloured(one)))
    for name in ("raw", "rollout", "flow"):
        assert re.search(rf"^{name} +the  key  to  the  cabinets", text, re.MULTILINE)
    assert "prediction" in text


def with_reference(*scores):
    one = explanation(*(f"word{number}" for number in range(len(scores))))
    return with_scores(one, references={"occlusion": np.array([0.0, *scores])})


def test_a_reference_is_a_row_beside_the_methods():
    text = without_colours(shown(coloured(with_reference(0.3, 0.1))))
    assert re.search(r"^occlusion +word0  word1", text, re.MULTILINE)
    assert "measured on the model, not attention: occlusion" in text
    assert plain(with_reference(0.3, 0.1), "occlusion").startswith("occlusion, measured on the model\n")


def test_what_speaks_against_is_blue():
    text = shown(coloured(signed(-0.3, 0.1)))
    assert "48;2;22;96;160m word0 " in text
    assert "opposes" in text
    assert "opposes" not in shown(coloured(with_reference(0.3, 0.1)))


def test_the_legend_of_a_signed_row_has_both_sides_though_nothing_opposes():
    assert "opposes" in shown(coloured(signed(0.3, 0.1)))


def signed(*scores):
    return with_scores(with_reference(*scores), signed=frozenset({"occlusion"}), first="occlusion")


def test_the_best_words_say_for_or_against_and_the_strongest_against_is_among_them():
    one = signed(0.3, 0.1, 0.2, 0.25, 0.15, -0.4, -0.1)
    assert [(word.text, word.speaks) for word in one.top(2)] == [("word0", "for"), ("word3", "for")]
    text = without_colours(shown(coloured(one)))
    assert re.search(r"word0 +0\.300  ━+ supports", text)
    assert re.search(r"word5 +-0\.400  ━+ opposes", text)
    assert {word.speaks for word in one.top(3, "rollout")} == {None}


def test_in_plain_text_bars_are_of_two_kinds_with_a_legend():
    text = str(signed(0.2, -0.4))
    assert re.search(r"word0 +0\.200  █+$", text, re.MULTILINE)
    assert re.search(r"word1 +-0\.400  ▒+$", text, re.MULTILINE)
    assert "█ supports the prediction, ▒ opposes it" in text
    assert "▒" not in plain(signed(0.2, -0.4), "rollout")


def test_the_verdict_and_the_notes_are_in_every_view():
    one = dataclasses.replace(explanation("key", "to", layers=2), notes=("the text was cut",))
    views = [
        str(one),
        shown(one),
        shown(coloured_layers(one)),
        one.to_markdown(),
        str(one.to_html()),
        one._repr_html_(),
    ]
    for view in views:
        text = re.sub(r"\s+", " ", without_colours(view))
        assert "unchecked: the model has no head" in text
        assert "the text was cut" in text


def test_what_is_of_the_input_is_judged_once_and_what_is_of_a_row_beside_it():
    one = attnx.explain(zoo.classifier(), zoo.wordpiece_tokenizer(), "the key to the zebra")
    text = re.sub(r"\s+", " ", without_colours(shown(coloured(one))))
    assert text.count("not in the vocabulary: 'zebra'") == 1
    assert "rollout: Spearman's rank correlation over " in text


def test_the_two_texts_of_a_pair_stand_apart():
    one = attnx.explain(zoo.classifier(), zoo.wordpiece_tokenizer(), ("the key", "a dull film"), methods="rollout")
    lines = str(one).splitlines()
    assert lines[lines.index("———") + 1].startswith("a ")
    text = without_colours(shown(coloured(one)))
    assert re.search(r"the  key *\n\n +———\nrollout? +a  dull  film|the  key *\n\n +———\n +a  dull  film", text)
    assert "———" not in str(attnx.explain(zoo.classifier(), zoo.wordpiece_tokenizer(), "the key", methods="rollout"))


def test_parts_that_were_named_are_rows_of_every_view():
    one = explanation("the", "key", "is", scores=[0.1, 0.05, 0.2])
    parts = (Span("a\x1b[31m", (1, 2)), Span("rest", (3,)))
    named = dataclasses.replace(one, spans=parts)
    table = without_colours(shown(coloured(named)))
    assert re.findall(r"(\d)  (\S+) +(0\.\d+)  (━+)", table.split("part ")[1]) == [
        ("1", "a�[31m", "0.150", "━" * 18),
        ("3", "rest", "0.200", "━" * 24),
    ]
    assert plain(named).splitlines()[-4:-1] == [
        "parts of the text, each the sum over its tokens:",
        "a�[31m  0.150  " + "█" * 18,
        "rest    0.200  " + "█" * 24,
    ]
    assert re.search(r"\| rest +\| +0\.200", named.to_markdown())
    assert "parts of the text" not in plain(one)


def test_content_alone_leaves_punctuation_out_and_says_its_share():
    one = explanation("key", ",", "to", scores=[0.2, 0.2, 0.1])
    assert [word.text for word in one.top(3, content_only=True)] == ["key", "to"]
    text = plain(one, content_only=True)
    assert not re.search(r"^,", text, re.MULTILINE)
    assert "punctuation receives 20% of rollout" in text
    assert re.search(r"rollout +key  to ", without_colours(shown(coloured(one, content_only=True))))


def test_rich_shows_an_explanation_by_itself():
    assert shown(explanation("key")) == shown(coloured(explanation("key")))


def test_layers_are_rows_with_the_last_on_top():
    text = without_colours(shown(coloured_layers(explanation("key", "to", layers=3))))
    assert re.findall(r"layer (\d)   key  to ", text) == ["3", "2", "1"]


def test_special_tokens_are_told_apart():
    assert "special tokens receive 50% of rollout" in plain(explanation("key", "to"))
    assert "[CLS]" not in plain(explanation("key")).splitlines()[2]


def test_ties_are_told():
    assert "67% of the positions tie in rollout" in plain(explanation("key", "to"))
    assert "tie" not in plain(explanation("key", "to", scores=[0.3, 0.2]))


STEERING = ["\x1b[31mred", "\x9b31m", "\rover", "\u202eback", "\x07"]


@pytest.mark.parametrize("token", STEERING)
def test_a_token_cannot_steer_the_terminal(token):
    steering = {one for one in token if not one.isprintable()}
    one = explanation(token, "key")
    for view in (plain(one), plain_layers(one)):
        assert not steering & set(view)
    for view in (coloured(one), coloured_layers(one)):
        assert not steering & set(without_colours(shown(view)))


@pytest.mark.parametrize("token", STEERING)
def test_neither_can_the_explained_token(token):
    explained = dataclasses.replace(explanation("key", token), position=2)
    steering = {one for one in token if not one.isprintable()}
    assert not steering & set(plain(explained))
    assert not steering & set(without_colours(shown(coloured(explained))))


def test_markup_in_a_token_is_text():
    assert "[bold]x[/bold]" in shown(coloured(explanation("[bold]x[/bold]")))


@pytest.mark.parametrize("wide", ["我", "👩\u200d👩\u200d👧", "⚠\ufe0f"])
def test_wide_characters_keep_the_columns_straight(wide):
    first, second = plain(explanation(wide, "key")).splitlines()[2:4]
    assert cell_len(first[: first.index("0.250")]) == cell_len(second[: second.index("0.250")])


WORDS = ["the", "我", "cabinets", "שלום", "👩\u200d👩\u200d👧", "x" * 200, "of", "é"] * 5


@pytest.mark.parametrize("width", [12, 20, 40, 79, 200])
@pytest.mark.parametrize("view", [coloured, coloured_layers])
def test_no_line_is_wider_than_the_terminal(view, width):
    text = without_colours(shown(view(explanation(*WORDS, layers=2)), width))
    assert max(map(cell_len, text.splitlines())) <= width


def test_every_word_is_shown_however_narrow():
    text = without_colours(shown(coloured(explanation(*(f"word{number}" for number in range(50)))), 30))
    assert re.findall(r"word\d+", text.split("position  word")[0]) == [f"word{number}" for number in range(50)]


def test_a_word_that_is_too_wide_is_cut_with_an_ellipsis():
    assert "xx… " in without_colours(shown(coloured(explanation("x" * 200, "of")), 40))


def test_a_word_from_right_to_left_does_not_reorder_its_neighbours():
    assert "\u2068שלום\u2069" in shown(coloured(explanation("key", "שלום")))


def test_a_long_text_is_shortened_and_says_so():
    text = without_colours(shown(coloured(explanation(*["of"] * (MOST_WORDS + 60)))))
    assert f"the strongest {MOST_WORDS} of {MOST_WORDS + 60} words" in text


def test_a_text_without_words_is_no_crash():
    whole = explanation("[SEP]")
    special = tuple(dataclasses.replace(one, word=None) for one in whole.positions)
    empty = dataclasses.replace(whole, positions=special, words=())
    assert "as seen from [CLS]" in plain(empty)
    assert "as seen from [CLS]" in shown(coloured(empty))
    assert "as seen from [CLS]" in shown(coloured_layers(empty))


def test_nothing_of_relevance_is_drawn_without_a_bar():
    assert "█" not in plain(explanation("key", scores=[0.0]))
    assert "━" not in shown(coloured(explanation("key", scores=[0.0])))


def test_plain_layers_wrap_to_the_width():
    one = explanation("key", "to", scores=[0.4, 0.1], layers=5)
    assert plain_layers(one).splitlines()[3:] == [
        "layer      1      2      3      4      5",
        "key    0.025  0.050  0.100  0.200  0.400",
        "to     0.006  0.012  0.025  0.050  0.100",
    ]
    narrow = plain_layers(one, width=26).splitlines()[3:]
    assert max(map(len, narrow)) <= 26
    assert narrow[4:] == ["layer      4      5", "key    0.200  0.400", "to     0.050  0.100"]


@pytest.mark.parametrize(
    ("environment", "options"),
    [
        ({"NO_COLOR": "1", "TERM": "xterm-256color"}, {"force_terminal": True}),
        ({"TERM": "dumb"}, {"force_terminal": True}),
        ({"TERM": "xterm"}, {}),
    ],
)
def test_without_colours_the_text_is_plain(environment, options, tmp_path):
    with (tmp_path / "out").open("w+") as file:
        show(explanation("key"), Console(_environ=environment, width=60, file=file, **options))
        file.seek(0)
        assert file.read() == plain(explanation("key")) + "\n"


def in_a_terminal(children, columns, **environment):
    """What `attnx explain` writes to a terminal of its own."""
    pty, termios = pytest.importorskip("pty", reason="POSIX terminals"), pytest.importorskip("termios")
    main, terminal = pty.openpty()
    termios.tcsetwinsize(terminal, (40, columns))
    unset = {"NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES", "TERM", "COLORTERM", "CI"}
    inherited = {name: value for name, value in os.environ.items() if name not in unset}
    command = attnx_command("explain", "the key to the cabinets")
    process = children.start(command, stdout=terminal, env=inherited | environment)
    os.close(terminal)
    written = b""
    try:
        while chunk := os.read(main, 4096):
            written += chunk
    except OSError:  # the terminal's other end was closed
        pass
    os.close(main)
    assert process.wait() == 0
    return written.decode().replace("\r\n", "\n")


@pytest.mark.slow
def test_a_real_terminal_gets_colours_in_its_width(children):
    text = in_a_terminal(children, 24, TERM="xterm-256color", COLORTERM="truecolor")
    assert "48;2;190;72;0m cabinets " in text
    assert max(map(cell_len, without_colours(text).splitlines())) <= 24


@pytest.mark.slow
def test_a_real_terminal_without_colours_gets_plain_text(children):
    text = in_a_terminal(children, 80, TERM="xterm-256color", NO_COLOR="1")
    assert "\x1b" not in text
    assert "\ncabinets  0." in text
