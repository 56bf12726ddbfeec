"""Rates over many sentences: ties are left out and counted, and chance stands beside them."""

import json

import numpy as np
import pytest

from attnx.errors import InputError
from attnx.pronouns.report import BASELINES, PronounReport
from attnx.pronouns.result import Candidate, Probe


def drawn(*most, mask=9, positions=((1,), (5,)), probabilities=None, implies=None):
    """A probe of one method whose layers draw from a, from b, or from both alike."""
    rows = {"a": [1.0, 0.5], "b": [0.5, 1.0], "-": [1.0, 1.0]}
    return Probe(
        text="",
        mask=mask,
        candidates=tuple(Candidate(name, places) for name, places in zip("ab", positions, strict=True)),
        probabilities=probabilities or {"he": 0.6, "she": 0.2},
        layers=tuple(range(1, len(most) + 1)),
        relevance={"flow": np.array([rows[one] for one in most])},
        implies={"he": "a", "she": "b"} if implies is None else implies,
    )


def test_rates_leave_ties_out_and_count_them():
    probes = [drawn("a", "-"), drawn("b", "-"), drawn("a", "b"), drawn("a", "a")]
    report = PronounReport.of(["a", "a", "a", None], probes, source="a test")
    first, second = report.by_layer("flow", "right")
    assert (first.mean, first.count, first.undefined) == (pytest.approx(2 / 3), 3, 0)
    assert (second.mean, second.count, second.undefined) == (0.0, 1, 2)


def test_baselines_are_chance_the_nearest_the_longest_and_the_commonest_pronouns():
    probes = [
        drawn("a"),  # b is nearer, and "he" is predicted, which speaks for a
        drawn("a", positions=((1, 2), (3,)), probabilities={"he": 0.1, "she": 0.2}),
        drawn("a", mask=3, positions=((1,), (5, 6)), probabilities={"he": 0.3, "she": 0.2}),
    ]
    report = PronounReport.of(["b", "b", "b"], probes, source="a test")
    assert report.cell("chance").mean == 0.5
    nearest, longest, commonest = (report.cell(name) for name in BASELINES)
    assert (nearest.mean, nearest.undefined) == (1.0, 1)
    assert (longest.mean, longest.undefined) == (0.5, 1)
    assert commonest.mean == 0.0


def test_a_report_says_what_does_not_apply_and_draws_what_does():
    probes = [drawn("a", "-", implies={})] * 3
    report = PronounReport.of(["a"] * 3, probes, source="a test")
    text = report.to_text()
    assert "the right referent (3 sentences)" in text
    assert "implies (0 sentences, 3 left out)\n\nDoes not apply" in text
    assert ["2", "–", "3"] in [line.split() for line in text.splitlines()]
    assert "| 1 | 100.0% (100.0 to 100.0) | 0 |" in report.to_markdown()
    assert json.loads(report.to_json())["values"]["flow"][0] == [1, None, None, None]
    assert PronounReport.from_json(report.to_json()) == report
    shares, ties = report.plot().axes
    assert "the right referent" in shares.get_title()
    assert [bar.get_height() for bar in ties.patches] == [0, 100]
    decided = PronounReport.of(["a"] * 3, [drawn("a", "b")] * 3, source="a test")
    assert len(decided.plot().axes) == 2  # both questions, and no ties beneath
    nothing = PronounReport.of([None] * 3, probes, source="a test")
    with pytest.raises(InputError, match="nothing to draw"):
        nothing.plot()


def test_the_prediction_itself_is_compared_with_the_answer():
    report = PronounReport.of(["a", "b", None], [drawn("a")] * 3, source="a test")
    assert (report.prediction.mean, report.prediction.undefined) == (0.5, 1)
    assert "The prediction implies the right referent in 50.0%" in report.to_text()
