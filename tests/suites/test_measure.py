"""`benchmark`: which suites are run on what, what is said of bad input, and what refuses."""

from dataclasses import replace

import numpy as np
import pytest

import attnx
from attnx.adapters import adapter_for
from attnx.attribution import REFERENCES, Scored
from attnx.attribution.base import Reference
from attnx.benchmarks import SUITES
from attnx.benchmarks.benchmark import Explainers, Suite, scores_of
from attnx.benchmarks.result import SuiteTable
from attnx.errors import ArgumentError, ChoiceError, InputError
from attnx.pipeline import Request
from tests import verb_number_zoo, zoo


@pytest.fixture(scope="module")
def few():
    return attnx.benchmark(methods=["raw", "rollout"], rows=3, progress=False)


def test_without_a_model_the_embedded_suites_are_run_but_those_by_name(few):
    embedded = [name for name in SUITES.names() if SUITES[name].embedded is not None]
    assert tuple(few.suites) == tuple(name for name in embedded if not SUITES[name].by_name)
    assert few.methods == tuple(sorted(["raw", "rollout"], key=few.methods.index))
    assert {name: suite.count for name, suite in few.suites.items()} == dict.fromkeys(few.suites, 3)


def test_all_methods_and_references_are_measured_or_listed_with_the_reason():
    from attnx.methods import METHODS

    found = attnx.benchmark(suites="recall", rows=2, progress=False)
    assert {*found.suites["recall"].methods, *found.suites["recall"].refused} == {*METHODS.names(), *REFERENCES.names()}


def test_what_refuses_is_listed_with_its_reason_and_the_others_are_measured():
    def refuses(model, processor, cases, *, progress=False):
        raise InputError("this one is not for models of this size\nand more")

    REFERENCES.add("refuses", Reference("refuses", refuses))
    try:
        found = attnx.benchmark(
            suites="recall", methods="raw", references=["refuses", "gradient"], rows=6, progress=False
        )
    finally:
        REFERENCES.remove("refuses")
    assert found.suites["recall"].refused == {"refuses": "this one is not for models of this size"}
    assert set(found.suites["recall"].methods) == {"raw", "gradient"}
    assert "recall: refuses has no numbers: this one is not for models of this size" in str(found)
    with pytest.raises(ChoiceError, match="refuses has no numbers: this one"):
        found.cell("refuses", "recall")


def test_numbers_that_are_not_finite_have_no_rank():
    def broken(model, processor, cases, *, progress=False):
        return [Scored(np.full(len(case.prepared.positions), np.nan)) for case in cases]

    REFERENCES.add("broken", Reference("broken", broken))
    try:
        found = attnx.benchmark(suites="recall", references=["broken", "gradient"], rows=2, progress=False)
    finally:
        REFERENCES.remove("broken")
    assert found.suites["recall"].refused == {"broken": "it gives numbers that are not finite"}


def test_a_method_that_refuses_does_not_take_the_others_with_it(monkeypatch):

    from attnx.errors import CostError
    from attnx.methods import METHODS

    row = METHODS["raw"]

    def refuse(graph, asked):
        raise CostError("not today")

    METHODS.add("lazy", replace(row, name="lazy", relevance=refuse))
    try:
        found = attnx.benchmark(suites="recall", methods=["lazy", "raw"], rows=2, progress=False)
    finally:
        METHODS.remove("lazy")
    assert found.suites["recall"].refused == {"lazy": "not today"}
    assert set(found.suites["recall"].methods) == {"raw"}


def test_the_record_speaks_of_all_that_was_measured():

    from attnx.errors import CostError
    from attnx.methods import METHODS

    def refuse(graph, asked):
        raise CostError("not today")

    METHODS.add("lazy", replace(METHODS["raw"], name="lazy", relevance=refuse))
    try:
        found = attnx.benchmark(
            suites="recall",
            methods=["raw", "lazy", "rollout"],
            references={"blankout": {"unit": "word"}, "gradient": {}},
            rows=2,
            progress=False,
        )
    finally:
        METHODS.remove("lazy")
    kept = found.suites["recall"].provenance
    assert set(kept["settings"]["residual"]) == {"raw", "rollout"}, "asked one by one, they are on record together"
    assert kept["methods"]["blankout"]["unit"] == "word"
    assert kept["methods"]["blankout"]["baseline"]
    assert "before" not in kept["methods"]["blankout"], "a number of one input is not one of the suite"
    assert set(kept["methods"]["gradient"]) >= {"score"}
    assert attnx.BenchmarkTable.from_json(found.to_json()) == found


def test_a_reason_is_that_of_the_method_and_not_of_one_with_a_longer_name():
    model, tokenizer = zoo.masked_lm().base_model, zoo.wordpiece_tokenizer()
    request = Request(adapter_for(model).prepare(model, tokenizer, "the author talked"))
    asked = Explainers(("raw", "alti", "alti_logit"), {})
    found = scores_of(model, tokenizer, [request], asked, label="", progress=False)
    assert set(found.rows) == {"raw", "alti"}
    assert list(found.refused) == ["alti_logit"]
    assert "has no head that predicts, and alti_logit explains an answer; load the model" in found.refused["alti_logit"]


def test_inputs_that_the_model_gets_wrong_are_left_out_and_counted():
    model, tokenizer = verb_number_zoo.model(), verb_number_zoo.tokenizer()
    found = attnx.benchmark(model, tokenizer, suites="subject", methods="raw", rows=10, progress=False)
    assert found.suites["subject"].count == 10
    assert found.suites["subject"].wrong > 0
    assert f"{found.suites['subject'].wrong} left out that the model gets wrong" in str(found)


def test_a_suite_for_decoders_refuses_a_classifier():
    model, tokenizer = verb_number_zoo.model(), verb_number_zoo.tokenizer()
    with pytest.raises(ChoiceError, match="suite 'recall' asks a model …ForCausalLM or …LMHeadModel, found VerbNumber"):
        attnx.benchmark(model, tokenizer, suites="recall", progress=False)


def test_a_model_that_was_not_trained_on_the_task_is_refused():
    with pytest.raises(ChoiceError, match="suite 'recall' asks a model that knows words such as v"):
        attnx.benchmark(zoo.causal_lm(), zoo.bytelevel_tokenizer(), suites="recall", progress=False)
    with pytest.raises(ChoiceError, match="suite 'subject' asks a model that tells singular, plural apart, found"):
        attnx.benchmark(zoo.classifier(), zoo.wordpiece_tokenizer(), suites="subject", progress=False)


def test_where_no_suite_fits_the_message_says_what_each_needs():
    model, tokenizer = verb_number_zoo.model(), verb_number_zoo.tokenizer()
    with pytest.raises(
        InputError, match="no suite fits VerbNumberForSequenceClassification and no data; there are cue"
    ):
        attnx.benchmark(model, tokenizer, progress=False)


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ({"rows": 0}, InputError, "at least 1"),
        ({"seed": -1}, InputError, "whole number from 0"),
        ({"suites": "recal"}, ChoiceError, "did you mean 'recall'"),
        ({"suites": []}, InputError, "no suite asked"),
        ({"suites": "cues"}, InputError, "asks a model of yours"),
        ({"suites": "recall", "data": "x.tsv"}, InputError, "makes its own inputs"),
        ({"data": "x.tsv"}, InputError, "for a model of your own"),
        ({"methods": "rolout"}, ChoiceError, "did you mean 'rollout'"),
        ({"methods": []}, InputError, "nothing to measure"),
        ({"tokenizer": object()}, InputError, "or neither"),
        ({"normalise": "auto"}, ArgumentError, "normalise"),
    ],
)
def test_bad_arguments_are_one_line_before_anything_runs(wrong, error, message):
    with pytest.raises(error, match=message):
        attnx.benchmark(**wrong)


def test_texts_on_any_model_measure_faithfulness():
    model, tokenizer = verb_number_zoo.model(), verb_number_zoo.tokenizer()
    found = attnx.benchmark(
        model, tokenizer, data=list(verb_number_zoo.TEXTS[:3]), methods="raw", references="gradient", progress=False
    )
    assert tuple(found.suites) == ("faithfulness",)
    direct = attnx.faithfulness(
        model, tokenizer, list(verb_number_zoo.TEXTS[:3]), methods="raw", references="gradient", steps=1, progress=False
    )
    for name in ("raw", "gradient"):
        np.testing.assert_array_equal(found.suites["faithfulness"].values[name], direct.values[name][:, :2])
    np.testing.assert_array_equal(found.suites["faithfulness"].values["chance"], direct.values["random"][:, :2])
    assert found.suites["faithfulness"].lower_is_better == ("sufficiency",)


def test_references_alone_can_be_measured_by_faithfulness():
    model, tokenizer = verb_number_zoo.model(), verb_number_zoo.tokenizer()
    texts = list(verb_number_zoo.TEXTS[:2])
    found = attnx.benchmark(model, tokenizer, data=texts, references="gradient", progress=False)
    assert found.methods == ("gradient",)


def test_a_plug_in_adds_a_suite():
    def measure(suite, given, explainers):
        ones = np.ones((given.rows, 1))
        return SuiteTable(values={**dict.fromkeys(explainers.methods, ones), "chance": ones / 2}, columns=("luck",))

    SUITES.add(
        "mine",
        Suite("mine", "mine", "all", "nowhere", measure, embedded=lambda: (None, None), rows=7),
    )
    try:
        found = attnx.benchmark(suites="mine", methods="raw", progress=False)
    finally:
        SUITES.remove("mine")
    assert (found.suites["mine"].count, found.significance("raw", "mine")) == (7, "above chance")


def test_the_model_is_untouched():
    model, tokenizer = SUITES["recall"].embedded()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    attnx.benchmark(model, tokenizer, suites="recall", rows=2, progress=False)
    assert all((before[name] == tensor).all() for name, tensor in model.state_dict().items())
    assert not model.training
    assert all(parameter.requires_grad and parameter.grad is None for parameter in model.parameters())
