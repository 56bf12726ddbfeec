from __future__ import annotations

import pytest
import torch
from transformers import (
    AttentionInterface,
    AutoConfig,
    AutoModel,
    AutoModelForSequenceClassification,
    PreTrainedModel,
)

from attnx.demo_models.verb_number import (
    VerbNumberConfig,
    VerbNumberForSequenceClassification,
    VerbNumberModel,
    eager_attention,
)
from attnx.errors import InputError

IDS = torch.tensor([[2, 7, 8, 9, 10, 3]])


@pytest.fixture
def model(tiny: VerbNumberConfig) -> VerbNumberForSequenceClassification:
    torch.manual_seed(0)
    tiny.vocab_size = 20
    tiny.initializer_range = 0.3
    return VerbNumberForSequenceClassification(tiny).eval()


def test_default_shape_is_the_papers():
    config = VerbNumberConfig()
    assert (config.num_hidden_layers, config.num_attention_heads, config.hidden_size) == (6, 8, 128)
    assert config.id2label == {0: "singular", 1: "plural"}


def test_default_model_has_about_two_and_a_half_million_parameters():
    assert 2.3e6 < sum(p.numel() for p in VerbNumberForSequenceClassification(VerbNumberConfig()).parameters()) < 2.6e6


def test_a_block_computes_what_a_gpt2_block_without_causal_mask_computes(model):
    """The reference is transformers' own GPT-2 block, given the same weights and a mask that hides nothing."""
    from transformers import GPT2Config
    from transformers.models.gpt2.modeling_gpt2 import GPT2Block

    ours = model.encoder.blocks[0]
    config = GPT2Config(n_embd=16, n_head=2, n_layer=1, attn_implementation="eager")
    theirs = GPT2Block(config, layer_idx=0).eval()
    theirs.attn.is_causal = False
    if hasattr(theirs.attn, "bias"):  # transformers 4 keeps its causal mask in a buffer
        theirs.attn.bias.fill_(True)
    attention = ours.attention
    with torch.no_grad():
        for mine, other in (
            (attention.output, theirs.attn.c_proj),
            (ours.expand, theirs.mlp.c_fc),
            (ours.contract, theirs.mlp.c_proj),
        ):
            other.weight.copy_(mine.weight.T)
            other.bias.copy_(mine.bias)
        parts = (attention.query, attention.key, attention.value)
        theirs.attn.c_attn.weight.copy_(torch.cat([part.weight.T for part in parts], dim=1))
        theirs.attn.c_attn.bias.copy_(torch.cat([part.bias for part in parts]))
        hidden = torch.randn(2, 5, 16)
        expected = theirs(hidden)
        expected = expected if torch.is_tensor(expected) else expected[0]
        torch.testing.assert_close(ours(hidden, None, False)[0], expected, atol=1e-5, rtol=1e-5)


def test_every_position_sees_every_other(model):
    attentions = model(IDS, output_attentions=True).attentions
    assert len(attentions) == 2
    assert all(weights.shape == (1, 2, 6, 6) and (weights > 0).all() for weights in attentions)
    torch.testing.assert_close(attentions[0].sum(-1), torch.ones(1, 2, 6))


def test_sdpa_and_eager_agree(model):
    expected = model(IDS).logits
    model.config._attn_implementation = "eager"
    torch.testing.assert_close(model(IDS).logits, expected)


def test_a_registered_attention_function_is_called_in_every_layer(model):
    seen = []

    def spy(module, query, key, value, attention_mask, **kwargs):
        seen.append(module.layer_idx)
        return eager_attention(module, query, key, value, attention_mask, **kwargs)

    AttentionInterface.register("attnx_test_spy", spy)
    expected = model(IDS).logits
    model.config._attn_implementation = "attnx_test_spy"
    torch.testing.assert_close(model(IDS).logits, expected)
    assert seen == [0, 1]


@pytest.mark.skipif(not hasattr(PreTrainedModel, "set_attn_implementation"), reason="transformers is older than 4.54")
def test_transformers_may_switch_the_attention(model):
    model.set_attn_implementation("eager")
    assert {block.attention.config._attn_implementation for block in model.encoder.blocks} == {"eager"}


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_padding_changes_nothing(model, implementation):
    model.config._attn_implementation = implementation
    ids = torch.cat([IDS, torch.zeros(1, 3, dtype=torch.long)], dim=1)
    mask = (torch.arange(9) < 6).long()[None]
    torch.testing.assert_close(model(ids, attention_mask=mask).logits, model(IDS).logits)


def test_padded_keys_get_no_attention(model):
    mask = torch.tensor([[1, 1, 1, 1, 0, 0]])
    for weights in model(IDS, attention_mask=mask, output_attentions=True).attentions:
        assert (weights[..., 4:] == 0).all()


def test_embeddings_may_be_given_instead_of_ids(model):
    embedded = model.get_input_embeddings()(IDS)
    torch.testing.assert_close(model(inputs_embeds=embedded).logits, model(IDS).logits)


def test_gradients_reach_the_embeddings(model):
    embedded = model.get_input_embeddings()(IDS).detach().requires_grad_()
    model(inputs_embeds=embedded).logits[0, 1].backward()
    assert (embedded.grad.norm(dim=-1) > 0).all()


def test_classifier_reads_position_zero(model):
    output = model(IDS, output_hidden_states=True)
    torch.testing.assert_close(output.logits, model.classifier(output.hidden_states[-1][:, 0]))
    assert len(output.hidden_states) == 3


def test_loss_is_cross_entropy_and_tuples_are_served(model):
    labels = torch.tensor([1])
    loss, logits = model(IDS, labels=labels, return_dict=False)
    torch.testing.assert_close(loss, -logits.log_softmax(-1)[0, 1])


def test_ids_and_embeddings_together_or_neither_is_an_error(model):
    with pytest.raises(InputError, match="either input_ids or inputs_embeds"):
        model()


def test_a_sentence_longer_than_the_positions_is_an_error(model):
    with pytest.raises(InputError, match="41 positions, the model 40"):
        model(torch.ones(1, 41, dtype=torch.long))


def test_heads_must_divide_the_width():
    with pytest.raises(InputError, match="width of 16 does not divide into 3 heads"):
        VerbNumberModel(VerbNumberConfig(hidden_size=16, num_attention_heads=3))


def test_auto_classes_know_the_model(model, tmp_path):
    model.save_pretrained(tmp_path)
    assert isinstance(AutoConfig.from_pretrained(tmp_path), VerbNumberConfig)
    assert isinstance(AutoModel.from_pretrained(tmp_path), VerbNumberModel)
    again = AutoModelForSequenceClassification.from_pretrained(tmp_path).eval()
    assert isinstance(again, VerbNumberForSequenceClassification)
    torch.testing.assert_close(again(IDS).logits, model(IDS).logits, rtol=0, atol=0)
