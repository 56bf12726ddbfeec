"""Blank-out is the loop that its definition says, only faster."""

import numpy as np
import pytest
import torch

from attnx.adapters import adapter_for
from attnx.attribution import PAPER, blankout, cases
from attnx.errors import ChoiceError, InputError
from tests import verb_number_zoo as zoo
from tests import zoo as families


def one_by_one(model, tokenizer, prepared, target=None, baseline="unk_token_id"):
    """The paper's definition: one forward pass for each position, nothing shared."""
    with torch.no_grad():
        inputs = {name: tensor[None] for name, tensor in prepared.inputs.items()}
        whole = model(**inputs).logits.softmax(-1)[0]
        target = int(whole.argmax()) if target is None else target
        scores = []
        for position in prepared.positions:
            ids = inputs["input_ids"].clone()
            ids[0, position.index] = getattr(tokenizer, baseline)
            blanked = model(**{**inputs, "input_ids": ids}).logits.softmax(-1)[0]
            scores.append(0.0 if position.special else abs(float(whole[target] - blanked[target])))
    return np.array(scores)


def asked(prepared=None, **options):
    return cases(zoo.model(), zoo.tokenizer(), zoo.prepared() if prepared is None else prepared, **options)


def scores(found):
    return [one.scores for one in found]


@pytest.mark.parametrize("at_once", [1, 17, 4096])
def test_batches_of_any_size_equal_the_loop(at_once):
    found = scores(blankout(zoo.model(), zoo.tokenizer(), asked(), at_once=at_once, **PAPER))
    for one, prepared in zip(found, zoo.prepared(), strict=True):
        np.testing.assert_allclose(one, one_by_one(zoo.model(), zoo.tokenizer(), prepared), atol=1e-5)
    assert max(map(np.max, found)) > 0.01


def test_a_model_of_another_family_is_blanked_with_its_mask_token():
    model, tokenizer = families.classifier(), families.wordpiece_tokenizer()
    prepared = adapter_for(model).prepare(model, tokenizer, "a witty film")
    expected = one_by_one(model, tokenizer, prepared, baseline="mask_token_id")
    (found,) = blankout(model, tokenizer, cases(model, tokenizer, [prepared]), **PAPER)
    np.testing.assert_allclose(found.scores, expected, atol=1e-5)


def test_another_blank_is_used_when_it_is_named():
    model, tokenizer = families.classifier(), families.wordpiece_tokenizer()
    prepared = adapter_for(model).prepare(model, tokenizer, "a witty film")
    expected = one_by_one(model, tokenizer, prepared, baseline="pad_token_id")
    for baseline in ("pad_token", "[PAD]", tokenizer.pad_token_id):
        (found,) = blankout(model, tokenizer, cases(model, tokenizer, [prepared]), baseline=baseline, **PAPER)
        np.testing.assert_allclose(found.scores, expected, atol=1e-5)


def test_a_decoder_is_read_at_its_last_token_also_when_tokens_are_deleted():
    model, tokenizer = families.causal_lm(), families.bytelevel_tokenizer()
    prepared = adapter_for(model).prepare(model, tokenizer, "the key to the")
    (case,) = cases(model, tokenizer, [prepared])
    (found,) = blankout(model, tokenizer, [case], baseline="delete", score="probability")
    ids = prepared.inputs["input_ids"]
    with torch.no_grad():
        whole = model(ids[None]).logits[0, -1].softmax(-1)
        for place in range(len(ids)):
            left = torch.cat([ids[:place], ids[place + 1 :]])
            after = model(left[None]).logits[0, -1].softmax(-1)
            expected = float(whole[case.target.index] - after[case.target.index])
            assert found.scores[place] == pytest.approx(expected, abs=1e-6)


def test_only_the_asked_positions_are_replaced_and_cls_may_be_one():
    prepared = zoo.prepared(zoo.TEXTS[0])
    (everything,) = scores(blankout(zoo.model(), zoo.tokenizer(), asked(prepared), positions=[range(7)]))
    (some,) = scores(blankout(zoo.model(), zoo.tokenizer(), asked(prepared), positions=[[0, 2]]))
    assert everything[0] > 0
    np.testing.assert_allclose(some[[0, 2]], everything[[0, 2]], atol=1e-6)
    assert not some[[1, 3, 4, 5, 6]].any()


def test_of_two_classes_both_lose_and_win_the_same():
    one, other = (
        np.concatenate(scores(blankout(zoo.model(), zoo.tokenizer(), asked(target=target), **PAPER)))
        for target in (0, 1)
    )
    np.testing.assert_allclose(one, other, atol=1e-6)


def test_by_default_it_is_the_margin_and_tells_for_from_against():
    one, other = (
        np.concatenate(scores(blankout(zoo.model(), zoo.tokenizer(), asked(target=target)))) for target in (0, 1)
    )
    np.testing.assert_allclose(one, -other, atol=1e-4)
    assert (one < 0).any()
    assert (one > 0).any()
    (found,) = blankout(zoo.model(), zoo.tokenizer(), asked(zoo.prepared("keys to the")))
    assert (found.facts["score"], found.facts["baseline"], found.signed) == ("margin", "<unk>", True)


def test_a_regression_is_explained_by_its_value_and_has_no_probability():
    model, tokenizer = families.classifier(), families.wordpiece_tokenizer()
    model.config.problem_type = "regression"
    try:
        prepared = adapter_for(model).prepare(model, tokenizer, "a witty film")
        asked_of = cases(model, tokenizer, [prepared])
        assert blankout(model, tokenizer, asked_of)[0].scores.any()
        with pytest.raises(ChoiceError, match="predicts a value, which has no probability; use its logit"):
            blankout(model, tokenizer, asked_of, score="probability")
    finally:
        model.config.problem_type = None


def test_labels_that_may_all_be_true_are_explained_each_by_its_own_logit():
    model, tokenizer = families.classifier(), families.wordpiece_tokenizer()
    model.config.problem_type = "multi_label_classification"
    try:
        prepared = adapter_for(model).prepare(model, tokenizer, "a witty film")
        (case,) = cases(model, tokenizer, [prepared], target=1)
        (found,) = blankout(model, tokenizer, [case], **PAPER)
        with torch.no_grad():
            ids = prepared.inputs["input_ids"].clone()
            whole = model(ids[None]).logits[0, 1].sigmoid()
            ids[2] = tokenizer.mask_token_id
            after = model(ids[None]).logits[0, 1].sigmoid()
        assert found.scores[2] == pytest.approx(abs(float(whole - after)), abs=1e-6)
    finally:
        model.config.problem_type = None


def test_the_model_is_as_it_was():
    model = zoo.model()
    model.train()
    try:
        blankout(model, zoo.tokenizer(), asked())
        assert all(module.training for module in model.modules())
    finally:
        model.eval()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"baseline": "[NOTHING]"},
            r"baseline '\[NOTHING\]' is no token of this tokenizer; give one of its vocabulary",
        ),
        ({"baseline": "mask_token"}, "baseline 'mask_token' was requested, but the tokenizer has no such token"),
        ({"baseline": 10**6}, "baseline 1000000 is no token id of this vocabulary"),
        ({"unit": "sentence"}, "unit 'sentence' is not known; there are: token, word"),
        ({"score": "odds"}, "score 'odds' is not known; there are: logit, margin, probability, log_odds"),
        ({"positions": [[0]]}, "positions for 1 inputs, expected one for each of 4"),
    ],
)
def test_what_does_not_exist_is_an_error_that_says_what_does(options, message):
    with pytest.raises((ChoiceError, InputError), match=message):
        blankout(zoo.model(), zoo.tokenizer(), asked(), **options)


def test_a_target_that_is_no_class_is_an_error():
    with pytest.raises(ChoiceError, match="target 2 is not known; there are: singular, plural"):
        asked(zoo.prepared("keys"), target=2)


def test_a_model_without_a_head_has_nothing_to_explain():
    model, tokenizer = families.classifier().bert, families.wordpiece_tokenizer()
    prepared = adapter_for(model).prepare(model, tokenizer, "a witty film")
    with pytest.raises(ChoiceError, match="BertModel predicts nothing, so there is nothing to hold attention against"):
        cases(model, tokenizer, [prepared])


def test_bad_options_of_blank_out_are_errors():
    with pytest.raises(InputError, match="at_once must be at least 1 position, found 0"):
        blankout(zoo.model(), zoo.tokenizer(), asked(), at_once=0)
    one = asked(zoo.prepared("keys"))
    with pytest.raises(ChoiceError, match="position 99 was requested"):
        blankout(zoo.model(), zoo.tokenizer(), one, positions=[[99]])


def test_a_blank_may_be_a_numpy_integer():
    one, unknown = asked(zoo.prepared("keys")), zoo.tokenizer().unk_token_id
    named, numbered = (
        blankout(zoo.model(), zoo.tokenizer(), one, baseline=b) for b in ("unk_token", np.int64(unknown))
    )
    np.testing.assert_array_equal(named[0].scores, numbered[0].scores)
