"""Queries and keys that are made again where they are read are those that the model had."""

import gc
import weakref

import pytest
import torch

import attnx
from attnx.attention.anew import Anew
from attnx.attention.computed import Computed
from attnx.attention.levels import all_keys, blocks
from attnx.capturing import remaking
from attnx.capturing.capture import capture, capture_batch
from attnx.errors import CaptureError
from attnx.running import plan
from tests import zoo

MADE_ANEW = ("bert", "distilbert", "gpt2", "roberta", "gpt_neox", "opt", "llama", "gemma3")


@pytest.fixture(autouse=True)
def nothing_fits(monkeypatch):
    monkeypatch.setattr(remaking, "KEPT_AT_MOST", 0)


def captured(name, **how):
    (found,) = capture_batch(zoo.model(name), zoo.inputs(name, 13), held=False, **how).attention
    return found


def _changed(tensor):
    tensor.add_(1e-3)


def rows(level, length):
    return torch.cat([all_keys(level.rows(*span), length) for span in blocks(level)], dim=1)


@pytest.mark.parametrize("name", zoo.FAMILIES)
def test_in_every_family_they_are_the_ones_that_are_kept(name):
    before = {key: one.clone() for key, one in zoo.model(name).state_dict().items()}
    kept, anew = captured(name), captured(name, anew=True)
    assert (anew.heads, anew.length, anew.causal, anew.modules) == (kept.heads, kept.length, kept.causal, kept.modules)
    for one, other in zip(anew.levels, kept.levels, strict=True):
        assert torch.equal(rows(one, anew.length), rows(other, kept.length))
    assert all(torch.equal(one, before[key]) for key, one in zoo.model(name).state_dict().items())
    assert not any(module._forward_pre_hooks or module._forward_hooks for module in zoo.model(name).modules())


@pytest.mark.parametrize("name", MADE_ANEW)
def test_families_of_every_kind_are_made_anew(name):
    assert all(isinstance(level, Anew) for level in captured(name, anew=True).levels)


def test_only_what_was_read_last_is_in_memory():
    attention = captured("gpt2", anew=True)
    made = [weakref.ref(level.made().query) for level in attention.levels]
    gc.collect()
    assert [one() is not None for one in made] == [False, False, True]


def test_little_is_kept(monkeypatch):
    monkeypatch.setattr(remaking, "KEPT_AT_MOST", 2**30)
    assert all(isinstance(level, Computed) for level in captured("gpt2", anew=True).levels)


def test_who_captures_gets_what_was_seen_whatever_becomes_of_the_model():
    assert all(
        isinstance(level, Computed) for level in capture(zoo.model("gpt2"), held=False, **zoo.inputs("gpt2", 13)).levels
    )


def test_a_block_that_changes_its_input_is_kept():
    model = zoo.TEXT["gpt2"]().eval()
    plain = model.h[0].mlp.forward

    def changing(states):
        taken.add_(1.0)
        return plain(states)

    def entering(module, args):
        nonlocal taken
        taken = args[0]

    taken = None
    model.h[0].register_forward_pre_hook(entering)
    model.h[0].mlp.forward = changing
    (found,) = capture_batch(model, zoo.inputs("gpt2", 13), held=False, anew=True).attention
    assert isinstance(found.levels[0], Computed)


def test_what_is_changed_behind_its_block_is_not_taken_for_what_it_was():
    model = zoo.TEXT["gpt2"]().eval()
    entered = []
    model.h[1].register_forward_pre_hook(lambda module, args: entered.append(args[0]))
    model.ln_f.register_forward_hook(lambda module, args, output: _changed(entered[-1]))
    (found,) = capture_batch(model, zoo.inputs("gpt2", 13), held=False, anew=True).attention
    assert rows(found.levels[0], 13).isfinite().all()
    with pytest.raises(CaptureError, match=r"h\.1\.attn gave other queries and keys"):
        found.levels[1].rows(0, 2)


def test_a_block_that_draws_lots_is_kept():
    model = zoo.TEXT["gpt2"]().eval()
    norm = model.h[0].ln_1
    norm.register_forward_hook(lambda module, args, output: output + 1e-6 * torch.randn_like(output))
    (found,) = capture_batch(model, zoo.inputs("gpt2", 13), held=False, anew=True).attention
    assert all(isinstance(level, Computed) for level in found.levels)


def test_explain_says_the_same(monkeypatch):
    monkeypatch.setattr(plan, "LONG_INPUT", 4)
    model, tokenizer = zoo.causal_lm(), zoo.bytelevel_tokenizer()
    text = "the key to the cabinets"
    found = attnx.explain(model, tokenizer, text, methods=("raw", "rollout"), references=())
    monkeypatch.setattr(remaking, "KEPT_AT_MOST", 2**30)
    kept = attnx.explain(model, tokenizer, text, methods=("raw", "rollout"), references=())
    for method in ("raw", "rollout"):
        assert (found.relevance[method] == kept.relevance[method]).all()
