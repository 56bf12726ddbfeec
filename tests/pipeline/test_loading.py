"""Models as they are loaded in practice: offloaded, quantized, compiled. Each is explained as the plain model is, or
refused with the true reason, and is afterwards what it was."""

import copy
import itertools
import threading
from functools import cache

import numpy as np
import pytest
import torch
import transformers as hf

import attnx
from attnx.attribution import REFERENCES
from attnx.errors import AttnxError
from attnx.hooks import eval_mode
from attnx.methods import METHODS
from tests import zoo

TEXT = "the key to the"
CPU = torch.device("cpu")


def decoder():
    """A GPT-2 with tied embeddings, no bias of which is 0."""
    return with_biases(zoo.causal_lm())


def with_biases(model):
    model = copy.deepcopy(model)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=0.1)
    return model


@cache
def plain_model():
    return decoder()


def explained(model, name, tokenizer=None, **options):
    """The scores by a method or a reference, which are one list for these tests."""
    asked = {"references": [name], "methods": ["rollout"]} if name in REFERENCES.names() else {"methods": [name]}
    explanation = attnx.explain(
        model, tokenizer or zoo.bytelevel_tokenizer(), TEXT, **{"references": [], **asked, **options}
    )
    return explanation[name]


def logits(model):
    with torch.no_grad():
        return model(**zoo.bytelevel_tokenizer()(TEXT, return_tensors="pt")).logits


def cpu_offload(model, folder):
    pytest.importorskip("accelerate").cpu_offload(model, execution_device=CPU)


def disk_offload(model, folder):
    pytest.importorskip("accelerate").disk_offload(model, str(folder), execution_device=CPU)


def one_block_on_disk(model, folder):
    """As `device_map="auto"` does where memory is short: some modules are here, others on the disk."""
    devices = {"transformer.wte": "cpu", "transformer.wpe": "cpu", "transformer.drop": "cpu", "lm_head": "cpu"}
    devices |= {
        "transformer.h.0": "cpu",
        "transformer.h.1": "disk",
        "transformer.h.2": "cpu",
        "transformer.ln_f": "cpu",
    }
    pytest.importorskip("accelerate").dispatch_model(model, devices, main_device="cpu", offload_dir=str(folder))


OFFLOADED = {one.__name__: one for one in (cpu_offload, disk_offload, one_block_on_disk)}


def loaded_state(model):
    """What a run may not change of a model whose weights are loaded at each call."""
    modules = [(sorted(vars(module)), module.training, vars(module).get("_hf_hook")) for module in model.modules()]
    tensors = [*model.named_parameters(), *model.named_buffers()]
    return modules, [(name, one.device, one.dtype, one.shape, one.requires_grad) for name, one in tensors]


@pytest.mark.parametrize("name", [*METHODS.names(), *REFERENCES.names()])
@pytest.mark.parametrize("offload", OFFLOADED)
def test_an_offloaded_model_is_explained_like_the_plain_one_and_left_as_it_was(offload, name, tmp_path):
    model = decoder()
    OFFLOADED[offload](model, tmp_path)
    before = loaded_state(model)
    np.testing.assert_allclose(explained(model, name), explained(plain_model(), name), atol=1e-6, rtol=1e-5)
    assert loaded_state(model) == before
    assert torch.equal(logits(model), logits(plain_model()))


@pytest.mark.parametrize("name", ["globenc", "alti", "value_zeroing", "lrp", "blankout"])
def test_an_offloaded_encoder_with_norms_behind_its_sums_is_explained_like_the_plain_one(name, tmp_path):
    plain, tokenizer = with_biases(zoo.classifier()), zoo.wordpiece_tokenizer()
    model = copy.deepcopy(plain)
    disk_offload(model, tmp_path)
    before = loaded_state(model)
    np.testing.assert_allclose(
        explained(model, name, tokenizer), explained(plain, name, tokenizer), atol=1e-6, rtol=1e-5
    )
    assert loaded_state(model) == before


@pytest.mark.parametrize("name", ["lrp", "gradient", "gradient_rollout"])
def test_an_offloaded_encoder_decoder_with_tied_embeddings_is_explained_like_the_plain_one(name, tmp_path):
    torch.manual_seed(0)
    tokenizer = zoo.wordpiece_tokenizer()
    width = {"d_model": 32, "num_layers": 2, "num_heads": 4, "d_kv": 8, "d_ff": 48}
    ids = {"pad_token_id": 0, "eos_token_id": 3, "decoder_start_token_id": 0}
    plain = hf.T5ForConditionalGeneration(hf.T5Config(vocab_size=len(tokenizer), **width, **ids)).eval()
    model = copy.deepcopy(plain)
    disk_offload(model, tmp_path)
    scores = [explained(one, name, tokenizer, target_text="is on") for one in (model, plain)]
    np.testing.assert_allclose(*scores, atol=1e-6, rtol=1e-5)


def compiled(part, backend):
    return torch.compile(part, backend=backend)


def compiled_forward(model, backend):
    model.forward = compiled(model.forward, backend)


def compiled_submodule(model, backend):
    model.transformer = compiled(model.transformer, backend)


def compiled_blocks(model, backend):
    for number, block in enumerate(model.transformer.h):
        model.transformer.h[number] = compiled(block, backend)


def compiled_mlps(model, backend):
    for block in model.transformer.h:
        block.mlp.forward = compiled(block.mlp.forward, backend)


COMPILED = {one.__name__: one for one in (compiled_forward, compiled_submodule, compiled_blocks, compiled_mlps)}


@pytest.mark.slow
@pytest.mark.parametrize("part", COMPILED)
def test_compiled_parts_are_explained_like_plain_ones_and_stay_compiled(part):
    torch._dynamo.reset()
    runs = itertools.count()
    model = decoder()

    def backend(graph, inputs):
        return lambda *args: (next(runs), graph(*args))[1]

    COMPILED[part](model, backend)
    for name in ("rollout", "alti", "value_zeroing", "gradient_rollout", "alti_logit", "lrp", "blankout"):
        np.testing.assert_allclose(explained(model, name), explained(plain_model(), name), atol=1e-6, rtol=1e-5)
    assert next(runs) == 0
    torch.testing.assert_close(logits(model), logits(plain_model()))
    assert next(runs) > 1


def test_threads_that_explain_leave_the_stance_of_the_compiler_as_it_was():
    compiler = pytest.importorskip("torch._dynamo.eval_frame")
    before = compiler._stance
    begun, end = threading.Event(), threading.Event()

    def run_meanwhile():
        with eval_mode(plain_model()):
            begun.set()
            end.wait()

    with eval_mode(plain_model()):
        other = threading.Thread(target=run_meanwhile)
        other.start()
        begun.wait()
    assert compiler._stance.stance == "force_eager"
    end.set()
    other.join()
    assert compiler._stance is before


class Backwardless(torch.autograd.Function):
    @staticmethod
    def forward(ctx, states):
        return states.flip(-1)

    @staticmethod
    def backward(ctx, gradient):
        return None


@cache
def operator():
    """An operator of an extension, which has no formula for its gradient."""
    library = torch.library.Library("attnx_test", "FRAGMENT")
    library.define("reversed(Tensor states) -> Tensor")
    library.impl("reversed", lambda states: torch.from_numpy(states.detach().numpy()[..., ::-1].copy()), "CPU")
    return library, torch.ops.attnx_test.reversed


class Int8Weight(torch.Tensor):
    """Weights of a class of their own, whose linear maps autograd does not see."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        with torch.set_grad_enabled(torch.is_grad_enabled() and func is not torch.nn.functional.linear):
            return super().__torch_function__(func, types, args, kwargs)


class Quantized(torch.nn.Module):
    """Stands in for a layer's MLP: what else the layer does has gradients."""

    def __init__(self, mlp, compute):
        super().__init__()
        self.mlp, self.compute = mlp, compute

    def forward(self, states):
        return self.compute(self.mlp(states))


def mapped(states):
    return torch.nn.functional.linear(states, torch.eye(states.shape[-1]).as_subclass(Int8Weight)).as_subclass(
        torch.Tensor
    )


KERNELS = {
    "Backwardless": Backwardless.apply,
    "attnx_test.reversed": lambda states: operator()[1](states),
    "Int8Weight": mapped,
}
BY_GRADIENTS = ("gradient", "input_x_gradient", "integrated_gradients", "gradient_shap", "attn_lrp", "lrp")


@pytest.mark.filterwarnings("ignore:.*autograd kernel was not registered")
@pytest.mark.parametrize("name", BY_GRADIENTS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_a_kernel_without_gradient_is_refused_by_name(kernel, name):
    model = decoder()
    model.transformer.h[1].mlp = Quantized(model.transformer.h[1].mlp, KERNELS[kernel])
    with pytest.raises(AttnxError, match=rf"{kernel}.*blankout"):
        explained(model, name)


@pytest.mark.filterwarnings("ignore:.*autograd kernel was not registered")
@pytest.mark.parametrize("kernel", ["Backwardless", "attnx_test.reversed"])
def test_a_kernel_without_gradient_is_refused_by_methods_about_the_prediction(kernel):
    model = decoder()
    model.transformer.h[1].mlp = Quantized(model.transformer.h[1].mlp, KERNELS[kernel])
    with pytest.raises(AttnxError, match=r"hands no gradient back.*use rollout"):
        explained(model, "gradient_rollout")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.*autograd kernel was not registered")
@pytest.mark.parametrize("name", BY_GRADIENTS)
def test_a_dynamically_quantized_model_names_its_kernel_and_what_works(name):
    quantized = torch.ao.quantization.quantize_dynamic(copy.deepcopy(zoo.classifier()), {torch.nn.Linear})
    with pytest.raises(AttnxError, match=r"quantized\.linear_dynamic.*use methods=\['blankout'\]"):
        attnx.explain(quantized, zoo.wordpiece_tokenizer(), TEXT, references=[name])
    explanation = attnx.explain(quantized, zoo.wordpiece_tokenizer(), TEXT, references=["blankout"])
    assert np.ptp(explanation["blankout"]) > 0


def test_int8_weights_are_explained_like_the_weights_that_they_stand_for():
    quantization = pytest.importorskip("torchao.quantization", reason="torchao is not installed")
    torch.manual_seed(0)
    config = hf.LlamaConfig(vocab_size=len(zoo.bytelevel_tokenizer()), **zoo.WIDTH, **zoo.GROUPED)
    quantized = hf.LlamaForCausalLM(config).eval()
    quantization.quantize_(quantized, quantization.Int8WeightOnlyConfig())
    dense = hf.LlamaForCausalLM(config).eval()
    dense.load_state_dict({name: weight.dequantize() for name, weight in quantized.state_dict().items()})
    for name in ("alti", "value_zeroing", "gradient_rollout", "gradient", "lrp", "attn_lrp", "blankout"):
        np.testing.assert_allclose(explained(quantized, name), explained(dense, name), atol=1e-4, rtol=1e-3)
