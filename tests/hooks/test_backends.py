"""Both backends see the attention that eager attention returns, while the model stays on its own implementation."""

import pytest
import torch
import transformers as hf

import attnx
from attnx.errors import CaptureError, ChoiceError, InputError
from attnx.hooks import capture_batch
from attnx.hooks.capture import capture, recording
from tests import half_precision, zoo


def eager_attention(name):
    output = zoo.model(name, "eager")(**zoo.inputs(name), output_attentions=True)
    return torch.stack(output.attentions)[:, 0].detach()


@pytest.mark.parametrize("name", zoo.FAMILIES)
def test_observer_sees_what_eager_attention_returns(name):
    model = zoo.model(name)
    assert model.config._attn_implementation == ("sdpa" if type(model)._supports_sdpa else "eager")
    attention = capture(model, backend="observer", **zoo.inputs(name))
    torch.testing.assert_close(attention.weights, eager_attention(name), atol=2e-5, rtol=0)


@pytest.mark.parametrize("name", zoo.FAMILIES)
def test_interface_sees_what_eager_attention_returns(name):
    zoo.needs_interface(name)
    attention = capture(zoo.model(name), backend="interface", **zoo.inputs(name))
    torch.testing.assert_close(attention.weights, eager_attention(name), atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", zoo.FAMILIES)
def test_rollout_equals_an_independent_numpy_product(name):
    expected = None
    for weights in eager_attention(name).double().mean(1).numpy():
        mixed = weights + torch.eye(len(weights)).numpy()
        mixed = mixed / mixed.sum(-1, keepdims=True)
        expected = mixed if expected is None else mixed @ expected
    rolled = attnx.rollout(capture(zoo.model(name), **zoo.inputs(name)), layer=3)
    torch.testing.assert_close(rolled, torch.as_tensor(expected), atol=1e-5, rtol=0)


@pytest.mark.slow
def test_flex_attention_is_seen_through_the_interface():
    zoo.needs_interface("llama")
    model = zoo.model("llama", "flex_attention")
    try:
        model(**zoo.inputs("llama"))
    except Exception as error:
        pytest.skip(f"flex attention itself does not run on this machine: {type(error).__name__}")
    attention = capture(model, **zoo.inputs("llama"))
    torch.testing.assert_close(attention.weights, eager_attention("llama"), atol=1e-5, rtol=0)
    assert model.config._attn_implementation == "flex_attention"


def test_layers_are_named_by_their_modules_in_calling_order():
    attention = capture(zoo.model("bert"), **zoo.inputs("bert"))
    assert attention.modules == tuple(f"encoder.layer.{layer}.attention.self" for layer in range(3))


def test_a_module_called_for_every_layer_is_seen_in_every_layer():
    attention = capture(zoo.model("albert"), **zoo.inputs("albert"))
    assert attention.num_layers == 3
    assert len(set(attention.modules)) == 1


@pytest.mark.skipif(not hasattr(hf, "GptOssConfig"), reason="this transformers has no model with sinks")
def test_sinks_leave_rows_below_one():
    config = hf.GptOssConfig(
        vocab_size=zoo.VOCABULARY, head_dim=8, num_local_experts=4, num_experts_per_tok=2, **zoo.WIDTH, **zoo.GROUPED
    )
    torch.manual_seed(0)
    attention = capture(hf.GptOssModel(config).eval(), **zoo.inputs("llama"))
    assert attention.causal
    assert float(attention.weights.sum(-1).max()) < 1


def test_torchs_own_attention_module_is_seen():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.MultiheadAttention(8, 2, batch_first=True)

        def forward(self, states):
            return self.layer(states, states, states, need_weights=False)[0]

    torch.manual_seed(0)
    model, states = Model().eval(), torch.randn(1, 5, 8)
    attention = capture(model, states=states)
    _, expected = model.layer(states, states, states, average_attn_weights=False)
    torch.testing.assert_close(attention.weights[0], expected[0])


def test_a_router_is_not_taken_for_attention():
    torch.manual_seed(0)
    config = hf.MixtralConfig(vocab_size=zoo.VOCABULARY, num_local_experts=4, **zoo.WIDTH, **zoo.GROUPED)
    assert capture(hf.MixtralModel(config).eval(), **zoo.inputs("llama")).num_layers == 3


def test_watch_records_a_call_that_the_user_makes():
    model = zoo.model("bert")
    with recording(model) as recorder:
        model(**zoo.inputs("bert"))
    assert [record.weights.shape for record in recorder.records] == [(1, 4, 9, 9)] * 3


def test_heads_are_merged_layer_by_layer():
    whole = capture(zoo.model("gpt2"), **zoo.inputs("gpt2"))
    for name, merge in {"mean": torch.mean, "max": torch.amax, "min": torch.amin}.items():
        merged = capture(zoo.model("gpt2"), head=name, **zoo.inputs("gpt2"))
        assert merged.head == name
        expected = merge(whole.weights, dim=1)
        torch.testing.assert_close(merged.weights[:, 0], expected / expected.sum(-1, keepdim=True))
    tops = capture(zoo.model("gpt2"), head=lambda weights: weights[:, :2], **zoo.inputs("gpt2"))
    torch.testing.assert_close(tops.weights, whole.weights[:, :2])


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "vit"])
def test_values_and_projections_reproduce_the_attention_block(name):
    model, seen = zoo.model(name), {}
    attention = capture(model, extras=("values", "projections"), **zoo.inputs(name))
    projection = next(
        module for module in model.modules() if getattr(module, "weight", None) is not None
        and module.weight.data_ptr() == attention.projections[0].data_ptr()
    )  # fmt: skip
    handle = projection.register_forward_pre_hook(lambda _, args: seen.setdefault("mixed", args[0]))
    model(**zoo.inputs(name))
    handle.remove()
    mixed = (attention.weights[0] @ attention.values[0]).transpose(0, 1).flatten(1)
    torch.testing.assert_close(mixed, seen["mixed"][0].detach(), atol=1e-5, rtol=1e-4)


def test_gradients_reach_the_recorded_weights():
    model = zoo.model("bert")
    captured = capture_batch(model, zoo.inputs("bert"), gradients=True)
    gradients = torch.autograd.grad(
        captured.output.last_hidden_state.square().sum(), captured.attention[0].differentiable
    )
    assert all(float(one.abs().max()) > 0 for one in gradients)
    assert all(parameter.grad is None for parameter in model.parameters())


def test_half_precision_gives_float32_numbers():
    half_precision.needs("float16")
    model = hf.BertModel(zoo.model("bert").config)
    model.load_state_dict(zoo.model("bert").state_dict())
    attention = capture(model.half().eval(), **zoo.inputs("bert"))
    assert attention.weights.dtype == torch.float32
    torch.testing.assert_close(
        attention.weights, capture(zoo.model("bert"), **zoo.inputs("bert")).weights, atol=0.05, rtol=0
    )


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_rows_that_a_model_rounded_to_more_than_one_are_attention_still(dtype):
    half_precision.needs(dtype)
    model = hf.GPTNeoModel(zoo.model("gpt_neo").config)
    model.load_state_dict(zoo.model("gpt_neo").state_dict())
    attention = capture(model.to(getattr(torch, dtype)).eval(), **zoo.inputs("gpt_neo"))
    assert float(attention.weights.sum(-1).amax()) < 1 + 1e-6
    exact = capture(zoo.model("gpt_neo"), **zoo.inputs("gpt_neo"))
    torch.testing.assert_close(attnx.rollout(attention), attnx.rollout(exact), atol=0.1, rtol=0)


@pytest.mark.slow
def test_a_compiled_model_is_unwrapped():
    model = zoo.model("bert")
    attention = capture(torch.compile(model), **zoo.inputs("bert"))
    torch.testing.assert_close(attention.weights, capture(model, **zoo.inputs("bert")).weights)


REFUSED = {
    "windows": (
        lambda: hf.SwinModel(
            hf.SwinConfig(image_size=32, patch_size=2, embed_dim=16, depths=[1, 1], num_heads=[2, 2], window_size=4)
        ),
        "vit",
    ),
    "no attention": (
        lambda: hf.MambaModel(hf.MambaConfig(vocab_size=120, hidden_size=16, num_hidden_layers=1)),
        "bert",
    ),
    "windows ": (
        lambda: hf.LongformerModel(hf.LongformerConfig(vocab_size=120, attention_window=4, **zoo.WIDTH)),
        "bert",
    ),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_layouts_without_a_map_are_refused_by_name(reason):
    make, family = REFUSED[reason]
    with pytest.raises(CaptureError, match=reason.strip()):
        capture(make().eval(), **zoo.inputs(family))


def test_one_of_several_stacks_can_be_chosen():
    torch.manual_seed(0)
    config = hf.CLIPConfig(
        text_config={**zoo.WIDTH, "vocab_size": 99, "eos_token_id": 98},
        vision_config={**zoo.WIDTH, "image_size": 32, "patch_size": 8},
    )
    model = hf.CLIPModel(config).eval()
    inputs = {**zoo.inputs("bert"), **zoo.inputs("vit")}
    inputs["input_ids"] = inputs["input_ids"] % 90
    with pytest.raises(
        CaptureError, match=r"several stacks .*text_model.*vision_model|several stacks .*vision_model.*text_model"
    ):
        capture(model, **inputs)
    assert capture(model, module="vision_model", **inputs).length == 17
    assert capture(model, module="text_model", **inputs).causal


def test_not_a_number_is_reported_with_its_layer():
    model = hf.BertModel(zoo.model("bert").config).eval()
    with torch.no_grad():
        model.encoder.layer[1].attention.self.query.weight.fill_(float("nan"))
    with pytest.raises(CaptureError, match=r"layer 2 .* not finite"):
        capture(model, **zoo.inputs("bert"))


def test_a_model_that_answers_differently_when_watched_is_reported():
    model = hf.BertModel(zoo.model("bert").config).eval()
    calls = []
    model.register_forward_hook(
        lambda _, args, output: (
            calls.append(0) or output.__class__({**output, "last_hidden_state": output[0] + len(calls)})
        )
    )
    with pytest.raises(CaptureError, match="watched"):
        capture(model, **zoo.inputs("bert"))


def test_bad_arguments_say_what_to_do():
    with pytest.raises(ChoiceError, match="observer, interface"):
        capture(zoo.model("bert"), backend="hooks", **zoo.inputs("bert"))
    with pytest.raises(ChoiceError, match="'mean', 'max', 'min'"):
        capture(zoo.model("bert"), head="median", **zoo.inputs("bert"))
    with pytest.raises(InputError, match="return_tensors"):
        capture(zoo.model("bert"))
    with pytest.raises(InputError, match="batch of 2"):
        capture(zoo.model("bert"), input_ids=torch.ones(2, 4, dtype=torch.long))
    with pytest.raises(CaptureError, match="observer"):
        capture(zoo.model("bloom"), backend="interface", **zoo.inputs("bloom"))


def test_self_and_cross_attention_in_turn_are_not_one_stack():
    config = hf.BartConfig(
        vocab_size=zoo.VOCABULARY,
        d_model=16,
        encoder_layers=1,
        decoder_layers=2,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=16,
        decoder_ffn_dim=16,
    )
    ids = zoo.inputs("bert")["input_ids"]
    with pytest.raises(CaptureError, match=r"self_attn .*encoder_attn"):
        capture(hf.BartModel(config).eval(), module="decoder", input_ids=ids, decoder_input_ids=ids)


def test_a_pooling_head_is_no_layer():
    config = hf.SiglipVisionConfig(image_size=32, patch_size=8, **zoo.WIDTH)
    attention = capture(hf.SiglipVisionModel(config).eval(), **zoo.inputs("vit"))
    assert (attention.num_layers, attention.length) == (3, 16)


def test_products_with_named_operands_are_seen():
    class Model(torch.nn.Module):
        def forward(self, states):
            weights = torch.softmax(input=states @ states.mT, dim=-1)
            return torch.matmul(input=weights, other=states)

    assert capture(Model(), states=torch.randn(1, 2, 5, 3)).length == 5


def test_values_that_are_not_finite_are_reported():
    model = hf.BertModel(zoo.model("bert").config).eval()
    with torch.no_grad():
        model.encoder.layer[0].attention.self.value.weight.fill_(float("inf"))
    with pytest.raises(CaptureError, match=r"layer.0.* not finite"):
        capture(model, **zoo.inputs("bert"))
