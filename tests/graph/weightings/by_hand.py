"""Blocks taken apart once more, in numpy and with all n × n × width vectors, and small ones made up."""

import copy
from functools import cache

import numpy as np
import torch

from attnx.attention import Mask, MaterializedLayer
from attnx.hooks.capture import capture
from tests import zoo

SOME = ("bert", "gpt2", "llama", "gemma2", "gpt_neox", "vit", "beit", "albert", "mistral")
"""Post-LN, pre-LN, grouped queries, a norm on the branch, parallel, images, channel constants, windows."""


@cache
def attention(name, held=True):
    """In double precision, with what blocks bring."""
    inputs = {key: one.double() if one.is_floating_point() else one for key, one in zoo.inputs(name).items()}
    return capture(copy.deepcopy(zoo.model(name)).double(), extras=("blocks",), held=held, **inputs)


def made_up(weights, values, projection=None, states=None, bias=None, **further):
    """A level of head × n × n weights and head × n × width values, with no norm."""
    weights, values = torch.as_tensor(weights).double(), torch.as_tensor(values).double()
    heads, length, width = values.shape
    projection = torch.eye(heads * width) if projection is None else torch.as_tensor(projection)
    states = torch.zeros(length, len(projection)) if states is None else torch.as_tensor(states)
    bias = torch.zeros(len(projection)) if bias is None else torch.as_tensor(bias)
    captured = {"values": values, "projections": projection, "states": states, "bias": bias}
    captured = {name: one.double() for name, one in captured.items()}
    mask = Mask(length, weights.device, weights.sum(0) > 0 if further.pop("masked", False) else None)
    return MaterializedLayer(weights, mask, captured=captured | further)


def normed(captured, name, vectors):
    """The linear part of a norm that was brought, row by row; the vectors themselves where there is none."""
    if f"{name}.gain" not in captured:
        return vectors
    centred = vectors - vectors.mean(-1, keepdims=True) if bool(captured[f"{name}.centred"]) else vectors
    scale = captured[f"{name}.scale"].numpy()
    return centred * captured[f"{name}.gain"].numpy() * scale.reshape(-1, *[1] * (vectors.ndim - 1))


def parts(level, *norms):
    """query × key × width: what each key hands to each query with the residual, and query × width of what goes on."""
    captured = level.captured
    weights = level.rows(0, level.mask.length).weights.double().numpy()
    values = np.repeat(captured["values"].numpy(), level.heads // len(captured["values"]), axis=0)
    projection = captured["projections"].numpy()
    heads = np.split(projection, level.heads, axis=1)
    carried = sum(np.einsum("ij,jw->ijw", weights[head], values[head] @ heads[head].T) for head in range(level.heads))
    alone = normed(captured, "branch", carried)
    whole = alone.copy()
    places = np.arange(len(whole))
    whole[places, places] += captured["states"].numpy()
    bias = np.broadcast_to(captured["bias"].numpy(), whole[:, 0].shape)
    constant = normed(captured, "branch", bias) + shift(captured, "branch")
    for name in norms:
        whole = normed(captured, name, whole)
        constant = normed(captured, name, constant) + shift(captured, name)
    return alone, whole, whole.sum(1) + constant


def shift(captured, name):
    return captured[f"{name}.shift"].numpy() if f"{name}.shift" in captured else 0.0


def normalize_rows(matrix):
    return matrix / matrix.sum(-1, keepdims=True)
