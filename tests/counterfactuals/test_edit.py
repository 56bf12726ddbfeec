"""A changed text is explained as the first was, and both stand side by side."""

import numpy as np
import pytest

import attnx
from attnx.counterfactuals.side_by_side import heading, second_text
from attnx.demo_models.dates import load_demo as load_dates
from attnx.errors import ArgumentError, AttnxError, ChoiceError, InputError
from attnx.pipeline import settings_of
from tests import zoo

MODEL, TOKENIZER = zoo.classifier(), zoo.wordpiece_tokenizer()
TEXT = "the movie is witty, and the book is dull."


def explained(text=TEXT, **options):
    return attnx.explain(MODEL, TOKENIZER, text, **options)


def after(changes, text=TEXT, **options):
    return attnx.counterfactual(MODEL, TOKENIZER, explained(text, methods="raw", **options), changes).explanations[1]


def test_it_is_the_explanation_of_the_changed_text_for_the_same_target():
    before = explained(references=["gradient"])
    both = attnx.counterfactual(MODEL, TOKENIZER, before, {3: "gorgeous"})
    expected = explained(
        "the movie is gorgeous, and the book is dull.", references=["gradient"], target=before.prediction.index
    )
    assert both.explanations[0] is before
    np.testing.assert_allclose(both.explanations[1]["rollout"], expected["rollout"], atol=1e-6)
    np.testing.assert_allclose(both.explanations[1]["gradient"], expected["gradient"], atol=1e-6)
    assert both.explanations[1].prediction.index == before.prediction.index
    assert both.words(3) == ("witty", "gorgeous")
    assert both.titles == ("before", "after")


def test_a_pair_stays_a_pair_and_is_told():
    model, tokenizer = zoo.causal_lm(), zoo.bytelevel_tokenizer()
    before = attnx.explain(model, tokenizer, "the key to the", references="gradient", target=(11, 17))
    assert (before.prediction.index, before.prediction.against_index) == (11, 17)
    assert before.prediction.against == tokenizer.decode([17])
    both = attnx.counterfactual(model, tokenizer, before, {"key": "book"})
    changed = attnx.explain(model, tokenizer, "the book to the", references="gradient", target=(11, 17))
    np.testing.assert_allclose(both.explanations[1]["gradient"], changed["gradient"], atol=1e-6)
    told = f"{tokenizer.decode([11]).strip()} against {tokenizer.decode([17]).strip()}"
    assert heading(both, "gradient") == f"gradient, for {told}"


def test_a_pair_and_its_first_alone_are_told_apart():
    alone, pair = (explained(methods="gradient_rollout", target=one) for one in (0, (0, 1)))
    first, second = pair.prediction.labels[:2]
    assert pair.verdict.startswith(f"{first} ({pair.prediction.probability:.3f}) against {second} from ")
    assert str(pair.prediction).endswith(f" against {second}")
    both = attnx.side_by_side([alone, pair], titles=["alone", "pair"])
    assert f"The targets differ ({first}, {first} against {second})" in both.to_text()
    assert heading(both, "gradient_rollout").endswith(f", for {first} and {first} against {second}")
    again = attnx.Explanation.from_dict(pair.to_dict())
    assert again.prediction == pair.prediction


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"witty": "plain bad"}, "the movie is plain bad, and the book is dull."),
        ({3: ""}, "the movie is, and the book is dull."),
        ({1: "", "dull": "witty"}, "the is witty, and the book is witty."),
        ({"the book": "it"}, "the movie is witty, and it is dull."),
        ({0: ""}, "movie is witty, and the book is dull."),
        ({"is witty, and": "&"}, "the movie & the book is dull."),
    ],
)
def test_words_are_replaced_where_they_stand(changes, text):
    assert after(changes).text == text


def test_as_many_words_are_changed_one_by_one():
    both = attnx.counterfactual(MODEL, TOKENIZER, explained(methods="raw"), {"the book is": "the film was"})
    assert both.explanations[1].text == "the movie is witty, and the film was dull."
    assert [both.words(row) for row in (6, 7, 8)] == [("the", "the"), ("book", "film"), ("is", "was")]


def test_line_breaks_stay_side_by_side():
    model, tokenizer = zoo.causal_lm(), zoo.bytelevel_tokenizer()
    before = attnx.explain(model, tokenizer, "the key\n\nto the", methods="raw")
    both = attnx.counterfactual(model, tokenizer, before, {"key": "book"})
    assert [row for row in range(len(both.rows)) if not all(both.rows[row])] == []
    assert "⏎" in both.to_text()


def test_of_a_pair_the_meant_text_is_changed():
    assert after({"book": "film"}, ("the key", "the book")).text == ("the key", "the film")


def test_what_shows_first_stays_first():
    before = explained()
    assert before.methods[0] == "lrp"
    assert attnx.counterfactual(MODEL, TOKENIZER, before, {3: "bad"}).explanations[1].methods == before.methods


@pytest.mark.parametrize(
    "options",
    [
        {"methods": ["rollout"], "layer": 2, "residual": 0.3, "head": "max"},
        {"methods": ["raw", "rollout"], "discard_ratio": 0.2, "all_queries": True},
        {"methods": "rollout", "references": {"integrated_gradients": {"steps": 7}}, "head": "all"},
        {"methods": ["rollout", "alti"], "normalize": "column"},
    ],
)
def test_the_settings_are_those_of_the_first(options):
    before = explained(**options)
    again = explained(**settings_of(before))
    np.testing.assert_allclose(again["rollout"], before["rollout"])
    assert again.provenance == before.provenance
    assert {name: scores.matrices is None for name, scores in again.attributions.items()} == {
        name: scores.matrices is None for name, scores in before.attributions.items()
    }


@pytest.mark.parametrize(("position", "expected"), [(1, 1), (0, None), (-1, -1), (9, 10)])
def test_a_chosen_position_moves_with_the_text(position, expected):
    count = len(explained(methods="raw").positions)
    chosen = position % count
    moved = after({3: "plain bad"}, position=chosen)
    assert moved.position == (0 if expected is None else expected % (count + 1))
    assert moved.tokens[moved.position] == explained(methods="raw").tokens[chosen]


def test_a_decoder_is_explained_from_its_new_last_token():
    model, tokenizer = zoo.causal_lm(), zoo.bytelevel_tokenizer()
    before = attnx.explain(model, tokenizer, "the key to the", methods="raw")
    both = attnx.counterfactual(model, tokenizer, before, {"key": "cabinets"})
    changed = both.explanations[1]
    assert changed.position == len(changed.positions) - 1
    assert changed.provenance["settings"] == before.provenance["settings"]
    assert changed.prediction.index == before.prediction.index
    assert both.words(1) == ("key", "cabinets")


def test_the_mean_of_all_positions_stays_the_mean():
    before = explained(methods="rollout", position="mean")
    changed = attnx.counterfactual(MODEL, TOKENIZER, before, {3: "bad"}).explanations[1]
    expected = explained("the movie is bad, and the book is dull.", methods="rollout", position="mean")
    np.testing.assert_allclose(changed["rollout"], expected["rollout"], atol=1e-6)
    assert changed.explained == before.explained == "the mean of all positions"


@pytest.mark.parametrize("position", [None, 2])
def test_a_first_token_stays_in_front(position):
    model, tokenizer = zoo.causal_lm(), zoo.bytelevel_tokenizer()
    before = attnx.explain(model, tokenizer, "the key to the", methods="raw", prepend_token="begin", position=position)
    changed = attnx.counterfactual(model, tokenizer, before, {3: "a"}).explanations[1]
    assert changed.tokens[0] == before.tokens[0] == before.provenance["input"]["prepend_token"]
    assert changed.position == (len(changed.positions) - 1 if position is None else position)


def test_a_position_that_is_said_is_taken_where_the_explained_word_was_changed():
    before = explained(methods="raw", position=4)
    with pytest.raises(ChoiceError, match="is in or between the changed words"):
        attnx.counterfactual(MODEL, TOKENIZER, before, {3: "dull"})
    assert attnx.counterfactual(MODEL, TOKENIZER, before, {3: "dull"}, position=5).explanations[1].position == 5


def test_what_no_record_keeps_is_asked_for_again():
    chosen = {"gradient": {"embed": MODEL.get_input_embeddings().forward}}
    before = explained(methods="raw", references=chosen)
    with pytest.raises(
        InputError, match=r"gradient was measured with embed=<bound method .*: give it again, references="
    ):
        attnx.counterfactual(MODEL, TOKENIZER, before, {3: "dull"})
    changed = attnx.counterfactual(MODEL, TOKENIZER, before, {3: "dull"}, references=chosen).explanations[1]
    assert "gradient" in changed.methods


def test_a_text_that_was_cut_is_cut_again():
    long = " ".join(["the movie is witty"] * 40)
    before = explained(long, methods="raw", truncate=True)
    assert "cut" in before.provenance["input"]
    changed = attnx.counterfactual(MODEL, TOKENIZER, before, {3: "dull"}).explanations[1]
    assert "cut" in changed.provenance["input"]
    assert changed.words[3].text == "dull"


def test_the_last_words_may_be_taken_away_one_by_one():
    assert after({1: "", 2: ""}, "the old movie").text == "the"
    assert after({0: "", 1: "", 2: "film"}, "the old movie").text == "film"


class TestTwoStreams:
    """Of an encoder–decoder words of the source are changed, and what was written stays; or the other way round."""

    SOURCE, WRITTEN = "on friday the third of march 1998", "1998 03"

    def before(self, **options):
        given = {"target_text": self.WRITTEN, "methods": "rollout", "references": "lrp", **options}
        return attnx.explain(*load_dates(), self.SOURCE, **given)

    def test_the_source_is_changed_and_the_same_token_is_explained(self):
        both = attnx.counterfactual(*load_dates(), self.before(), {"third": "twenty fourth"})
        changed = both.explanations[1]
        source = self.SOURCE.replace("third", "twenty fourth")
        options = {"methods": "rollout", "references": "lrp", "target": "03"}
        expected = attnx.explain(*load_dates(), source, target_text=self.WRITTEN, **options)
        assert (changed.text, changed.prediction.label) == ((source, self.WRITTEN), "03")
        np.testing.assert_allclose(changed.scores("lrp"), expected.scores("lrp"), atol=1e-4)
        assert changed.prediction.probability < 0.01 < 0.99 < both.explanations[0].prediction.probability
        assert both.words(3) == ("third", "twenty fourth")

    def test_what_was_written_is_changed_by_the_number_of_its_word(self):
        before = self.before()
        changed = attnx.counterfactual(*load_dates(), before, {7: "2001"}).explanations[1]
        assert changed.text == (self.SOURCE, "2001 03")
        with pytest.raises(ChoiceError, match="'1998' occurs 2 times in the text, as word 6, 7"):
            attnx.counterfactual(*load_dates(), before, {"1998": "2001"})
        shorter = attnx.counterfactual(*load_dates(), before, {8: "", 7: ""}).explanations[1]
        assert (shorter.text, shorter.explained) == ((self.SOURCE, ""), "<bos>")

    @pytest.mark.parametrize(("position", "explained"), [(8, "<bos>"), (9, "1998")])
    def test_the_explained_position_moves_with_its_token(self, position, explained):
        before = self.before(target_text="1998 03 03", position=position)
        after = attnx.counterfactual(*load_dates(), before, {"march": "the march"}).explanations[1]
        assert (after.position, after.explained) == (position + 1, explained)
        assert after.prediction.label == before.prediction.label

    def test_source_and_output_are_told_apart(self):
        both = attnx.counterfactual(*load_dates(), self.before(), {"march": "may"})
        assert second_text(both) == 7
        lines = both.to_text().splitlines()
        assert lines[lines.index("———") - 1].startswith("1998")
        assert lines[lines.index("———") + 1].startswith("1998")
        assert second_text(attnx.counterfactual(MODEL, TOKENIZER, explained(methods="raw"), {3: "dull"})) is None

    def test_token_ids_of_an_output_have_no_words(self):
        ids = [2, 9]
        with pytest.raises(InputError, match="target_text of token ids"):
            attnx.counterfactual(*load_dates(), self.before(target_text=ids), {"third": "fourth"})


WRONG = [
    ({}, ArgumentError, "a dictionary of words"),
    ({3: 5}, ArgumentError, "replaced by a text, found 5"),
    ({99: "x"}, ChoiceError, "word 99 was requested, but the text has 11: 0 'the', 1 'movie'"),
    ({True: "x"}, ChoiceError, "word True was requested"),
    ({"is": "was"}, ChoiceError, "'is' occurs 2 times in the text, as word 2, 8: name it by its number"),
    ({"cabinet": "x"}, ChoiceError, "'cabinet' is no word of the text"),
    ({3: "a", "is witty": "b"}, ChoiceError, "'is witty' is no word|two changes overlap"),
]


@pytest.mark.parametrize(("changes", "error", "told"), WRONG)
def test_what_cannot_be_changed_is_told(changes, error, told):
    with pytest.raises(error, match=told):
        attnx.counterfactual(MODEL, TOKENIZER, explained(methods="raw"), changes)


def test_another_tokenizer_and_token_ids_are_refused():
    with pytest.raises(InputError, match="read the text differently"):
        attnx.counterfactual(zoo.causal_lm(), zoo.bytelevel_tokenizer(), explained(methods="raw"), {3: "x"})
    with pytest.raises(InputError, match="token ids"):
        attnx.counterfactual(
            MODEL, TOKENIZER, explained(dict(TOKENIZER(TEXT, return_tensors="pt")), methods="raw"), {3: "x"}
        )
    with pytest.raises(AttnxError, match="'layr' is not known"):
        attnx.counterfactual(MODEL, TOKENIZER, explained(methods="raw"), {3: "x"}, layr=3)
