"""Signs are compared where both have one, and every view tells the same number of the same rows."""

import numpy as np
import pytest
from scipy import stats

import attnx
from attnx.adapters import Position, group_words
from attnx.statistics import agree, spearman
from attnx.targets import Prediction
from attnx.views import Shown
from attnx.views.page import explanation as agreement
from attnx.views.page import explanation as trust
from tests.made import explanation as made_explanation

OWN = np.array([0.9, -0.8, 0.1, -0.2, 0.3])
OTHER = np.array([0.7, -0.9, 0.2, -0.3, 0.1])


def made(signed):
    positions, words = group_words([Position(index, word) for index, word in enumerate("abcde")], None)
    return made_explanation(
        positions,
        words,
        0,
        (1,),
        {"signed_one": OWN[None], "rollout": np.abs(OTHER)[None], "raw": np.abs(OWN)[None]},
        references={"blankout": OTHER},
        prediction=Prediction("class", "yes", 0, 0.9, ("yes", "no"), (2.0, -2.0)),
        signed=frozenset(signed),
    )


def told(explanation, method):
    """What the verdict, the comparison and the page say of one method and one reference."""
    shown = Shown.of(explanation)
    return [
        explanation.row(method).agreements[0].ranks,
        attnx.Comparison.of([explanation]).layer_values(method, "blankout")[0, 0],
        agreement.agreement_section(shown)["results"][0]["blankout"][method][0],
    ]


@pytest.mark.parametrize(
    ("method", "signed", "expected"),
    [
        ("signed_one", ("signed_one", "blankout"), stats.spearmanr(OWN, OTHER).statistic),
        ("signed_one", ("signed_one",), stats.spearmanr(abs(OWN), abs(OTHER)).statistic),
        ("rollout", ("signed_one", "blankout"), 1.0),
    ],
)
def test_the_verdict_the_comparison_and_the_page_tell_one_number(method, signed, expected):
    assert told(made(signed), method) == pytest.approx([expected] * 3, abs=1e-4)


def test_two_methods_are_compared_by_size_where_one_has_no_sign():
    between = trust.trust_section(Shown.of(made(("signed_one", "blankout"))))["results"][0]["between"]
    assert {"between": ["signed_one", "raw"], "layers": [1.0]} in between


def test_a_head_of_a_signed_method_is_compared_with_its_sign():
    def atlas(signed):
        positions, words = group_words([Position(index, word) for index, word in enumerate("abcde")], None)
        relevance = {"raw": np.abs(OWN)[None, None], "signed_one": OWN[None, None]}
        one = made_explanation(
            positions, words, 0, (1,), relevance, references={"blankout": OTHER}, signed=frozenset(signed)
        )
        return attnx.HeadAtlas.of([one]).values["blankout"][0, 0]

    assert atlas(("signed_one", "blankout")) == pytest.approx(stats.spearmanr(OWN, OTHER).statistic)
    assert atlas(()) == pytest.approx(stats.spearmanr(abs(OWN), abs(OTHER)).statistic)


def test_any_measure_may_be_taken():
    assert agree(lambda own, other: own - other, OWN, OWN, both_signed=True).tolist() == [0.0] * 5
    assert agree(spearman, OWN, -OWN, both_signed=False) == pytest.approx(1)
