"""Levels of a stack read one another; windows are no heads; what an error advises works."""

import pytest
import torch
import transformers as hf
from torch import nn

from attnx.errors import CaptureError
from attnx.hooks.capture import capture
from tests import zoo


class Twice(nn.Module):
    """One stack that reads two texts, or its own result again."""

    def __init__(self, stack, *, again=False):
        super().__init__()
        self.stack, self.again = stack, again

    def forward(self, first, second):
        states = self.stack(input_ids=first).last_hidden_state
        then = {"inputs_embeds": states} if self.again else {"input_ids": second}
        return states + self.stack(**then).last_hidden_state


def texts():
    ids = zoo.inputs("bert")["input_ids"]
    return {"first": ids, "second": ids.flip(1)}


@pytest.mark.parametrize("held", [True, False])
@pytest.mark.parametrize("backend", ["observer", "interface"])
def test_one_stack_on_two_texts_is_not_a_deeper_stack(backend, held):
    zoo.needs_interface("bert")
    model = Twice(zoo.model("bert"))
    model._supports_attention_backend = True
    with pytest.raises(CaptureError, match=r"separate passes .*one input at a time"):
        capture(model, backend=backend, held=held, **texts())


@pytest.mark.parametrize("backend", ["observer", "interface"])
def test_a_stack_that_reads_its_own_result_is_deeper(backend):
    zoo.needs_interface("bert")
    model = Twice(zoo.model("bert"), again=True)
    model._supports_attention_backend = True
    assert capture(model, backend=backend, **texts()).num_layers == 6


def test_two_images_of_one_text_are_separate_passes():
    config = hf.ViltConfig(
        vocab_size=120, image_size=32, patch_size=8, num_images=2, modality_type_vocab_size=3, **zoo.WIDTH
    )
    model = hf.ViltForImagesAndTextClassification(config).eval()
    images = {"pixel_values": torch.randn(1, 2, 3, 32, 32), "pixel_mask": torch.ones(1, 2, 32, 32)}
    with pytest.raises(CaptureError, match="separate passes"):
        capture(model, **zoo.inputs("bert"), **images)


def test_states_written_into_a_buffer_are_followed():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))

        def forward(self, states):
            for layer in self.layers:
                mixed = torch.softmax(states @ states.mT, -1) @ states
                written = torch.zeros_like(states)
                written[:, :, :3] = layer(mixed)[:, :, :3]
                written.view(-1, 8)[:, 3:].copy_(layer(mixed).view(-1, 8)[:, 3:])
                states = written
            return states

    assert capture(Model(), states=torch.randn(1, 1, 5, 8)).num_layers == 3


def test_albert_on_a_single_position_is_a_stack():
    ids = torch.tensor([[7]])
    assert capture(zoo.model("albert"), input_ids=ids).num_layers == 3
    assert capture(zoo.model("albert"), held=False, input_ids=ids).num_layers == 3


@pytest.mark.skipif(not hasattr(hf, "DiffLlamaConfig"), reason="this transformers has no model of two attentions")
def test_one_attention_used_twice_in_a_layer_is_refused():
    torch.manual_seed(0)
    model = hf.DiffLlamaModel(hf.DiffLlamaConfig(vocab_size=zoo.VOCABULARY, **zoo.WIDTH, **zoo.GROUPED)).eval()
    with pytest.raises(CaptureError, match="same attention twice"):
        capture(model, **zoo.inputs("llama"))


def sam(implementation, *, window):
    torch.manual_seed(0)
    config = hf.SamVisionConfig(
        hidden_size=32,
        output_channels=16,
        num_hidden_layers=2,
        num_attention_heads=4,
        image_size=96,
        patch_size=8,
        window_size=window,
        global_attn_indexes=[],
        mlp_dim=48,
    )
    return hf.SamVisionModel._from_config(config, attn_implementation=implementation).eval()


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
@pytest.mark.parametrize("window", [6, 14])
def test_windows_are_no_heads(implementation, window):
    with pytest.raises(CaptureError, match="window"):
        capture(sam(implementation, window=window), pixel_values=torch.randn(1, 3, 96, 96))


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_a_window_over_the_whole_image_is_a_map_of_its_heads(implementation):
    attention = capture(sam(implementation, window=0), pixel_values=torch.randn(1, 3, 96, 96))
    assert (attention.num_heads, attention.length) == (4, 144)


class Folded(nn.Module):
    """Attention as `bmm` has it, heads in one axis with the batch."""

    def __init__(self, *, project):
        super().__init__()
        self.project = nn.Linear(8, 8) if project else None

    def forward(self, states):
        heads = states.view(-1, 5, 2, 4).transpose(1, 2).reshape(-1, 5, 4)
        mixed = torch.bmm(torch.softmax(torch.bmm(heads, heads.mT), -1), heads)
        mixed = mixed.view(-1, 2, 5, 4).transpose(1, 2).reshape(-1, 5, 8)
        return mixed if self.project is None else self.project(mixed)


def test_folded_heads_are_counted_by_the_width_of_the_projection():
    assert capture(Folded(project=True), states=torch.randn(1, 5, 8)).num_heads == 2


def test_folded_maps_that_nothing_explains_are_refused():
    with pytest.raises(CaptureError, match="heads or windows"):
        capture(Folded(project=False), states=torch.randn(1, 5, 8))


def test_what_an_error_advises_works():
    config = hf.T5Config(vocab_size=120, d_model=16, num_layers=2, num_heads=2, d_kv=8, d_ff=16)
    model, ids = hf.T5Model(config).eval(), zoo.inputs("t5")["input_ids"]
    for within in ("decoder", "decoder.block"):
        with pytest.raises(CaptureError, match=r"module='encoder' \(2 layers of 9 positions\)") as refusal:
            capture(model, module=within, input_ids=ids, decoder_input_ids=ids[:, :4])
        assert "module='decoder" not in str(refusal.value)
    assert capture(model, module="encoder", input_ids=ids, decoder_input_ids=ids[:, :4]).length == 9


def test_of_a_model_with_several_images_the_text_alone_can_be_chosen():
    torch.manual_seed(0)
    text = {**zoo.WIDTH, **zoo.GROUPED, "vocab_size": 120, "model_type": "llama"}
    vision = {**zoo.WIDTH, "image_size": 16, "patch_size": 4}
    config = hf.Idefics3Config(text_config=text, vision_config=vision, scale_factor=2, image_token_id=119)
    model = hf.Idefics3Model(config).eval()
    ids = torch.tensor([[5, *[119] * 8, 7, 9]])
    inputs = {"pixel_values": torch.randn(1, 2, 3, 16, 16), "input_ids": ids}
    assert capture(model, **inputs).sequences == {"text": slice(0, 11), "picture": slice(11, 43)}
    assert capture(model, module="text_model", **inputs).length == 11
