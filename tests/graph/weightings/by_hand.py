"""Blocks taken apart once more, in numpy and with all n × n × width vectors, and small ones made up."""

import copy
from functools import cache

import numpy as np
import torch

from attnx.attention.layers import Held
from attnx.attention.masks import Mask
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
    brought = {"values": values, "projections": projection, "states": states, "bias": bias}
    brought = {name: one.double() for name, one in brought.items()}
    mask = Mask(length, weights.device, weights.sum(0) > 0 if further.pop("masked", False) else None)
    return Held(weights, mask, brought=brought | further)


def normed(brought, name, vectors):
    """The linear part of a norm that was brought, row by row; the vectors themselves where there is none."""
    if f"{name}.gain" not in brought:
        return vectors
    centred = vectors - vectors.mean(-1, keepdims=True) if bool(brought[f"{name}.centred"]) else vectors
    scale = brought[f"{name}.scale"].numpy()
    return centred * brought[f"{name}.gain"].numpy() * scale.reshape(-1, *[1] * (vectors.ndim - 1))


def parts(level, *norms):
    """query × key × width: what each key hands to each query with the residual, and query × width of what goes on."""
    brought = level.brought
    weights = level.rows(0, level.mask.length).weights.double().numpy()
    values = np.repeat(brought["values"].numpy(), level.heads // len(brought["values"]), axis=0)
    projection = brought["projections"].numpy()
    heads = np.split(projection, level.heads, axis=1)
    carried = sum(np.einsum("ij,jw->ijw", weights[head], values[head] @ heads[head].T) for head in range(level.heads))
    alone = normed(brought, "branch", carried)
    whole = alone.copy()
    places = np.arange(len(whole))
    whole[places, places] += brought["states"].numpy()
    bias = np.broadcast_to(brought["bias"].numpy(), whole[:, 0].shape)
    constant = normed(brought, "branch", bias) + shift(brought, "branch")
    for name in norms:
        whole = normed(brought, name, whole)
        constant = normed(brought, name, constant) + shift(brought, name)
    return alone, whole, whole.sum(1) + constant


def shift(brought, name):
    return brought[f"{name}.shift"].numpy() if f"{name}.shift" in brought else 0.0


def rows_to_one(matrix):
    return matrix / matrix.sum(-1, keepdims=True)
