"""Patches that take far more than their share are told; where none does, nothing is said."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import transformers as hf
from PIL import Image

import attnx
from attnx.attention import AttentionTensor
from attnx.errors import FileFormatError
from attnx.graph import patch_sinks
from attnx.graph.sinks import TIMES
from tests import zoo

PATCHES = 36
SINK = (2, 4)
"""Row and column of the patch that all others look at."""


def processor():
    return hf.ViTImageProcessor(size={"height": 48, "width": 48})


def vit(left_multiply):
    """By hand: every query is the same, and the key of one patch alone points there, as strongly as `left_multiply`.

    The patch is told by its place, which is all that position embeddings say: what the picture shows plays no part.
    """
    config = hf.ViTConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=16, image_size=48, patch_size=8
    )
    model = hf.ViTModel(config, add_pooling_layer=False).eval()
    place = 1 + 6 * SINK[0] + SINK[1]
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        for name, parameter in model.named_parameters():
            if "norm" in name and name.endswith("weight"):
                parameter.fill_(1)
            if "query.bias" in name or "q_proj.bias" in name:
                parameter.fill_(1)
            if "key.weight" in name or "k_proj.weight" in name:
                parameter[:, 0] = left_multiply
        model.embeddings.position_embeddings[0, place, 0] = 1.0
    return model


def received(attention):
    """layer × patch, by hand: what all other patches give, the mean over heads."""
    weights = attention.weights.double().mean(1)[:, 1:, 1:]
    own = torch.eye(PATCHES, dtype=torch.bool)
    return weights.masked_fill(own, 0).sum(1) / (PATCHES - 1)


def photo():
    return Image.fromarray(np.random.default_rng(1).integers(0, 255, (60, 60, 3), dtype=np.uint8))


def test_a_patch_that_all_others_look_at_is_told_with_its_share():
    model = vit(left_multiply=0.5)
    e = attnx.explain(model, processor(), photo())
    attention = attnx.capture(model, **processor()(photo(), return_tensors="pt"))
    shares = received(attention)[:, 6 * SINK[0] + SINK[1]]
    assert float(shares.min()) > TIMES / (PATCHES + 1)
    (told,) = e.provenance["input"]["sinks"]
    assert told["patch"] == "r2c4"
    assert told["share"] == pytest.approx(float(shares.max()), abs=1e-6)
    assert told["times"] == pytest.approx(float(shares.max()) * (PATCHES + 1), rel=1e-6)
    np.testing.assert_allclose(e.sink, shares, atol=1e-6)
    assert f"'r2c4' may be a sink, lit for any answer: other patches give 'r2c4' {told['share']:.0%}" in e.verdict
    assert "'r2c4' may be a sink" in e.to_text()
    assert "patches that may be sinks" in e.to_html()
    assert attnx.Explanation.from_json(e.to_json()) == e


def test_where_no_patch_stands_out_nothing_is_said():
    e = attnx.explain(vit(left_multiply=0.0), processor(), photo())
    assert e.sink is None
    assert "sinks" not in e.provenance.get("input", {})
    assert "sink" not in e.verdict


def test_the_bound_is_ten_times_the_even_share():
    even = torch.full((1, 1, 30, 30), 1.0)
    for left_multiply, sinks in [(15.0, {3}), (14.0, set())]:
        weights = even.clone()
        weights[..., 3] = left_multiply  # 30 times pull of pull + 29
        weights = weights / weights.sum(-1, keepdim=True)
        (found,) = patch_sinks(AttentionTensor.of(weights), range(30))
        assert set(found) == sinks, 30 * left_multiply / (left_multiply + 29)


def test_what_a_patch_gives_to_itself_and_what_the_models_own_tokens_give_do_not_count():
    weights = torch.full((1, 1, 30, 30), 1 / 30)
    weights[0, 0] = torch.eye(30)  # each patch looks at itself
    weights[0, 0, 0] = 0
    weights[0, 0, 0, 5] = 1  # and CLS at one of them
    assert patch_sinks(AttentionTensor.of(weights), range(1, 30)) == [{}]


def test_a_layer_that_is_asked_for_has_its_own_share():
    e = attnx.explain(vit(left_multiply=0.5), processor(), photo(), layer=2, methods="rollout")
    assert len(e.sink) == 1
    assert e.provenance["input"]["sinks"][0]["layer"] == 2


def test_texts_have_no_patches():
    e = attnx.explain(zoo.classifier(), zoo.wordpiece_tokenizer(), "a witty film")
    assert e.sink is None


@pytest.mark.parametrize("broken", ["x", [{"patch": 3}], [{"patch": "r0c0", "layer": "x", "share": 1, "times": 2}]])
def test_a_file_that_tells_other_sinks_is_refused(broken):
    e = attnx.explain(vit(left_multiply=0.5), processor(), photo(), methods="rollout")
    told = e.to_dict()
    told["provenance"]["input"]["sinks"] = broken
    with pytest.raises(FileFormatError, match=r"provenance\.input\.sinks"):
        attnx.Explanation.from_dict(told)
