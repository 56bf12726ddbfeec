"""Blank-out is the loop that its definition says, only faster."""

import numpy as np
import pytest
import torch

from attnx.errors import ChoiceError, InputError
from attnx.references import blankout
from attnx.references.batches import batches
from tests import verb_number_zoo as zoo
from tests import zoo as families


def one_by_one(model, tokenizer, prepared, target=None, blank="unk_token_id"):
    """The definition: one forward pass for each position, nothing shared."""
    with torch.no_grad():
        inputs = {name: tensor[None] for name, tensor in prepared.inputs.items()}
        whole = model(**inputs).logits.softmax(-1)[0]
        target = int(whole.argmax()) if target is None else target
        scores = []
        for position in prepared.positions:
            ids = inputs["input_ids"].clone()
            ids[0, position.index] = getattr(tokenizer, blank)
            blanked = model(**{**inputs, "input_ids": ids}).logits.softmax(-1)[0]
            scores.append(0.0 if position.special else abs(float(whole[target] - blanked[target])))
    return np.array(scores)


@pytest.mark.parametrize("tokens_at_once", [1, 17, 4096])
def test_batches_of_any_size_equal_the_loop(tokens_at_once):
    prepared = zoo.prepared()
    scores = blankout(zoo.model(), zoo.tokenizer(), prepared, tokens_at_once=tokens_at_once)
    for found, one in zip(scores, prepared, strict=True):
        np.testing.assert_allclose(found, one_by_one(zoo.model(), zoo.tokenizer(), one), atol=1e-5)
    assert max(map(np.max, scores)) > 0.01


def test_a_model_of_another_family_is_blanked_with_its_mask_token():
    from attnx.adapters import adapter_for

    model, tokenizer = families.classifier(), families.wordpiece_tokenizer()
    prepared = adapter_for(model).prepare(model, tokenizer, "a witty film")
    expected = one_by_one(model, tokenizer, prepared, blank="mask_token_id")
    np.testing.assert_allclose(blankout(model, tokenizer, [prepared])[0], expected, atol=1e-5)


def test_only_the_asked_positions_are_replaced_and_cls_may_be_one():
    (prepared,) = zoo.prepared(zoo.TEXTS[0])
    everything = blankout(zoo.model(), zoo.tokenizer(), [prepared], positions=[range(7)])[0]
    some = blankout(zoo.model(), zoo.tokenizer(), [prepared], positions=[[0, 2]])[0]
    assert everything[0] > 0
    np.testing.assert_allclose(some[[0, 2]], everything[[0, 2]], atol=1e-6)
    assert not some[[1, 3, 4, 5, 6]].any()


def test_of_two_classes_both_lose_and_win_the_same():
    one, other = (
        np.concatenate(blankout(zoo.model(), zoo.tokenizer(), zoo.prepared(), targets=[target] * 4))
        for target in (0, 1)
    )
    np.testing.assert_allclose(one, other, atol=1e-6)


def test_the_model_is_as_it_was():
    model = zoo.model()
    model.train()
    try:
        blankout(model, zoo.tokenizer(), zoo.prepared())
        assert all(module.training for module in model.modules())
    finally:
        model.eval()


def test_a_target_that_is_no_class_is_an_error():
    with pytest.raises(ChoiceError, match="target 2 asked, model has 2 classes"):
        blankout(zoo.model(), zoo.tokenizer(), zoo.prepared("keys"), targets=[2])


def test_positions_for_other_inputs_are_an_error():
    with pytest.raises(InputError, match="positions for 1 inputs, expected one for each of 4"):
        blankout(zoo.model(), zoo.tokenizer(), zoo.prepared(), positions=[[0]])


def test_batches_hold_every_index_once_and_stay_in_bounds():
    lengths = [3, 9, 1, 4, 4, 50, 2]
    found = list(batches(lengths, 12))
    assert sorted(index for batch in found for index in batch) == list(range(7))
    assert all(len(batch) == 1 or len(batch) * max(lengths[i] for i in batch) <= 12 for batch in found)
