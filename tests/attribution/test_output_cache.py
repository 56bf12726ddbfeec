"""What was run for one question is read for another, and is forgotten when the call is over."""

import numpy as np
import pytest

import attnx
from attnx.adapters import adapter_for
from attnx.attribution import Perturbation, cached_outputs, cases, choose_baseline, measure
from attnx.attribution import variants as said
from attnx.attribution.variants import PerturbationRuns, output_cache
from tests import verb_number_zoo


@pytest.fixture
def asked():
    model, tokenizer = verb_number_zoo.model(), verb_number_zoo.tokenizer()
    prepared = adapter_for(model).prepare(model, tokenizer, "the key to the cabinets near the old house")
    (case,) = cases(model, tokenizer, [prepared])
    return model, tokenizer, case


@pytest.fixture
def run(monkeypatch):
    """The variants that the model ran, without those that were tried."""
    seen = []
    read = PerturbationRuns.read

    def reading(self, rows, inputs, **options):
        seen.extend(self.inputs.variants[row] for row in rows if not options.get("kind"))
        return read(self, rows, inputs, **options)

    monkeypatch.setattr(PerturbationRuns, "read", reading)
    return seen


def scores(asked, variants, kind, baseline=None):
    model, tokenizer, case = asked
    chosen = choose_baseline(model, adapter_for(model), tokenizer, case.prepared, baseline)
    return measure(model, tokenizer, [case], variants, kind=kind, baseline=chosen)


def test_another_number_of_the_same_variants_takes_no_run(asked, run):
    variants = [Perturbation(0), *(Perturbation(0, (place,)) for place in asked[2].content)]
    alone = scores(asked, variants, "probability")
    run.clear()
    with cached_outputs():
        scores(asked, variants[:4], "margin")
        together = scores(asked, variants, "probability")
    assert sorted(one.places for one in run) == sorted(one.places for one in variants)  # each once
    np.testing.assert_allclose(together, alone, atol=1e-6)


def test_another_blank_is_another_answer(asked, run):
    variants = [Perturbation(0, (place,)) for place in asked[2].content]
    token = asked[1].convert_ids_to_tokens(5)
    alone = scores(asked, variants, "logit", baseline=token)
    with cached_outputs():
        scores(asked, variants, "logit")
        np.testing.assert_allclose(scores(asked, variants, "logit", baseline=token), alone, atol=1e-6)


def test_what_was_said_is_forgotten_behind_the_call(asked, run):
    with cached_outputs():
        scores(asked, [Perturbation(0)], "logit")
        assert output_cache().kept
    assert output_cache() is None
    scores(asked, [Perturbation(0)], "logit")
    assert len(run) == 2


def test_answers_over_a_vocabulary_are_not_kept(asked, monkeypatch):
    monkeypatch.setattr(said, "_LARGEST", 1)
    with cached_outputs():
        scores(asked, [Perturbation(0)], "logit")
        assert not output_cache().kept


def test_faithfulness_runs_no_variant_that_blank_out_has_run(asked, run):
    model, tokenizer, _ = asked
    attnx.faithfulness(
        model, tokenizer, ["the key to the cabinets"], methods="raw", references="blankout", progress=False
    )
    assert len(run) == len(set(run))
