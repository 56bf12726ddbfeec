"""To ask a tensor for its value makes a GPU stand still. However deep a model is, that happens no more often.

No GPU is needed to see it: a mode of torch counts the operations whose answer the program waits for.
"""

import pytest
import torch
import transformers as hf
from torch.utils._python_dispatch import TorchDispatchMode

import attnx
from attnx.attention import masks as waiting
from attnx.hooks import capture_batch
from attnx.hooks.verification import DeferredCheck, verify
from tests import zoo

WAITED_FOR = {"_local_scalar_dense", "is_nonzero", "equal", "nonzero", "masked_select", "unique_consecutive"}
"""What has a number, a truth or a shape for an answer that is known only when it has been computed."""


class Waits(TorchDispatchMode):
    """Counts what the program waits for."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += func.overloadpacket.__name__ in WAITED_FOR
        return func(*args, **(kwargs or {}))


def bert(layers):
    torch.manual_seed(0)
    size = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 16, "vocab_size": 50}
    return hf.BertForSequenceClassification(hf.BertConfig(num_hidden_layers=layers, **size)).eval()


def llama(layers):
    torch.manual_seed(0)
    size = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 16, "vocab_size": 50}
    return hf.LlamaForCausalLM(hf.LlamaConfig(num_hidden_layers=layers, **size)).eval()


def eager_bert(layers):
    return by_itself(bert(layers))


def eager_llama(layers):
    return by_itself(llama(layers))


def bloom(layers):
    """Has attention of its own, which no setting changes."""
    torch.manual_seed(0)
    return hf.BloomForCausalLM(hf.BloomConfig(n_layer=layers, hidden_size=16, n_head=2, vocab_size=50)).eval()


def deberta(layers):
    torch.manual_seed(0)
    size = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 16, "vocab_size": 50}
    return hf.DebertaV2ForSequenceClassification(hf.DebertaV2Config(num_hidden_layers=layers, **size)).eval()


def by_itself(model):
    """Attention by a softmax that the model writes out."""
    return zoo.grad_mode(model, "eager")


MODELS = [bert, llama, eager_bert, eager_llama, bloom, deberta]


def inputs(padded):
    mask = torch.ones(3, 9, dtype=torch.long)
    if padded:
        mask[0, 5:] = mask[1, 7:] = 0
    return {"input_ids": torch.arange(27).view(3, 9) + 3, "attention_mask": mask}


def waits(make, layers, call):
    model = make(layers)
    call(model)  # what is found out once for a model
    with Waits() as counted:
        call(model)
    return counted.count


@pytest.fixture(autouse=True)
def _as_on_an_accelerator(monkeypatch):
    """Nothing is asked because its answer happens to be at hand."""
    monkeypatch.setattr(waiting, "on_cpu", lambda tensor: False)


@pytest.mark.parametrize("make", MODELS)
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("head", [None, "mean"])
def test_capturing_waits_no_more_often_for_more_layers(make, padded, head):
    def call(model):
        capture_batch(model, inputs(padded), head=head)

    assert waits(make, 2, call) == waits(make, 7, call) < 30


@pytest.mark.parametrize("make", MODELS)
def test_rollout_waits_no_more_often_for_more_layers(make):
    def call(model):
        for one in capture_batch(model, inputs(True), head="mean").attention:
            attnx.rollout(one, position=-1, layer=one.num_layers)

    assert waits(make, 2, call) == waits(make, 7, call)


@pytest.mark.parametrize("make", MODELS)
def test_what_is_not_at_hand_is_computed_to_the_same_numbers(make, monkeypatch):
    model = make(3)
    found = [one.weights for one in capture_batch(model, inputs(True)).attention]
    monkeypatch.undo()
    for one, other in zip(found, capture_batch(model, inputs(True)).attention, strict=True):
        assert torch.equal(one, other.weights)


def test_the_first_claim_that_does_not_hold_is_told():
    def claim(holds, text):
        return DeferredCheck(torch.tensor(holds), lambda: ValueError(text))

    verify([])
    verify([claim(True, "one")])
    with pytest.raises(ValueError, match="two"):
        verify([claim(True, "one"), claim(False, "two"), claim(False, "three")])
