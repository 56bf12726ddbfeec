"""Blanks to first order: what is measured at both ends of the way, additive between them, named for what it is."""

import numpy as np
import pytest

import attnx
from attnx.adapters import adapter_for
from attnx.attribution import Perturbation, cases, choose_baseline, estimate, measure
from attnx.attribution.variants import FIRST_ORDER
from attnx.errors import ChoiceError
from tests import verb_number_zoo

TEXT = "the key to the cabinets"


@pytest.fixture(scope="module")
def asked():
    model, tokenizer = verb_number_zoo.model(), verb_number_zoo.tokenizer()
    prepared = adapter_for(model).prepare(model, tokenizer, TEXT)
    (case,) = cases(model, tokenizer, [prepared])
    return model, tokenizer, case


def test_at_both_ends_of_the_way_it_is_what_is_measured(asked):
    model, tokenizer, case = asked
    baseline = choose_baseline(model, adapter_for(model), tokenizer, case.prepared)
    variants = [
        Perturbation(0),
        Perturbation(0, tuple(case.content)),
        *(Perturbation(0, (place,)) for place in case.content),
    ]
    run, told = (
        each(model, tokenizer, [case], variants, kind="logit", baseline=baseline) for each in (measure, estimate)
    )
    assert told[0] == pytest.approx(run[0], abs=1e-5)
    assert told[1] == pytest.approx(run[1], abs=0.15 * abs(run[0] - run[1]))
    assert (told[0] - told[2:]).sum() == pytest.approx(told[0] - told[1])  # each position by itself


def test_results_and_views_say_that_it_is_an_estimate():
    model, tokenizer = attnx.load_demo()
    e = attnx.explain(model, tokenizer, TEXT, methods="rollout", references={"blankout": {"exact": False}})
    assert e.attributions["blankout"].diagnostics["estimate"] == FIRST_ORDER
    assert any(FIRST_ORDER in note for note in e.notes)
    assert FIRST_ORDER in e.to_text()
    assert FIRST_ORDER in e.to_html()
    assert e["blankout"].any()
    exact = attnx.explain(model, tokenizer, TEXT, methods="rollout", references="blankout")
    assert "estimate" not in exact.attributions["blankout"].diagnostics
    assert not any(FIRST_ORDER in note for note in exact.notes)


def test_faithfulness_can_be_estimated_and_says_so():
    model, tokenizer = attnx.load_demo()
    few = {"methods": "rollout", "references": "lrp", "score": "logit", "progress": False}
    texts = [TEXT, "the keys to the cabinet"]
    told, run = (attnx.faithfulness(model, tokenizer, texts, exact=exact, **few) for exact in (False, True))
    assert FIRST_ORDER in told.to_text()
    assert FIRST_ORDER not in run.to_text()
    assert told.values["rollout"].shape == run.values["rollout"].shape
    assert not np.allclose(told.values["rollout"], run.values["rollout"])


def test_what_has_no_slope_is_refused():
    model, tokenizer = attnx.load_demo()
    with pytest.raises(ChoiceError, match="deletion has no gradient"):
        attnx.explain(model, tokenizer, TEXT, references={"blankout": {"exact": False, "baseline": "delete"}})
