"""The gradient at a head's output times a value is the gradient of the attention weight between them."""

import copy

import pytest
import torch

from attnx.adapters import adapter_for, prepare_inputs
from attnx.errors import CaptureError
from attnx.graph.gradient import attention_x_gradient
from attnx.hooks import capture_batch
from attnx.pipeline.pipeline import Observation, with_answer_gradient
from attnx.targets import Target
from tests import zoo

MODELS = {
    "classifier": (zoo.classifier, zoo.wordpiece_tokenizer),
    "masked": (zoo.masked_lm, zoo.wordpiece_tokenizer),
    "causal": (zoo.causal_lm, zoo.bytelevel_tokenizer),
}


def known(name, target=None):
    """A model in double precision, its input, and its attention with the gradient of a target."""
    made, tokenizer = (one() for one in MODELS[name])
    model = copy.deepcopy(made).double()
    (prepared,), _ = prepare_inputs(adapter_for(model), model, tokenizer, "the key to the")
    inputs = {key: one[None] for key, one in prepared.inputs.items()}
    target = target or Target(1, len(prepared.positions) - 1, 0)
    return model, inputs, with_answer_gradient(model, observed(model, inputs), target), target


def observed(model, inputs):
    """A run with a way back."""
    captured = capture_batch(model, inputs, extras=("values",), entry=model.get_input_embeddings())
    return Observation(captured.attention[0], captured.output, 0)


def margin(output, target):
    logits = output.logits[0] if output.logits.ndim == 2 else output.logits[0, target.position]
    return logits[target.index] - logits[target.against]


@pytest.mark.parametrize("name", MODELS)
def test_it_equals_autograd_on_the_weights_themselves(name):
    model, inputs, attention, target = known(name)
    weights = []

    def kept(attending, query, key, value, mask, scaling=None, **options):
        scores = query @ key.transpose(-1, -2) * (query.shape[-1] ** -0.5 if scaling is None else scaling)
        weights.append((scores if mask is None else scores + mask).softmax(-1))
        weights[-1].retain_grad()
        return (weights[-1] @ value).transpose(1, 2), None

    model = with_function(model, kept)
    margin(model(**inputs), target).backward()
    for level, one in zip(attention.layers, weights, strict=True):
        torch.testing.assert_close(
            attention_x_gradient(level, 0, level.mask.length).weights, (one * one.grad)[0], atol=1e-9, rtol=1e-7
        )


def with_function(model, function):
    """The same model, whose attention is computed by the function."""
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface, eager_mask

    AttentionInterface.register("by_hand", function)
    AttentionMaskInterface.register("by_hand", eager_mask)
    return zoo.grad_mode(model, "by_hand")


def test_rows_sum_to_the_output_times_its_gradient():
    _, _, attention, _ = known("causal")
    for level in attention.layers:
        outputs = level.weights @ level.captured["values"]
        expected = (outputs * level.captured["gradient"]).sum(-1)
        torch.testing.assert_close(attention_x_gradient(level, 0, level.mask.length).weights.sum(-1), expected)


def test_later_positions_have_no_part_in_an_answer():
    _, _, attention, _ = known("causal", Target(1, 2, 0))
    for level in attention.layers:
        assert not bool(attention_x_gradient(level, 3, level.mask.length).weights.any())
    top = attention_x_gradient(attention.layers[-1], 0, attention.length).weights.abs().sum((0, 2))
    assert (top > 0).tolist() == [False, False, True] + [False] * (attention.length - 3)


def test_flash_kernels_are_refused_with_what_to_load():
    model = copy.deepcopy(zoo.causal_lm())
    seen = observed(model, {"input_ids": torch.tensor([[3, 5, 8]])})
    model.config._attn_implementation_internal = "flash_attention_2"
    with pytest.raises(CaptureError, match="load it with attn_implementation='sdpa'"):
        with_answer_gradient(model, seen, Target(1, 0))


def test_a_model_whose_weights_are_fixed_has_a_way_back_all_the_same():
    model = copy.deepcopy(zoo.classifier()).requires_grad_(False)
    seen = observed(model, {"input_ids": torch.tensor([[2, 5, 8, 3]])})
    gradient = with_answer_gradient(model, seen, Target(1, 0)).layers[0].captured["gradient"]
    assert bool(gradient.any())
    assert not any(parameter.requires_grad for parameter in model.parameters())


def test_the_way_back_can_be_gone_for_several_answers():
    model = copy.deepcopy(zoo.classifier()).double()
    seen = observed(model, {"input_ids": torch.tensor([[2, 5, 8, 3]])})
    one, other = (with_answer_gradient(model, seen, Target(index, 0)) for index in (0, 1))
    for level, against in zip(one.layers, other.layers, strict=True):
        # The margin of one of two classes is that of the other with its sign turned.
        torch.testing.assert_close(level.captured["gradient"], -against.captured["gradient"])


def test_a_run_without_a_way_back_says_so():
    model = zoo.classifier()
    captured = capture_batch(model, {"input_ids": torch.tensor([[2, 5, 8, 3]])}, extras=("values",))
    with pytest.raises(CaptureError, match="gives no gradient of its answer"):
        with_answer_gradient(model, Observation(captured.attention[0], captured.output, 0), Target(1, 0))


class Laid(torch.nn.Module):
    """torch's own attention module, whose values and weights are inside one function."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.words = torch.nn.Embedding(9, 8)
        self.attention = torch.nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, input_ids):
        states = self.words(input_ids)
        return states + self.attention(states, states, states, need_weights=False)[0]


def test_of_torchs_own_attention_module_each_head_has_its_gradient():
    model = Laid().double()
    ids, direction = torch.tensor([[1, 5, 2]]), torch.randn(8, generator=torch.Generator().manual_seed(1)).double()
    captured = capture_batch(model, {"input_ids": ids}, extras=("values",), entry=model.words)
    (level,) = captured.attention[0].layers
    (found,) = torch.autograd.grad(captured.output[0, -1] @ direction, level.captured["outputs"])
    expected = (direction @ model.attention.out_proj.weight).view(2, 4)
    torch.testing.assert_close(found[0, :, -1], expected)
    assert not bool(found[0, :, :-1].any())
