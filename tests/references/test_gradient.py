"""Gradients are the slopes that finite differences find."""

import numpy as np
import pytest
import torch

from attnx.errors import ChoiceError, InputError
from attnx.references import gradient
from tests import verb_number_zoo as zoo


def finite_differences(prepared, score):
    """position × width, by moving each number of each embedding a little; in double precision."""
    model = zoo.model().double()
    try:
        with torch.no_grad():
            embedded = model.get_input_embeddings()(prepared.inputs["input_ids"])[None]
            slope = torch.zeros_like(embedded[0])
            for place in np.ndindex(*slope.shape):
                ends = []
                for sign in (1, -1):
                    moved = embedded.clone()
                    moved[(0, *place)] += sign * 1e-4
                    ends.append(score(model(inputs_embeds=moved).logits[0]))
                slope[place] = (ends[0] - ends[1]) / 2e-4
    finally:
        model.float()
    return slope.numpy()


def predicted(prepared):
    inputs = {name: tensor[None] for name, tensor in prepared.inputs.items()}
    return int(zoo.model()(**inputs).logits.argmax())


@pytest.mark.parametrize(
    ("reduction", "reduce"),
    [
        ("sum", lambda slope: slope.sum(-1)),
        ("absolute sum", lambda slope: np.abs(slope.sum(-1))),
        ("norm", lambda slope: np.sqrt((slope**2).sum(-1))),
    ],
)
def test_each_reduction_of_the_predicted_logit_equals_finite_differences(reduction, reduce):
    (prepared,) = zoo.prepared(zoo.TEXTS[0])
    target = predicted(prepared)
    expected = reduce(finite_differences(prepared, lambda logits: float(logits[target])))
    (found,) = gradient(zoo.model(), zoo.tokenizer(), [prepared], reduction=reduction)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-5)


def test_the_difference_of_probabilities_equals_finite_differences():
    (prepared,) = zoo.prepared(zoo.TEXTS[3])
    slope = finite_differences(prepared, lambda logits: float(logits.softmax(-1) @ torch.tensor([1.0, -1.0]).double()))
    (found,) = gradient(
        zoo.model(), zoo.tokenizer(), [prepared], score="probability difference", reduction="absolute sum"
    )
    np.testing.assert_allclose(found, np.abs(slope.sum(-1)), rtol=1e-3, atol=1e-6)


def test_batching_and_padding_change_nothing():
    prepared = zoo.prepared()
    together = gradient(zoo.model(), zoo.tokenizer(), prepared)
    for found, one in zip(together, prepared, strict=True):
        np.testing.assert_allclose(found, gradient(zoo.model(), zoo.tokenizer(), [one])[0], rtol=1e-4, atol=1e-6)


def test_the_other_class_can_be_asked_for():
    (prepared,) = zoo.prepared(zoo.TEXTS[0])
    signed = [
        gradient(zoo.model(), zoo.tokenizer(), [prepared], targets=[target], reduction="sum")[0] for target in (0, 1)
    ]
    assert not np.allclose(*signed)


def test_no_gradient_and_no_mode_is_left_behind():
    model = zoo.model()
    model.train()
    try:
        gradient(model, zoo.tokenizer(), zoo.prepared())
        assert all(module.training for module in model.modules())
    finally:
        model.eval()
    assert all(parameter.grad is None and parameter.requires_grad for parameter in model.parameters())


def test_it_works_where_the_caller_has_gradients_off():
    with torch.no_grad():
        assert gradient(zoo.model(), zoo.tokenizer(), zoo.prepared("keys"))[0].shape == (3,)


def test_unknown_names_are_errors_that_name_the_known():
    with pytest.raises(ChoiceError, match="absolute sum, norm; did you mean 'norm'"):
        gradient(zoo.model(), zoo.tokenizer(), zoo.prepared("keys"), reduction="nrm")
    with pytest.raises(ChoiceError, match="logit, probability difference"):
        gradient(zoo.model(), zoo.tokenizer(), zoo.prepared("keys"), score="odds")


def test_a_model_without_a_class_head_is_an_error():
    with pytest.raises(InputError, match="does not classify whole inputs"):
        gradient(zoo.model().encoder, zoo.tokenizer(), zoo.prepared("keys"))
