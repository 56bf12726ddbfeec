"""References as rows: options, costs and plug-ins, with nothing read off a signature."""

import re
from inspect import Parameter, signature

import numpy as np
import pytest

import attnx
from attnx.attribution import REFERENCES, Scored, asked_references, cheap_references, listed_references
from attnx.attribution.base import Reference
from attnx.errors import ArgumentError, ChoiceError, RegistryError
from tests import verb_number_zoo as zoo


def ones(model, processor, cases, *, times=1.0, progress=False):
    return [Scored(times * np.ones(len(case.prepared.positions))) for case in cases]


@pytest.fixture
def added():
    row = Reference("ones", ones, title="all ones", paper="here", costs="nothing", options=("times",))
    REFERENCES.add(row.name, row)
    yield row
    REFERENCES.remove(row.name)


@pytest.mark.parametrize("name", REFERENCES.names())
def test_a_row_names_all_options_of_its_function(name):
    row = REFERENCES[name]
    chosen = [one for one, what in signature(row.function).parameters.items() if what.kind is Parameter.KEYWORD_ONLY]
    assert set(row.options) == {*chosen} - {"progress"}
    assert row.name == name


@pytest.mark.parametrize("name", REFERENCES.names())
def test_a_row_says_whether_its_scores_have_a_sign_and_what_they_cost(name):
    explanation = attnx.explain(zoo.model(), zoo.tokenizer(), "keys to the", methods="raw", references=name)
    assert explanation.attributions[name].signed == REFERENCES[name].signed
    assert REFERENCES[name].forwards(20) > 1
    assert REFERENCES[name].paper


def test_costs_follow_length_and_options():
    assert REFERENCES["blankout"].forwards(20) == 21
    steps = REFERENCES["integrated_gradients"].forwards
    assert steps(20, steps=64) - steps(20, steps=32) == 64
    assert cheap_references(("gradient", "blankout"), 10, 11) == ("gradient", "blankout")
    assert cheap_references(("gradient", "blankout"), 11, 11) == ("gradient",)


def test_a_plug_in_has_the_rights_of_a_built_in(added):
    explanation = attnx.explain(zoo.model(), zoo.tokenizer(), "keys", references={"ones": {"times": 3.0}})
    assert set(explanation["ones"]) == {3.0}
    (line,) = (one for one in listed_references() if one.name == "ones")
    assert (line.says, line.costs, line.needs) == ("all ones (here)", "nothing", ("a head that answers",))
    with pytest.raises(ChoiceError, match="option of ones 'time' is not known; there are: times; did you mean 'times'"):
        attnx.explain(zoo.model(), zoo.tokenizer(), "keys", references={"ones": {"time": 3.0}})
    assert cheap_references(("ones",), 10, 1) == ("ones",)


def test_a_bare_function_is_refused_with_the_line_that_wraps_it():
    with pytest.raises(RegistryError, match=r"wrap a function as Reference\('ones', function\)"):
        REFERENCES.add("ones", ones)
    assert "ones" not in REFERENCES


def test_a_row_goes_by_its_own_name():
    with pytest.raises(RegistryError, match="reference 'one' has the name 'ones'; add it under that name"):
        REFERENCES.add("one", Reference("ones", ones))


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"integrated_gradients": {"steps": "many"}}, "steps must be a whole number, found 'many'"),
        ({"gradient_shap": {"samples": 1.5}}, "samples must be a whole number, found 1.5"),
        ({"blankout": {"baseline": ["[MASK]"]}}, "baseline must be a token or its id"),
    ],
)
def test_an_option_of_another_kind_is_refused_before_the_model_runs(asked, message):
    with pytest.raises(ArgumentError, match=re.escape(message)):
        asked_references(asked)
