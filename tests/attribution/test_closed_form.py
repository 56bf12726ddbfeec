"""On a linear bag of embeddings each reference has a closed form, and must have it."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnx.adapters import adapter_for
from attnx.attribution import REFERENCES, blankout, cases
from tests import zoo
from tests.attribution.linear_model import bag

MODEL, TOKENIZER = bag(), zoo.wordpiece_tokenizer()
TEXTS = ["a witty film", "the key to the cabinets is on the dull table", "film"]


def asked(texts=TEXTS, model=MODEL, **options):
    prepare = adapter_for(model).prepare
    return cases(model, TOKENIZER, [prepare(model, TOKENIZER, text) for text in texts], **options)


def parts(case, model=MODEL):
    """What each position adds to the target's logit, minus what a blank would add."""
    weight = model.head.weight[case.target.index]
    embedded = model.embedding(case.prepared.inputs["input_ids"])
    baseline = model.embedding(torch.tensor(TOKENIZER.mask_token_id))
    return ((embedded - baseline) @ weight).detach().double().numpy(), (embedded @ weight).detach().double().numpy()


def on_content(case, values):
    kept = np.zeros(len(case.prepared.positions))
    kept[case.content] = values[case.content]
    return kept


@pytest.mark.parametrize("reduction", ["norm", "sum", "absolute sum"])
def test_the_gradient_is_the_weight_at_every_position(reduction):
    found = REFERENCES["gradient"](MODEL, TOKENIZER, asked(), reduction=reduction)
    for one, case in zip(found, asked(), strict=True):
        weight = MODEL.head.weight[case.target.index].detach().double()
        expected = {"norm": weight.norm(), "sum": weight.sum(), "absolute sum": weight.sum().abs()}[reduction]
        np.testing.assert_allclose(one.scores, expected.item(), rtol=1e-6)


def test_input_times_gradient_is_what_the_position_adds():
    for one, case in zip(REFERENCES["input_x_gradient"](MODEL, TOKENIZER, asked()), asked(), strict=True):
        np.testing.assert_allclose(one.scores, parts(case)[1], rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("integrated_gradients", {"steps": 3}),
        ("feature_ablation", {}),
        ("occlusion", {"window": 1}),
        ("blankout", {"score": "logit", "signed": True}),
    ],
)
def test_roads_from_the_blank_give_what_the_position_adds_beyond_it(name, options):
    for one, case in zip(REFERENCES[name](MODEL, TOKENIZER, asked(), **options), asked(), strict=True):
        np.testing.assert_allclose(one.scores, on_content(case, parts(case)[0]), rtol=1e-4, atol=1e-6)


def test_integrated_gradients_from_zero_are_input_times_gradient_and_converge():
    found = REFERENCES["integrated_gradients"](MODEL, TOKENIZER, asked(), baseline="zero", steps=2)
    for one, case in zip(found, asked(), strict=True):
        np.testing.assert_allclose(one.scores, on_content(case, parts(case)[1]), rtol=1e-4, atol=1e-6)
        assert abs(one.facts["convergence_delta"]) < 1e-5


def test_gradient_shap_lies_between_its_two_baselines_and_repeats_with_its_seed():
    for one, case in zip(REFERENCES["gradient_shap"](MODEL, TOKENIZER, asked()), asked(), strict=True):
        ends = np.sort(np.stack([on_content(case, values) for values in parts(case)]), axis=0)
        assert (one.scores >= ends[0] - 1e-5).all()
        assert (one.scores <= ends[1] + 1e-5).all()
    state = torch.get_rng_state(), np.random.get_state()[1].copy()
    again = [REFERENCES["gradient_shap"](MODEL, TOKENIZER, asked(), seed=5) for _ in range(2)]
    np.testing.assert_array_equal(again[0][1].scores, again[1][1].scores)
    assert torch.equal(torch.get_rng_state(), state[0])
    assert (np.random.get_state()[1] == state[1]).all()


def test_blanked_words_share_their_change_out_among_their_pieces():
    (case,) = asked(["unaffable film"])
    assert any(len(word.positions) > 1 for word in case.prepared.words)
    (by_word,) = blankout(MODEL, TOKENIZER, [case], unit="word", score="logit", signed=True)
    expected = parts(case)[0]
    for word in case.prepared.words:
        places = list(word.positions)
        np.testing.assert_allclose(by_word.scores[places], expected[places].mean(), rtol=1e-4, atol=1e-6)


def test_a_deleted_token_takes_away_all_that_it_added():
    for one, case in zip(
        blankout(MODEL, TOKENIZER, asked(), score="logit", signed=True, baseline="delete"), asked(), strict=True
    ):
        np.testing.assert_allclose(one.scores, on_content(case, parts(case)[1]), rtol=1e-4, atol=1e-6)


def test_a_target_against_another_is_the_difference_of_both():
    def scores(target):
        found = blankout(MODEL, TOKENIZER, asked(target=target), score="logit", signed=True)
        return np.concatenate([one.scores for one in found])

    np.testing.assert_allclose(scores((0, 2)), scores(0) - scores(2), atol=1e-6)


@settings(max_examples=25, deadline=None)
@given(st.permutations(TEXTS), st.sampled_from([1, 7, 40, 4096]), st.sampled_from(["probability", "logit", "log_odds"]))
def test_order_batch_size_and_padding_change_no_score(texts, at_once, score):
    together = blankout(MODEL, TOKENIZER, asked(texts), at_once=at_once, score=score)
    for text, found in zip(texts, together, strict=True):
        (alone,) = blankout(MODEL, TOKENIZER, asked([text]), score=score)
        np.testing.assert_allclose(found.scores, alone.scores, atol=1e-5)


def test_log_odds_of_a_certain_answer_are_the_difference_of_two_logits():
    model = bag(labels=2)
    with torch.no_grad():
        model.head.weight.mul_(200)
    prepared = adapter_for(model).prepare(model, TOKENIZER, "a witty film")
    asked_of = cases(model, TOKENIZER, [prepared])
    against = cases(model, TOKENIZER, [prepared], target=(asked_of[0].target.index, 1 - asked_of[0].target.index))
    for name in ("blankout", "gradient"):
        (odds,) = REFERENCES[name](model, TOKENIZER, asked_of, score="log_odds")
        (logits,) = REFERENCES[name](model, TOKENIZER, against, score="logit")
        np.testing.assert_allclose(odds.scores, logits.scores, rtol=1e-4)
    (chance,) = blankout(model, TOKENIZER, asked_of, score="probability")
    assert chance.facts["before"] == 1


def test_the_log_odds_of_one_of_several_labels_are_its_logit():
    model = bag(problem_type="multi_label_classification")
    asked_of = cases(model, TOKENIZER, [adapter_for(model).prepare(model, TOKENIZER, "a witty film")], target=2)
    odds, logit = (blankout(model, TOKENIZER, asked_of, score=score)[0].scores for score in ("log_odds", "logit"))
    np.testing.assert_allclose(odds, logit)
