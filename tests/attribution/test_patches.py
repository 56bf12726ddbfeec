"""References on images: every one lands on the patch that a model reads, whatever is put in a patch's place."""

import numpy as np
import pytest
import torch
import transformers as hf
from PIL import Image

import attnx
from attnx.adapters import adapter_for
from attnx.attribution import REFERENCES, choose_baseline
from attnx.attribution.ablation import patch_groups
from attnx.errors import ChoiceError, InputError
from attnx.evaluation.faithfulness import faithfulness
from tests import zoo

PROCESSOR = hf.ViTImageProcessor(size={"height": 32, "width": 32})
READ = 6
"""The only patch that the model below reads, of 16; its position is one further, behind CLS."""


class OnePatchClassifier(torch.nn.Module):
    """Class 1 is as likely as one patch has contrast; nothing else in the image matters."""

    main_input_name = "pixel_values"

    def __init__(self):
        super().__init__()
        self.config = hf.ViTConfig(image_size=32, patch_size=8, num_hidden_layers=1, num_labels=2)
        self.cls_token = torch.nn.Parameter(torch.zeros(1, 1, 192))

    def get_output_embeddings(self):
        return None

    def forward(self, pixel_values, interpolate_pos_encoding=False):
        patches = torch.nn.functional.unfold(pixel_values, 8, stride=8).transpose(1, 2)
        tokens = torch.cat([self.cls_token.expand(len(patches), -1, -1), patches], 1)
        scores = torch.full((len(tokens), 1, tokens.shape[1], tokens.shape[1]), -1e4)
        scores[..., 1 + READ] = 0
        read = (scores.softmax(-1) @ tokens[:, None])[:, 0, 0]
        logit = (read * torch.linspace(-1, 1, 192)).sum(-1) / 20 + read.var(-1)
        return hf.modeling_outputs.ImageClassifierOutput(logits=torch.stack([-logit, logit], -1))


def photo(seed=0, width=64, height=64):
    return Image.fromarray(np.random.default_rng(seed).integers(0, 255, (height, width, 3), dtype=np.uint8))


@pytest.mark.parametrize("name", REFERENCES.names())
def test_every_reference_lands_on_the_patch_that_is_read(name):
    options = {"occlusion": {"window": 1}}.get(name, {})
    e = attnx.explain(OnePatchClassifier().eval(), PROCESSOR, photo(), methods="raw", references={name: options})
    scores = np.abs(e[name])
    assert scores.argmax() == 1 + READ
    assert np.delete(scores, 1 + READ).max() < 1e-6 < scores[1 + READ]


@pytest.mark.parametrize("baseline", ["gray", "mean", "blur"])
def test_every_blank_takes_away_what_is_in_the_patch_and_nothing_else(baseline):
    model = OnePatchClassifier().eval()
    prepared = adapter_for(model).prepare(model, PROCESSOR, photo())
    pixels = prepared.inputs["pixel_values"]
    blanked = choose_baseline(model, adapter_for(model), PROCESSOR, prepared, baseline).apply(prepared, [1 + READ])
    left, top, right, bottom = prepared.boxes[1 + READ]
    changed = blanked.inputs["pixel_values"] != pixels
    assert changed[:, top:bottom, left:right].float().mean() > 0.9
    changed[:, top:bottom, left:right] = False
    assert not changed.any()
    inside = blanked.inputs["pixel_values"][:, top:bottom, left:right]
    assert inside.std((1, 2)).max() < 0.1 * pixels[:, top:bottom, left:right].std((1, 2)).min()


def test_blur_keeps_an_even_picture_and_follows_a_slope():
    model = zoo.model("vit")
    adapter = adapter_for(model)
    even = adapter.prepare(model, PROCESSOR, Image.new("RGB", (32, 32), (200, 100, 50)))
    same = choose_baseline(model, adapter, PROCESSOR, even, "blur").apply(even, range(17))
    torch.testing.assert_close(same.inputs["pixel_values"], even.inputs["pixel_values"])
    slope = np.tile(np.linspace(0, 255, 32).astype(np.uint8)[None, :, None], (32, 1, 3))
    prepared = adapter.prepare(model, PROCESSOR, slope)
    rows = (
        choose_baseline(model, adapter, PROCESSOR, prepared, "blur").apply(prepared, range(17)).inputs["pixel_values"]
    )
    assert (rows.diff(dim=2) > 0).all()
    assert rows.diff(dim=1).abs().max() < 1e-5


def test_an_unknown_blank_names_the_others():
    with pytest.raises(ChoiceError, match=r"gray, mean, blur.*image"):
        attnx.explain(OnePatchClassifier().eval(), PROCESSOR, photo(), references={"blankout": {"baseline": "[MASK]"}})


def test_grouped_patches_share_the_score_of_their_square():
    model = OnePatchClassifier().eval()
    e = attnx.explain(model, PROCESSOR, photo(), methods="raw", references={"blankout": {"group": 2, "score": "logit"}})
    one = attnx.explain(model, PROCESSOR, photo(), methods="raw", references={"blankout": {"score": "logit"}})
    grid = e["blankout"][1:].reshape(4, 4).copy()
    assert grid[0:2, 2:4] == pytest.approx(one["blankout"][1 + READ] / 4, rel=1e-4)
    grid[0:2, 2:4] = 0
    assert np.abs(grid).max() < 1e-6


def test_many_patches_are_grouped_and_few_are_not():
    model = hf.ViTModel(hf.ViTConfig(image_size=160, patch_size=8, **zoo.WIDTH)).eval()
    many = adapter_for(model).prepare(model, hf.ViTImageProcessor(size={"height": 160, "width": 160}), photo())
    groups = patch_groups(many, None)
    assert [len(one) for one in groups] == [4] * 100
    assert groups[0] == (1, 2, 21, 22)
    assert sorted(place for one in groups for place in one) == list(range(1, 401))
    few = adapter_for(zoo.model("vit")).prepare(zoo.model("vit"), PROCESSOR, photo())
    assert patch_groups(few, None) == [(place,) for place in range(1, 17)]
    assert sorted(map(len, patch_groups(few, 3))) == [1, 3, 3, 9]


def test_a_group_is_a_square_of_patches():
    with pytest.raises(ChoiceError, match="group=0"):
        attnx.explain(OnePatchClassifier().eval(), PROCESSOR, photo(), references={"blankout": {"group": 0}})
    with pytest.raises(InputError, match="patches of an image"):
        attnx.explain(zoo.classifier(), zoo.wordpiece_tokenizer(), "hello world", references={"blankout": {"group": 2}})


@pytest.mark.parametrize("name", REFERENCES.names())
def test_references_follow_interpolated_positions(name):
    torch.manual_seed(0)
    config = hf.ViTConfig(image_size=32, patch_size=8, num_labels=2, **zoo.WIDTH)
    model = hf.ViTForImageClassification(config).eval()
    wide = hf.ViTImageProcessor(size={"height": 32, "width": 48})
    e = attnx.explain(model, wide, photo(), methods="raw", references=name, interpolate=True)
    assert e[name].shape == (25,)
    assert np.isfinite(e[name]).all()
    assert np.abs(e[name][1:]).min() > 0


def test_images_of_different_shape_are_measured_as_each_alone():
    torch.manual_seed(0)
    config = hf.Dinov2Config(image_size=32, patch_size=8, mlp_ratio=2, num_labels=2, **zoo.DINO)
    model = hf.Dinov2ForImageClassification(config).eval()
    wide, tall = (hf.ViTImageProcessor(size={"height": h, "width": w}) for h, w in ((32, 64), (64, 32)))
    ready = [one(photo(), return_tensors="pt") for one in (wide, tall)]
    asked = {"methods": "raw", "references": ("gradient", "blankout")}
    for one, given in zip(attnx.explain(model, PROCESSOR, ready, **asked), ready, strict=True):
        alone = attnx.explain(model, PROCESSOR, given, **asked)
        for name in asked["references"]:
            np.testing.assert_allclose(one[name], alone[name], atol=1e-6)


@pytest.mark.parametrize("baseline", ["gray", "blur"])
def test_faithfulness_is_measured_by_deleting_and_inserting_patches(baseline):
    """A model that reads one patch: who names it first loses all at once, who names others loses later."""
    table = faithfulness(
        OnePatchClassifier().eval(), PROCESSOR, [photo(seed) for seed in range(3)], methods="raw",
        references=("blankout",), baseline=baseline, score="log_odds", progress=False,
    )  # fmt: skip
    for name in ("raw", "blankout"):
        assert np.abs(np.diff(table.deletion[name][1:])).max() < 1e-5
        assert table.deletion["random"][2] > table.deletion[name][2]


def test_faithfulness_takes_the_size_that_explain_takes():
    config = hf.ViTConfig(image_size=32, patch_size=8, num_labels=2, **zoo.WIDTH)
    wide = hf.ViTImageProcessor(size={"height": 32, "width": 48})
    table = faithfulness(
        hf.ViTForImageClassification(config).eval(), wide, [photo()], methods="raw", references=(), random=2, steps=2,
        progress=False, interpolate=True,
    )  # fmt: skip
    assert set(table.values) == {"raw", "random"}
