"""`explain` of one stack of several, and what it says of positions that are mixed otherwise."""

import pytest
import transformers as hf

import attnx
from attnx.errors import CaptureError, ChoiceError
from tests import zoo

TEXT = "the key to the cabinets"


def bart(size):
    config = hf.BartConfig(
        vocab_size=size,
        d_model=16,
        encoder_layers=2,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=16,
        decoder_ffn_dim=16,
        pad_token_id=0,
        bos_token_id=2,
        eos_token_id=3,
        decoder_start_token_id=2,
    )
    return hf.BartModel(config).eval()


def test_one_of_several_stacks_is_explained():
    tokenizer = zoo.wordpiece_tokenizer()
    model = bart(len(tokenizer))
    with pytest.raises(CaptureError, match=r"encoder–decoder .*model.get_encoder\(\)"):
        attnx.explain(model, tokenizer, TEXT)
    explanation = attnx.explain(model, tokenizer, TEXT, module="encoder", methods="rollout")
    assert explanation.layers == (1, 2)
    assert explanation.provenance["settings"]["module"] == "encoder"
    alone = attnx.explain(model.get_encoder(), tokenizer, TEXT, methods="rollout")
    assert (explanation["rollout"] == alone["rollout"]).all()


def test_a_stack_that_is_not_there_names_those_that_are():
    tokenizer = zoo.wordpiece_tokenizer()
    with pytest.raises(CaptureError, match=r"no attention was seen .* below 'decodr'.*module='encoder' \(2 layers"):
        attnx.explain(bart(len(tokenizer)), tokenizer, TEXT, module="decodr")
    with pytest.raises(ChoiceError, match="module must be"):
        attnx.explain(zoo.classifier(), tokenizer, TEXT, module=3)


def test_the_encoder_is_not_advised_where_it_does_not_take_what_the_model_takes():
    tokenizer = zoo.wordpiece_tokenizer()
    model = bart(len(tokenizer))
    model.main_input_name = "pixel_values"
    with pytest.raises(CaptureError, match=r"module='encoder'"):
        attnx.explain(model, tokenizer, TEXT)


def test_heads_that_convolve_are_noted():
    tokenizer = zoo.wordpiece_tokenizer()
    config = hf.ConvBertConfig(vocab_size=len(tokenizer), embedding_size=16, conv_kernel_size=3, **zoo.WIDTH)
    notes = attnx.explain(hf.ConvBertModel(config).eval(), tokenizer, TEXT, methods="rollout").notes
    assert any("encoder.layer.#.attention.self" in note and "not followed" in note for note in notes)


@pytest.mark.skipif(not hasattr(hf, "FalconH1Config"), reason="this transformers has no Falcon-H1")
def test_a_state_space_beside_attention_is_noted():
    tokenizer = zoo.wordpiece_tokenizer()
    config = hf.FalconH1Config(
        vocab_size=len(tokenizer),
        mamba_d_ssm=32,
        mamba_n_heads=4,
        mamba_d_head=8,
        mamba_d_state=8,
        mamba_n_groups=1,
        **zoo.WIDTH,
        **zoo.GROUPED,
    )
    notes = attnx.explain(hf.FalconH1Model(config).eval(), tokenizer, TEXT, methods="rollout").notes
    assert any("layers.#.mamba" in note and "not followed" in note for note in notes)


@pytest.mark.parametrize("model", [zoo.classifier, zoo.masked_lm])
def test_plain_transformers_get_no_such_note(model):
    assert not attnx.explain(model(), zoo.wordpiece_tokenizer(), "the key [MASK]", methods="rollout").notes
