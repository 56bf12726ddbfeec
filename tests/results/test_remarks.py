"""Each remark appears where it holds, and only there; the weightiest make the verdict."""

import numpy as np
import pytest

from attnx.adapters import Position, Span, group_words
from attnx.evaluation import Comparison
from attnx.results import Explanation, options
from attnx.results.warnings import REMARKS
from attnx.targets import Prediction
from attnx.views.page.content import correlation
from tests.made import explanation as made_explanation
from tests.made import with_scores

SPREAD = (0.05, 0.4, 0.1, 0.2, 0.15, 0.1)
WORDS = ("the", "story", "is", "a", "mess", ".")


def made(scores=SPREAD, words=WORDS, *, special=True, **facts):
    """A classifier's explanation by rollout at layer 2, with known scores; [CLS] has none."""
    named = [Position(0, "[CLS]", special=True)] if special else []
    named += [Position(index, word) for index, word in enumerate(words, start=len(named))]
    positions, grouped = group_words(named, None)
    row = np.array([*([0.0] if special else []), *scores])
    answer = Prediction("class", "NEGATIVE", 0, 0.9, ("NEGATIVE", "POSITIVE"), (2.0, -2.0))
    return made_explanation(
        positions, grouped, 0, (1, 2), {"rollout": np.stack([row, row])}, **{"prediction": answer, **facts}
    )


def measured(*rows, signed=(), **facts):
    names = ("blankout", "gradient", "lrp")
    references = {name: np.array([0.0, *row]) for name, row in zip(names, rows, strict=False)}
    return made(references=references, signed=frozenset(signed), target_specific=frozenset(references), **facts)


def read(**facts):
    return made(provenance={"input": facts})


def told(**facts):
    """The value path's row, with what it tells of its score."""
    row = {"references": {"lrp": np.array([0.0, *SPREAD])}, "first": "lrp"}
    return made(**row, signed=frozenset({"lrp"}), diagnostics={"lrp": facts})


def said(explanation, *which):
    return {one.name: one.sentence for one in explanation.remarks(*which)}


DECODER = {"special": False, "causal": True, "words": WORDS[:4]}
CASES = {
    "compared": (measured(SPREAD), made()),
    "unchecked": (made(), measured(SPREAD)),
    "no mask": (read(mask=False), made()),
    "pooled": (read(pooling="mean"), read(pooling="mean", averaged=True)),
    "first word": (made((0.7, 0.1, 0.1, 0.1), **DECODER), made((0.1, 0.7, 0.1, 0.1), **DECODER)),
    "biases": (told(value=1.2, biases=2.4), told(value=1.2, biases=0.1)),
    "cut": (read(cut=[4, 9]), made()),
    "uniform": (made((0.16, 0.17, 0.15, 0.17, 0.18, 0.17)), made()),
    "tied": (made((0.2, 0.2, 0.2, 0.3, 0.3, 0.1)), made((0.2, 0.2, 0.21, 0.3, 0.31, 0.1))),
    "saturated": (
        made(diagnostics={"rollout": {"saturation": (0.1, 0.8)}}),
        made(diagnostics={"rollout": {"saturation": (0.8, 0.1)}}),
    ),
    "unknown": (read(unknown=["zyzzyva"]), read(unknown=[])),
    "sink patches": (read(sinks=[{"patch": "r2c4", "layer": 2, "share": 0.4, "times": 15.0}]), read(sinks=[])),
    "first token": (read(prepend_token="<s>"), made()),
    "special tokens": (
        with_scores(made(), relevance={"rollout": np.array([[0.9, *SPREAD]] * 2) / 1.9 + [0.3, *[0.0] * 6]}),
        made(),
    ),
    "without the answer": (made(), made(target_specific=frozenset({"rollout"}))),
    "one layer": (made(local=frozenset({"rollout"})), made()),
    "punctuation": (made(), made(words=(*WORDS[:5], "now"))),
    "some special tokens": (
        with_scores(made(), relevance={"rollout": np.array([[0.1, *SPREAD]] * 2)}),
        made(),
    ),
    "some ties": (made(), made((0.05, 0.4, 0.1, 0.2, 0.15, 0.11))),
}


def test_every_remark_has_its_case():
    assert set(CASES) == {one.name for one in REMARKS}
    weights = [one.weight for one in REMARKS]
    assert weights == sorted(weights, reverse=True)


@pytest.mark.parametrize("name", CASES)
def test_it_appears_where_it_holds_and_only_there(name):
    holding, other = CASES[name]
    assert name in said(holding)
    assert name not in said(other)


def test_the_sentences_have_the_numbers():
    assert said(CASES["first word"][0])["first word"] == (
        "'the' stands first and holds 70%, as any first token of a decoder may"
    )
    assert said(CASES["uniform"][0])["uniform"] == "nearly uniform: the strongest position has 1.08 times the mean"
    assert said(read(cut=[4, 9]))["cut"] == "the model read 4 of 9 tokens"
    assert said(read(unknown=["zyzzyva"]))["unknown"] == "not in the vocabulary: 'zyzzyva'"
    assert said(made())["punctuation"] == "punctuation holds 10%"
    assert said(CASES["biases"][0])["biases"] == (
        "biases, which belong to no word, have +2.4 of the score +1.2, positions -1.2"
    )


def test_what_speaks_for_and_against_is_not_uniform():
    assert "uniform" not in said(measured((0.2, -0.2, 0.2, -0.21, 0.2, 0.2), signed=["blankout"]), "blankout")


def test_a_special_first_token_is_no_word():
    begun = with_scores(made(causal=True), relevance={"rollout": np.array([[0.9, *[0.02] * 6]] * 2)})
    assert "first word" not in said(begun)


def test_saturation_is_that_of_the_layer():
    one = CASES["saturated"][0]
    assert "saturated" in said(one, "rollout", 2)
    assert "saturated" not in said(one, "rollout", 1)


REVERSED = (6.0, 1.0, 4.0, 2.0, 3.0, 5.0)


def test_a_verdict_has_the_number_and_how_it_was_computed_and_no_judgement():
    """Also where the strongest word is the same, or another."""
    assert said(measured(SPREAD, REVERSED))["compared"] == (
        "Spearman's rank correlation over 6 tokens: blankout 1.00 (by size), gradient −0.99 (by size)"
    )
    for one in (measured(SPREAD), measured(REVERSED)):
        assert not {"agrees", "differs", "checked"} & set(one.verdict.replace(",", " ").replace(":", " ").split())
        assert [remark.level for remark in one.remarks() if remark.name == "compared"] == ["open"]


@pytest.mark.parametrize("signed", [(), ("blankout",), ("blankout", "lrp")])
def test_the_number_is_that_of_the_comparison_and_of_the_page(signed):
    negative = (0.1, -0.9, 0.1, 0.2, 0.3, 0.0)
    one = measured(negative, SPREAD, signed=signed)
    one = with_scores(one, references={"blankout": one["blankout"], "lrp": one["gradient"]}, signed=signed)
    both = len(signed) == 2
    (agreement,) = one.row("lrp").agreements
    assert agreement.ranks == Comparison.of([one]).ceiling["blankout"]["lrp"][0]
    assert agreement.ranks == pytest.approx(-0.0735 if both else 0.8088, abs=1e-4)
    assert f"blankout {'−0.07 (signed)' if both else '0.81 (by size)'}" in said(one, "lrp")["compared"]
    (of_method, _) = one.row().agreements
    assert of_method.ranks == Comparison.of([one]).layer_values("rollout", "blankout")[0, -1]
    assert of_method.ranks == pytest.approx(correlation(one, "rollout", "blankout", 2))


def test_what_was_shared_out_over_spans_is_compared_over_spans():
    """Tokens of one span have one score, which is no order of theirs."""
    named = [("one", (1, 2)), ("two", (3, 4)), ("three", (5, 6))]
    spans = tuple(Span(name, positions) for name, positions in named)
    facts = {"spans": spans, "provenance": {"methods": {"blankout": {"unit": "span"}}}}
    shared = measured((0.1, 0.1, 0.2, 0.2, 0.3, 0.3), scores=(0.3, 0.0, 0.0, 0.4, 0.5, 0.0), **facts)
    assert said(shared)["compared"] == "Spearman's rank correlation over 3 spans: blankout 1.00 (by size)"
    assert Comparison.of([shared]).layer_values("rollout", "blankout")[0, -1] == pytest.approx(1)
    assert correlation(shared, "rollout", "blankout", 2) == pytest.approx(1)


def test_what_is_flat_is_never_called_unobjectionable():
    flat = CASES["uniform"][0]
    assert "nearly uniform" in flat.verdict
    assert "speaks against" not in flat.verdict


def test_where_nothing_was_measured_it_offers_a_measurement_and_no_method():
    assert said(made())["unchecked"] == "unchecked: nothing was measured on the model"
    alone = with_scores(measured(SPREAD), first="blankout")
    assert said(alone)["unchecked"] == "measured by blankout alone"
    assert alone.verdict.endswith(
        'measured by blankout alone (methods=["blankout", "rollout", "lrp"] adds a measurement on the model)'
    )
    assert options(alone.remarks()) == [
        "--method blankout --method rollout --method lrp adds a measurement on the model"
    ]
    assert "no head" in said(made(prediction=None))["unchecked"]


def test_the_verdict_says_what_was_explained_from_where_and_whether_it_was_checked():
    assert made().verdict == (
        "NEGATIVE (0.900) from [CLS] by rollout at layer 2: unchecked: nothing was measured on the model "
        '(methods=["rollout", "blankout"] adds a measurement on the model)'
    )
    assert made(prediction=None).verdict.startswith("what reaches [CLS] by rollout at layer 2: unchecked")
    assert read(mask=False, cut=[4, 9], unknown=["x"]).verdict.count(";") == 2  # three remarks, no more


def test_a_verdict_steers_no_terminal():
    one = made(words=("\x1b[31mred", "\u202eback", *WORDS[2:]), scores=(0.9, 0.02, 0.02, 0.02, 0.02, 0.02))
    held = with_scores(one, references={"blankout": np.array([0, 1.0, 0, 0, 0, 0, 0])})
    assert held.verdict.isprintable()


def test_json_has_it():
    told = made().to_dict()
    assert told["verdict"] == made().verdict
    assert told["remarks"][0]["name"] == "unchecked"
    assert Explanation.from_json(made().to_json()) == made()


def test_small_numbers_are_ranked_as_large_ones_are():
    """A gradient may be of any size; that it is small makes no tie."""
    small = measured(tuple(1e-11 * score for score in SPREAD))
    (agreement,) = small.row().agreements
    assert agreement.ranks == pytest.approx(1)
    assert [one.text for one in small.top(2, "blankout")] == ["story", "a"]


def test_what_differs_by_rounding_alone_ties_for_the_verdict_and_for_the_comparison():
    exact = (0.4, 0.4, 0.1, 0.1, 0.3, 0.2)
    nearly = tuple(score + 1e-13 * place for place, score in enumerate(exact))
    ranks = measured(exact, scores=exact).row().agreements[0].ranks
    for one in (measured(nearly, scores=exact), measured(exact, scores=nearly)):
        assert one.row().agreements[0].ranks == pytest.approx(ranks)
        assert Comparison.of([one]).layer_values("rollout", "blankout")[0, -1] == pytest.approx(ranks)
