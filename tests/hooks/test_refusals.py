"""Nothing but an `AttnxError` leaves capture, and it has the model's own words."""

import pytest
import torch
import transformers as hf

from attnx.errors import ArgumentError, AttnxError, CaptureError
from attnx.hooks import capture_batch
from attnx.hooks.capture import capture
from tests import zoo

BART = {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 16, "decoder_ffn_dim": 16}
TWO_HEADS = {"encoder_attention_heads": 2, "decoder_attention_heads": 2}


def test_an_id_out_of_range_is_told_in_the_models_words():
    with pytest.raises(CaptureError, match=r"BertModel refused the input \(IndexError: index out of range"):
        capture(zoo.model("bert"), input_ids=torch.tensor([[5, 100_000]]))


def test_an_error_of_the_models_own_is_told_in_its_words():
    with pytest.raises(CaptureError, match="You must specify exactly one of input_ids or inputs_embeds") as refusal:
        capture(zoo.model("llama"), attention_mask=torch.ones(1, 4))
    assert isinstance(refusal.value.__cause__, ValueError)


@pytest.mark.parametrize("slip", [{"reduce": "mean"}, {"graph": True}, {"gradient": None}])
def test_a_keyword_that_neither_capture_nor_the_model_names_is_not_swallowed(slip):
    with pytest.raises(ArgumentError, match=f"argument of capture '{next(iter(slip))}' is not known; there are: head"):
        capture(zoo.model("bert"), **zoo.inputs("bert"), **slip)


def test_longformer_with_every_token_global_is_refused():
    ids = zoo.inputs("bert")["input_ids"]
    model = hf.LongformerModel(hf.LongformerConfig(vocab_size=120, attention_window=4, **zoo.WIDTH)).eval()
    with pytest.raises(CaptureError, match="bands or blocks"):
        capture(model, input_ids=ids, global_attention_mask=torch.ones_like(ids))


def test_led_with_every_token_global_is_refused():
    ids = zoo.inputs("bert")["input_ids"]
    model = hf.LEDModel(hf.LEDConfig(vocab_size=120, attention_window=4, **BART, **TWO_HEADS)).eval()
    with pytest.raises(CaptureError, match="bands or blocks"):
        capture(model, input_ids=ids, decoder_input_ids=ids, global_attention_mask=torch.ones_like(ids))


def test_seggpt_is_refused():
    config = hf.SegGptConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        image_size=[32, 16],
        patch_size=8,
        pretrain_image_size=32,
        merge_index=0,
        intermediate_hidden_state_indices=[1],
    )
    pixels = torch.randn(1, 3, 16, 16)
    with pytest.raises(AttnxError):
        capture(hf.SegGptModel(config).eval(), pixel_values=pixels, prompt_pixel_values=pixels, prompt_masks=pixels)


@pytest.mark.parametrize("module", ["", "model.decoder"])
def test_attention_by_sampling_is_refused(module):
    """What is left to be seen of Deformable DETR are its object queries among themselves."""
    stages = {"hidden_sizes": [8] * 4, "depths": [1] * 4, "out_features": ["stage2", "stage3", "stage4"]}
    backbone = {"use_timm_backbone": False, "use_pretrained_backbone": False, "backbone": None}
    backbone["backbone_config"] = hf.ResNetConfig(embedding_size=8, **stages)
    sizes = {**BART, **TWO_HEADS, "d_model": 32, "decoder_layers": 2, "num_queries": 5}
    model = hf.DeformableDetrForObjectDetection(hf.DeformableDetrConfig(**backbone, **sizes)).eval()
    with pytest.raises(CaptureError, match=r"attends by sampling in model\.(en|de)coder\.layers\.0.*use a model"):
        capture(model, module=module, pixel_values=torch.randn(1, 3, 96, 96))


class Described(torch.nn.Module):
    """Reads a text, and patches that come in one row for all images."""

    def __init__(self):
        super().__init__()
        self.text = zoo.model("llama")

    def forward(self, pixel_values, input_ids):
        return self.text(input_ids=input_ids).last_hidden_state + pixel_values.mean()


@pytest.mark.parametrize("order", [("pixel_values", "input_ids"), ("input_ids", "pixel_values")])
def test_the_order_of_keywords_does_not_matter(order):
    given = {"pixel_values": torch.randn(24, 12), "input_ids": zoo.inputs("llama")["input_ids"].repeat(2, 1)}
    captured = capture_batch(Described(), {name: given[name] for name in order})
    assert [one.length for one in captured.attention] == [9, 9]
