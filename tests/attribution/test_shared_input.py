"""Several answers of one input, as a written text has them: one run there, and the numbers of separate runs."""

import copy

import numpy as np
import pytest
import torch
import transformers as hf

from attnx.adapters import adapter_for
from attnx.attribution import REFERENCES, Case
from attnx.attribution.lrp import lrp_by_layer
from attnx.pipeline import Request, Settings, explain_prepared
from attnx.targets import Target
from tests import zoo

TEXT = "the key to the cabinets is on the table"
FAMILIES = {
    "gpt2": hf.GPT2LMHeadModel,
    "llama": hf.LlamaForCausalLM,
    "gpt_neox": hf.GPTNeoXForCausalLM,
    "gemma2": hf.Gemma2ForCausalLM,
}


def decoder(name):
    torch.manual_seed(1)
    config = copy.deepcopy(zoo.model(name).config)
    config.vocab_size = len(zoo.bytelevel_tokenizer())
    model = FAMILIES[name](config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter)) if parameter.ndim == 1 else parameter.mul_(3)
    return model, zoo.bytelevel_tokenizer()


def asked(model, tokenizer):
    prepared = adapter_for(model).prepare(model, tokenizer, TEXT)
    last = len(prepared.positions) - 1
    targets = [Target(7, last), Target(9, last - 2), Target(7, last - 2, against=11), Target(5, last)]
    return [Case(prepared, one) for one in targets]


def runs_of(model, work):
    """What work gives, and how often it called the model."""
    calls = []
    handle = model.register_forward_pre_hook(lambda *_: calls.append(1))
    try:
        return work(), len(calls)
    finally:
        handle.remove()


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", ["lrp", "attn_lrp", "gradient", "input_x_gradient", "blankout"])
def test_answers_of_one_input_are_those_of_separate_runs(name, family):
    model, tokenizer = decoder(family)
    several = asked(model, tokenizer)
    together = REFERENCES[name](model, tokenizer, several)
    alone = [REFERENCES[name](model, tokenizer, [one])[0] for one in several]
    for one, other in zip(together, alone, strict=True):
        np.testing.assert_allclose(one.scores, other.scores, rtol=1e-5, atol=1e-5 * np.abs(other.scores).max())
        assert one.facts.keys() == other.facts.keys()
        numbers = [key for key, value in other.facts.items() if isinstance(value, float)]
        np.testing.assert_allclose(
            *([each.facts[key] for key in numbers] for each in (one, other)), rtol=1e-3, atol=1e-4
        )


@pytest.mark.parametrize("name", ["lrp", "attn_lrp", "gradient", "input_x_gradient", "blankout"])
def test_answers_of_one_input_take_the_runs_of_one(name):
    model, tokenizer = decoder("llama")
    several = asked(model, tokenizer)
    REFERENCES[name](model, tokenizer, several[:1])  # what is computed once a model
    _, one = runs_of(model, lambda: REFERENCES[name](model, tokenizer, several[:1]))
    _, four = runs_of(model, lambda: REFERENCES[name](model, tokenizer, several))
    assert four == one


def test_of_a_long_input_blocks_are_run_again_for_each_answer(monkeypatch):
    model, tokenizer = decoder("llama")
    several = asked(model, tokenizer)
    kept = REFERENCES["lrp"](model, tokenizer, several)
    monkeypatch.setattr("attnx.linearize.checkpointing.KEPT_AT_MOST", 0)
    again = REFERENCES["lrp"](model, tokenizer, several)
    for one, other in zip(again, kept, strict=True):
        np.testing.assert_allclose(one.scores, other.scores, rtol=1e-4, atol=1e-5)
        assert one.facts["sink"] == pytest.approx(other.facts["sink"], rel=1e-3)


def test_level_by_level_they_are_those_of_separate_runs_too():
    model, tokenizer = decoder("gpt2")
    several = asked(model, tokenizer)
    for one, case in zip(lrp_by_layer(model, tokenizer, several), several, strict=True):
        np.testing.assert_allclose(one, lrp_by_layer(model, tokenizer, [case])[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "methods", [("alti_logit",), ("gradient_rollout",), ("rollout", "gradient_rollout", "alti_logit")]
)
def test_methods_about_the_answer_share_a_run_and_equal_separate_ones(methods):
    model, tokenizer = decoder("llama")
    prepared = adapter_for(model).prepare(model, tokenizer, TEXT)
    last = len(prepared.positions) - 1
    requests = [Request(prepared, place, target) for place, target in ((last, 7), (last - 3, 9), (last - 3, (7, 11)))]
    settings = Settings.of(methods)
    list(explain_prepared(model, tokenizer, requests[:1], settings))  # what is computed once a model
    together, runs = runs_of(model, lambda: dict(explain_prepared(model, tokenizer, requests, settings)))
    for number, one in enumerate(requests):
        alone, runs_alone = runs_of(model, lambda one=one: dict(explain_prepared(model, tokenizer, [one], settings))[0])
        assert runs == runs_alone
        for method in methods:
            np.testing.assert_allclose(together[number][method], alone[method], rtol=1e-4, atol=1e-6)
