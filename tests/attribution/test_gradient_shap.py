"""Gradient SHAP has random numbers of its own, and runs in the model's precision."""

import copy
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from attnx import AttnxError, explain
from attnx.attribution import cases
from attnx.attribution.gradients import gradient_shap
from tests import zoo

TEXT = "a witty film and a dull movie"


def shap(model, **options):
    explanation = explain(model, zoo.wordpiece_tokenizer(), TEXT, references={"gradient_shap": options})
    return explanation["gradient_shap"]


@pytest.mark.parametrize("precision", [torch.float16, torch.bfloat16, torch.float64])
def test_models_of_every_precision_are_measured(precision):
    expected = shap(zoo.classifier())
    found = shap(copy.deepcopy(zoo.classifier()).to(precision))
    tolerance = 1e-5 if precision == torch.float64 else 0.15
    np.testing.assert_allclose(found, expected, atol=tolerance * np.abs(expected).max())


def test_the_average_is_the_one_of_slopes_between_input_and_baselines():
    """With samples enough it comes near the mean of integrated gradients from both baselines."""
    found = shap(zoo.classifier(), samples=4000)
    model, tokenizer = zoo.classifier(), zoo.wordpiece_tokenizer()
    from_both = [
        explain(model, tokenizer, TEXT, references={"integrated_gradients": {"baseline": baseline}})
        for baseline in (None, "zero")
    ]
    expected = np.mean([e["integrated_gradients"] for e in from_both], axis=0)
    np.testing.assert_allclose(found, expected, atol=0.1 * np.abs(expected).max())


def test_threads_do_not_share_random_numbers():
    model, expected = zoo.classifier(), shap(zoo.classifier())
    state = torch.get_rng_state(), np.random.get_state()[1].copy()
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: shap(model), range(24)))
    assert all(np.array_equal(one, expected) for one in found)
    assert torch.equal(torch.get_rng_state(), state[0])
    assert (np.random.get_state()[1] == state[1]).all()


def test_no_global_random_number_is_drawn_or_set(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("a global random state was touched")

    for owner, name in [
        (torch, "manual_seed"),
        (torch, "set_rng_state"),
        (np.random, "seed"),
        (np.random, "set_state"),
    ]:
        monkeypatch.setattr(owner, name, refuse)
    monkeypatch.setattr(torch.random, "fork_rng", refuse)
    shap(zoo.classifier())


def test_samples_that_run_at_once_do_not_change_the_numbers(monkeypatch):
    expected = shap(zoo.classifier())
    monkeypatch.setattr("attnx.attribution.gradients.max_batch_positions", lambda model: 30)
    np.testing.assert_allclose(shap(zoo.classifier()), expected, atol=1e-6)


@pytest.mark.parametrize("options", [{"samples": 0}, {"samples": "x"}, {"seed": -1}, {"seed": None}, {"seed": 2**64}])
def test_options_that_mean_nothing_are_refused(options):
    model, tokenizer = zoo.classifier(), zoo.wordpiece_tokenizer()
    from attnx.adapters import adapter_for

    prepared = [adapter_for(model).prepare(model, tokenizer, TEXT)]
    with pytest.raises(AttnxError, match=next(iter(options))):
        gradient_shap(model, tokenizer, cases(model, tokenizer, prepared), **options)
