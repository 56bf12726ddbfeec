"""Models as they are loaded in practice: offloaded, quantized, compiled. Each is explained as the plain model is, or
refused with the true reason, and is afterwards what it was."""

import copy
from functools import cache

import numpy as np
import pytest
import torch

import attnx
from attnx.methods.registry import METHODS
from attnx.references.registry import REFERENCES
from tests import zoo

TEXT = "the key to the"
CPU = torch.device("cpu")


def decoder():
    """A GPT-2 with tied embeddings, no bias of which is 0."""
    model = copy.deepcopy(zoo.causal_lm())
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=0.1)
    return model


@cache
def plain_model():
    return decoder()


def explained(model, name):
    """The scores by a method or a reference, which are one list for these tests."""
    asked = {"references": [name], "methods": ["rollout"]} if name in REFERENCES.names() else {"methods": [name]}
    explanation = attnx.explain(model, zoo.bytelevel_tokenizer(), TEXT, **{"references": [], **asked})
    return explanation.references[name] if name in REFERENCES.names() else explanation[name]


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
