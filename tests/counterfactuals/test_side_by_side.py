"""Words stand side by side by their characters, however each tokenizer cuts them."""

from dataclasses import replace

import numpy as np
import pytest

import attnx
from attnx.errors import ChoiceError, InputError
from attnx.results import Change, aligned
from tests import zoo
from tests.made import with_scores
from tests.results import examples

TEXT = "the key to the cabinets, unaffordable!"


def explained(text=TEXT, tokenizer=None, **options):
    model, chosen = {
        None: (zoo.classifier(), zoo.wordpiece_tokenizer()),
        "bytes": (zoo.causal_lm(), zoo.bytelevel_tokenizer()),
    }[tokenizer]
    return attnx.explain(model, chosen, text, **{"methods": ["raw", "rollout"], **options})


def words(shown):
    return [shown.words(row) for row in range(len(shown.rows))]


def test_two_models_on_one_text_are_aligned_by_characters():
    one, two = explained(), explained(tokenizer="bytes")
    assert len(one.tokens) != len(two.tokens)
    both = attnx.side_by_side([one, two], ["encoder", "decoder"])
    assert words(both) == [(word.text, word.text) for word in one.words]
    expected = [[a.score, b.score] for a, b in zip(one.by_word("raw"), two.by_word("raw"), strict=True)]
    np.testing.assert_allclose(both.scores("raw"), expected)
    np.testing.assert_allclose(both.changed("raw"), np.diff(expected)[:, 0])


def test_words_that_one_model_joins_are_one_row():
    one = explained("the key to it")
    joined = replace(
        one,
        positions=tuple(replace(at, word=at.word and at.word - 1) for at in one.positions),
        words=(replace(one.words[0], positions=(1, 2), text="the key"), *(
            replace(word, index=word.index - 1) for word in one.words[2:]
        )),
    )  # fmt: skip
    both = attnx.side_by_side([one, joined], ["one", "two"])
    assert words(both) == [("the key", "the key"), ("to", "to"), ("it", "it")]
    assert both.scores("raw")[0, 0] == pytest.approx(both.scores("raw")[0, 1])


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        ("the dull key", [("the", "the"), ("", "dull"), ("key", "key")]),
        ("key", [("the", ""), ("key", "key")]),
        ("the movie", [("the", "the"), ("key", "movie")]),
    ],
)
def test_texts_that_differ_are_compared_word_by_word(other, expected):
    assert words(attnx.side_by_side([explained("the key"), explained(other)])) == expected


def test_a_known_change_says_what_became_of_a_word_where_comparing_would_guess():
    before, after = explained("bad good"), explained("good good")
    assert aligned([before, after], (Change(0, 3, "good"),)) == (((0,), (0,)), ((1,), (1,)))


def test_three_can_stand_side_by_side():
    both = attnx.side_by_side([explained("the key"), explained("the dull key"), explained("the dull film")])
    assert words(both) == [("the", "the", "the"), ("", "dull", ""), ("key", "key", "dull film")]


def test_pairs_of_texts_keep_their_words_apart():
    one = explained(("the key", "the table"))
    assert words(attnx.side_by_side([one, one])) == [("the", "the"), ("key", "key"), ("the", "the"), ("table", "table")]


def test_only_what_all_have_is_shown_and_the_first_stays_first():
    one = explained(methods=["raw", "rollout"], references=["gradient"])
    both = attnx.side_by_side(
        [with_scores(one, first="gradient"), explained(methods=["rollout"], references=["gradient"])]
    )
    assert both.names == ("gradient", "rollout")
    with pytest.raises(ChoiceError, match="'raw' is not known; there are: gradient, rollout"):
        both.scores("raw")


def test_what_cannot_stand_side_by_side_is_told():
    for wrong in ([], [explained()], "text", [explained(), 3]):
        with pytest.raises(InputError, match="two or more"):
            attnx.side_by_side(wrong)
    with pytest.raises(InputError, match="share no method"):
        attnx.side_by_side([explained(methods="raw"), explained(methods="flow")])
    with pytest.raises(InputError, match="images have patches"):
        attnx.side_by_side([replace(explained(), image_size=(8, 8))] * 2)


def test_titles_tell_them_apart():
    one = explained()
    named = [replace(one, provenance={**one.provenance, "model": name}) for name in ("here/bert", "there/roberta/")]
    assert attnx.side_by_side(named).titles == ("bert", "roberta")
    assert attnx.side_by_side([one, explained("the key")]).titles == ("the key to the cabinets, un…", "the key")
    assert len(set(attnx.side_by_side([one, one]).titles)) == 2


def test_a_word_that_is_not_there_has_no_score():
    shown = examples.side_by_side()
    assert np.isnan(shown.scores("raw")[1, 0])
    assert np.isnan(shown.changed("raw")[1])
    assert "–" in shown.to_text()


def test_different_answers_are_not_compared_without_a_word():
    one = examples.explanation()
    other = replace(one, prediction=replace(one.prediction, label="bad", index=0, probability=0.25))
    told = attnx.side_by_side([one, other]).to_markdown()
    assert "The targets differ (good, bad)" in told
    models = [replace(one, provenance={"model": name}) for name in "ab"]
    assert "has its own scale" in attnx.side_by_side(models).to_markdown()


def test_another_value_of_a_regression_is_no_other_answer():
    one = examples.explanation()
    values = [replace(one.prediction, kind="value", label=f"good = {value}", probability=None) for value in (0.6, 0.7)]
    told = attnx.side_by_side([replace(one, prediction=value) for value in values]).to_markdown()
    assert "targets differ" not in told
    assert "gradient, for good**" in told


def test_what_is_shown_first_is_kept_in_files(tmp_path):
    one = with_scores(examples.explanation(), first="gradient")
    one.save(tmp_path / "x.safetensors")
    assert attnx.Explanation.load(tmp_path / "x.safetensors") == one
