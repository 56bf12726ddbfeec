"""Queries and keys that are made again where they are read are those that the model had."""

import gc
import weakref

import pytest
import torch

import attnx
from attnx.attention import ComputedLayer, RecomputedLayer, blocks, pad_keys
from attnx.errors import CaptureError
from attnx.hooks import capture_batch
from attnx.hooks import recompute as remaking
from attnx.hooks.capture import capture
from attnx.pipeline import options as plan
from tests import zoo

MADE_ANEW = ("bert", "distilbert", "gpt2", "roberta", "gpt_neox", "opt", "llama", "gemma3")


@pytest.fixture(autouse=True)
def nothing_fits(monkeypatch):
    monkeypatch.setattr(remaking, "KEPT_AT_MOST", 0)


def captured(name, **how):
    (found,) = capture_batch(zoo.model(name), zoo.inputs(name, 13), held=False, **how).attention
    return found


def rows(level, length):
    return torch.cat([pad_keys(level.rows(*span), length) for span in blocks(level)], dim=1)


def assert_same(anew, kept):
    for one, other in zip(anew.layers, kept.layers, strict=True):
        assert torch.equal(rows(one, anew.length), rows(other, kept.length))


@pytest.mark.parametrize("name", zoo.FAMILIES)
def test_in_every_family_they_are_the_ones_that_are_kept(name):
    before = {key: one.clone() for key, one in zoo.model(name).state_dict().items()}
    kept, anew = captured(name), captured(name, recompute=True)
    assert (anew.num_heads, anew.length, anew.causal, anew.modules) == (
        kept.num_heads,
        kept.length,
        kept.causal,
        kept.modules,
    )
    assert_same(anew, kept)
    assert all(torch.equal(one, before[key]) for key, one in zoo.model(name).state_dict().items())
    assert not zoo.observed(zoo.model(name))


@pytest.mark.parametrize("name", MADE_ANEW)
def test_families_of_every_kind_are_made_anew(name):
    assert all(isinstance(level, RecomputedLayer) for level in captured(name, recompute=True).layers)


def test_only_what_was_read_last_is_in_memory():
    attention = captured("gpt2", recompute=True)
    made = [weakref.ref(level.made().query) for level in attention.layers]
    gc.collect()
    assert [one() is not None for one in made] == [False, False, True]


def test_little_is_kept(monkeypatch):
    monkeypatch.setattr(remaking, "KEPT_AT_MOST", 2**30)
    assert all(isinstance(level, ComputedLayer) for level in captured("gpt2", recompute=True).layers)


def test_who_captures_gets_what_was_seen_whatever_becomes_of_the_model():
    assert all(
        isinstance(level, ComputedLayer)
        for level in capture(zoo.model("gpt2"), held=False, **zoo.inputs("gpt2", 13)).layers
    )


class Changing(torch.nn.Module):
    """A block's MLP, with something done first."""

    def __init__(self, inner, first):
        super().__init__()
        self.inner, self.first = inner, first

    def forward(self, states):
        self.first(states)
        return self.inner(states)


def altered(first=None, *, norm=None):
    """A model whose second block does something of its own before its MLP, or has another norm at its entry."""
    model = zoo.TEXT["gpt2"]().eval()
    block = model.h[1]
    if first is not None:
        block.mlp = Changing(block.mlp, first)
    if norm is not None:
        block.ln_1 = norm(block.ln_1)
    return model


def kinds(model, **more):
    (found,) = capture_batch(model, {**zoo.inputs("gpt2", 13), **more}, held=False, recompute=True).attention
    return [type(level) for level in found.layers]


class Second(torch.nn.Module):
    """A norm that does otherwise when it is called again."""

    def __init__(self, inner, otherwise):
        super().__init__()
        self.inner, self.otherwise, self.calls = inner, otherwise, 0

    def forward(self, states):
        self.calls += 1
        found = self.inner(states)
        return found if self.calls == 1 else self.otherwise(found)


def failing(states):
    raise ValueError("once is enough")


@pytest.mark.parametrize("otherwise", [lambda states: states + 1e-6, failing], ids=["other numbers", "an error"])
def test_a_block_that_does_otherwise_when_it_is_called_again_is_kept(otherwise, monkeypatch):
    model = altered(norm=lambda norm: Second(norm, otherwise))
    monkeypatch.setattr("attnx.hooks.capture._proven", {model})  # no plain run, which would be the second call
    assert kinds(model) == [RecomputedLayer, ComputedLayer, RecomputedLayer]


def test_a_block_with_hooks_of_somebody_else_is_kept():
    model = altered()
    calls = []
    model.h[1].register_forward_pre_hook(lambda module, args: calls.append(1))
    model.h[2].mlp.act.register_forward_hook(lambda module, args, output: calls.append(2))
    assert kinds(model) == [RecomputedLayer, ComputedLayer, ComputedLayer]
    assert calls == [1, 2, 1, 2]  # the run, and the plain one by which it is proven


def test_what_is_changed_behind_its_block_is_not_taken_for_what_it_was():
    model, entered = altered(), []
    model.wpe.register_forward_hook(lambda module, args, output: entered.append(None))
    inner = model.h[0].forward

    def forward(states, *args, **kwargs):
        entered.append(states)
        return inner(states, *args, **kwargs)

    model.h[0].forward = forward
    (found,) = capture_batch(model, zoo.inputs("gpt2", 13), held=False, recompute=True).attention
    assert rows(found.layers[1], 13).isfinite().all()
    entered[1][0, 5] += 1e-3  # one position, which may be none of those that are looked at
    with pytest.raises(CaptureError, match=r"h\.0\.attn gives other queries and keys"):
        found.layers[0].rows(0, 2)


def test_in_inference_mode_they_are_kept():
    with torch.inference_mode():
        assert kinds(altered()) == [ComputedLayer] * 3


def test_half_precision_is_made_anew():
    assert kinds(altered().to(torch.bfloat16)) == [RecomputedLayer] * 3


def test_a_mask_of_all_pairs_is_shared_and_does_not_count():
    long = zoo.inputs("mistral", 200)
    (found,) = capture_batch(zoo.model("mistral"), long, held=False, recompute=True).attention
    assert all(isinstance(level, RecomputedLayer) for level in found.layers)
    (kept,) = capture_batch(zoo.model("mistral"), long, held=False).attention
    assert all(
        torch.equal(rows(one, 200), rows(other, 200)) for one, other in zip(found.layers, kept.layers, strict=True)
    )


def test_padding_is_cropped():
    ids = zoo.inputs("bert", 13)
    padded = {"input_ids": ids["input_ids"], "attention_mask": torch.ones(1, 13, dtype=torch.long)}
    padded["attention_mask"][:, 10:] = 0
    (found,) = capture_batch(zoo.model("bert"), padded, held=False, recompute=True).attention
    (kept,) = capture_batch(zoo.model("bert"), padded, held=False).attention
    assert found.length == 10
    assert all(
        torch.equal(rows(one, 10), rows(other, 10)) for one, other in zip(found.layers, kept.layers, strict=True)
    )


def test_explain_says_the_same(monkeypatch):
    monkeypatch.setattr(plan, "LONG_INPUT", 4)
    model, tokenizer = zoo.causal_lm(), zoo.bytelevel_tokenizer()
    text = "the key to the cabinets"
    found = attnx.explain(model, tokenizer, text, methods=("raw", "rollout"), references=())
    monkeypatch.setattr(remaking, "KEPT_AT_MOST", 2**30)
    kept = attnx.explain(model, tokenizer, text, methods=("raw", "rollout"), references=())
    for method in ("raw", "rollout"):
        assert (found[method] == kept[method]).all()
