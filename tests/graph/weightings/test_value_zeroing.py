"""`value_zeroing` against models run again with one value at 0, in families of every kind of block."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from attnx.errors import AttentionError
from attnx.graph import value_zeroing
from attnx.graph.value_zeroing import output_change, output_change_by_head
from attnx.hooks import ModuleObserver
from attnx.hooks.capture import capture
from tests import zoo

FAMILIES = ("bert", "distilbert", "gpt2", "llama", "mistral", "qwen3", "gpt_neox", "opt", "vit", "dinov2")
"""Post-LN, pre-LN, RMS norms, windows, grouped queries, parallel blocks, images, constants of channels."""


class Zeroed(TorchFunctionMode):
    """Values of one key are 0 in one of the model's attention calls; of one head, or of all."""

    def __init__(self, call, key, head=slice(None)):
        super().__init__()
        self.left, self.key, self.head = call, key, head

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if getattr(func, "__name__", "") == "scaled_dot_product_attention":
            query, key, value, *rest = args
            if self.left == 0:
                repeated = value.repeat_interleave(query.shape[1] // value.shape[1], 1).clone()
                key = key.repeat_interleave(query.shape[1] // key.shape[1], 1)
                repeated[:, self.head, self.key] = 0
                value = repeated
            self.left -= 1
            args = (query, key, value, *rest)
        return func(*args, **(kwargs or {}))


def in_double(name):
    inputs = {key: one.double() if one.is_floating_point() else one for key, one in zoo.inputs(name).items()}
    return copy.deepcopy(zoo.model(name)).double(), inputs


def left(model, inputs, attending, mode=None):
    """position × width: what leaves the block around a module."""
    modules, seen = dict(model.named_modules()), []
    lists = {id(one) for each in modules.values() if isinstance(each, nn.ModuleList) for one in each}
    path = attending.split(".")
    names = (".".join(path[:end]) for end in range(1, len(path) + 1))
    block = next(modules[name] for name in names if id(modules[name]) in lists)

    def note(module, args, kwargs, output):
        seen.append(output[0] if isinstance(output, tuple) else output)

    with torch.no_grad(), ModuleObserver([block], lambda *_: None, note):
        if mode is None:
            model(**inputs)
        else:
            with mode:
                model(**inputs)
    return seen[0][0].numpy()


def turned(one, other):
    return 1 - (one * other).sum(-1) / np.linalg.norm(one, axis=-1) / np.linalg.norm(other, axis=-1)


def normalize_rows_or_identity(matrix):
    sums = matrix.sum(-1, keepdims=True)
    return np.where(sums > 0, matrix / np.where(sums > 0, sums, 1), np.eye(len(matrix)))


@pytest.mark.slow
@pytest.mark.parametrize("held", [True, False])
@pytest.mark.parametrize("name", FAMILIES)
def test_subtraction_equals_running_the_layer_again_without_the_value(name, held):
    model, inputs = in_double(name)
    attention = capture(model, extras=("rest",), held=held, **inputs)
    for number, level in enumerate(attention.layers):
        whole = left(model, inputs, level.module)
        keys = range(attention.length)
        changed = [left(model, inputs, level.module, Zeroed(number, key)) for key in keys]
        expected = np.stack([turned(whole, one) for one in changed], axis=1).clip(0)
        expected[~level.mask.visible(0, attention.length).numpy()] = 0
        found = output_change(level, 0, attention.length).weights[0].numpy()
        np.testing.assert_allclose(found, normalize_rows_or_identity(expected), atol=1e-9)


def test_one_head_alone_is_that_head_zeroed():
    model, inputs = in_double("gpt2")
    attention = capture(model, extras=("rest",), **inputs)
    level, length = attention.layers[1], attention.length
    whole = left(model, inputs, level.module)
    found = output_change_by_head(level, 0, length).weights
    for head in range(level.heads):
        changed = [left(model, inputs, level.module, Zeroed(1, key, head)) for key in range(length)]
        expected = np.tril(np.stack([turned(whole, one) for one in changed], axis=1).clip(0))
        np.testing.assert_allclose(found[head], normalize_rows_or_identity(expected), atol=1e-8)


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_later_keys_give_exactly_nothing_also_in_single_precision(name):
    attention = capture(zoo.model(name), extras=("rest",), **zoo.inputs(name))
    for level in attention.layers:
        found = output_change(level, 0, attention.length).weights[0]
        assert not bool(found.triu(1).any())
        torch.testing.assert_close(found.sum(-1), torch.ones(attention.length).double())


def test_no_values_keep_everything_where_it_is():
    model, inputs = in_double("gpt2")
    level = capture(model, extras=("rest",), **inputs).layers[1]
    empty = replace(level, captured={**level.captured, "values": torch.zeros_like(level.captured["values"])})
    np.testing.assert_array_equal(output_change(empty, 0, 9).weights[0], np.eye(9))


@pytest.mark.parametrize("name", ["gpt2", "gpt_neox", "bert"])
def test_vectors_in_small_blocks_and_some_rows_give_the_same(name, monkeypatch):
    model, inputs = in_double(name)
    level = capture(model, extras=("rest",), **inputs).layers[1]
    expected = output_change(level, 0, 9).weights
    monkeypatch.setattr(value_zeroing, "MAX_BLOCK_ELEMENTS", 300)
    torch.testing.assert_close(output_change(level, 3, 6).weights, expected[:, 3:6], atol=1e-12, rtol=1e-9)


def test_attention_alone_has_no_rest():
    attention = capture(zoo.model("gpt2"), extras=("blocks",), **zoo.inputs("gpt2"))
    with pytest.raises(AttentionError, match=r"capture with extras=\('rest',\), or call attnx\.explain"):
        output_change(attention.layers[0], 0, 9)
