"""What each query could see is read off the model's own masks."""

import pytest
import torch

from attnx.attention import visible_from_scores
from attnx.hooks import capture_batch
from attnx.hooks.capture import capture
from tests import zoo

N = 9
CAUSAL = torch.ones(N, N, dtype=torch.bool).tril()


@pytest.mark.parametrize("implementation", [None, "eager"])
def test_encoders_see_everything(implementation):
    attention = capture(zoo.model("bert", implementation), **zoo.inputs("bert"))
    assert bool(attention.visible.all())
    assert not attention.causal


@pytest.mark.parametrize("implementation", [None, "eager"])
@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_decoders_see_what_came_before(name, implementation):
    attention = capture(zoo.model(name, implementation), **zoo.inputs(name))
    assert torch.equal(attention.visible, CAUSAL.expand(3, N, N))
    assert attention.causal


@pytest.mark.parametrize("implementation", [None, "eager"])
def test_a_sliding_window_is_a_mask_like_any_other(implementation):
    attention = capture(zoo.model("mistral", implementation), **zoo.inputs("mistral"))
    assert torch.equal(attention.visible[0], CAUSAL & CAUSAL.triu(-3) | CAUSAL & ~CAUSAL.tril(-4))


def test_layers_with_and_without_a_window_keep_their_own_masks():
    attention = capture(zoo.model("modernbert"), **zoo.inputs("modernbert"))
    assert bool(attention.visible[0].all())
    assert not bool(attention.visible[1].all())
    assert not attention.causal


def test_weight_lies_only_where_it_was_visible():
    for name in ("gpt2", "mistral", "modernbert", "bloom"):
        attention = capture(zoo.model(name), **zoo.inputs(name))
        assert float(attention.weights.masked_fill(attention.visible[:, None], 0).sum()) == 0


@pytest.mark.parametrize("name", ["bert", "gpt2", "mistral", "modernbert", "t5"])
def test_padding_is_cut_out_of_a_batch(name):
    short, long = zoo.inputs(name, 5), zoo.inputs(name, N)
    ids = torch.zeros(2, N, dtype=torch.long)
    ids[0, :5], ids[1] = short["input_ids"][0], long["input_ids"][0]
    mask = torch.ones_like(ids)
    mask[0, 5:] = 0
    together = capture_batch(zoo.model(name), {"input_ids": ids, "attention_mask": mask}).attention
    for inputs, attention in zip((short, long), together, strict=True):
        alone = capture(zoo.model(name), **inputs)
        torch.testing.assert_close(attention.weights, alone.weights, atol=1e-5, rtol=0)
        assert torch.equal(attention.visible, alone.visible)


def test_a_learned_preference_is_not_taken_for_a_mask():
    scores = torch.tensor([[[[0.0, -600.0], [3.0, -1e4]]]])
    assert visible_from_scores(scores).tolist() == [[[True, True], [True, False]]]
    assert visible_from_scores(torch.zeros(1, 2, 3, 3)) is None


def test_a_mask_of_keys_alone_is_spread_over_the_queries():
    class Model(torch.nn.Module):
        def forward(self, states, mask):
            return torch.nn.functional.scaled_dot_product_attention(states, states, states, attn_mask=mask)

    states, mask = torch.randn(2, 2, 4, 3), torch.ones(2, 1, 1, 4, dtype=torch.bool)
    mask[1, ..., 2:] = False
    one, two = capture_batch(Model(), {"states": states, "mask": mask}).attention
    assert bool(one.visible.all())
    assert two.visible[0].tolist() == [[True, True, False, False]] * 4
