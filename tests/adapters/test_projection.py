"""Which patches an image token reads, found by running the model."""

from __future__ import annotations

import pytest
import torch
import transformers as hf
from torch import nn

from attnx.adapters import find_projection
from attnx.adapters.image_tokens import decoder_name
from tests import pictures_with_text as zoo

FAMILIES = list(zoo.FAMILIES)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_image_token_reads_as_many_patches_as_are_merged_and_text_reads_none(family):
    row, inputs = zoo.FAMILIES[family], zoo.FAMILIES[family].inputs()
    found = find_projection(zoo.model(family), inputs)
    sizes = [len(read) for read in found.reads]
    for token, size in zip(inputs["input_ids"][0].tolist(), sizes, strict=True):
        assert size in ((row.merged, 0) if token == zoo.IMAGE else (0,))  # 0: a new line behind a row of tiles
    assert sum(sizes) == found.patches - row.own * _sheets(inputs)
    assert len({patch for read in found.reads for patch in read}) == sum(sizes)


def _sheets(inputs):
    pixels = inputs["pixel_values"]
    return 0 if pixels.ndim == 2 else pixels.flatten(0, -4).shape[0]


@pytest.mark.parametrize("family", FAMILIES)
def test_another_state_of_one_patch_changes_the_token_that_reads_it_and_no_other(family):
    """The map is held against the projector itself: what the tower's last attention gives one patch is changed."""
    model, inputs = zoo.model(family), zoo.FAMILIES[family].inputs()
    found = find_projection(model, inputs)
    patch = max(place for read in found.reads for place in read)
    (token,) = [place for place, read in enumerate(found.reads) if patch in read]
    states, entered = [], []

    def change(module, args, output):
        first = output[0] if isinstance(output, tuple) else output
        changed = first.clone()
        changed.view(-1, changed.shape[-1])[patch] += states[0] if states else 0
        return (changed, *output[1:]) if isinstance(output, tuple) else changed

    def note(module, args, kwargs):
        entered.append(kwargs["inputs_embeds"].clone())

    top = model.get_submodule(found.tower[-1])
    handles = [
        top.register_forward_hook(change),
        model.get_submodule(found.decoder).register_forward_pre_hook(note, with_kwargs=True),
    ]
    try:
        with torch.no_grad():
            model(**inputs)
            states.append(torch.randn(32, generator=torch.Generator().manual_seed(0)))
            model(**inputs)
    finally:
        for one in handles:
            one.remove()
    changed = (entered[0] - entered[1]).abs().amax(-1)[0] > 1e-7
    assert changed.nonzero()[:, 0].tolist() == [token]


def test_the_layer_that_llava_leaves_out_is_no_part_of_its_tower():
    found = find_projection(zoo.model("llava"), zoo.FAMILIES["llava"].inputs())
    assert [name.split(".")[-2] for name in found.tower] == ["0", "1"]  # of three


def test_pixels_are_read_by_the_patches_that_hold_them():
    found = find_projection(zoo.model("llava"), zoo.FAMILIES["llava"].inputs())
    expected = 1 + torch.arange(16).view(4, 4).repeat_interleave(8, 0).repeat_interleave(8, 1)
    assert torch.equal(found.readers, expected.expand(1, 3, 32, 32))


@pytest.mark.parametrize("kernel", ["eager", "sdpa"])
def test_the_kernel_of_attention_does_not_matter(kernel):
    family = zoo.FAMILIES["llava_next"]
    model = type(family.model())._from_config(family.model().config, attn_implementation=kernel).eval()
    assert (
        find_projection(model, family.inputs()).reads == find_projection(zoo.model("llava_next"), family.inputs()).reads
    )


def test_half_precision_gives_the_same_map():
    family = zoo.FAMILIES["idefics3"]
    inputs = {name: one.bfloat16() if one.is_floating_point() else one for name, one in family.inputs().items()}
    assert (
        find_projection(family.model().bfloat16().eval(), inputs).reads
        == find_projection(zoo.model("idefics3"), family.inputs()).reads
    )


def test_the_model_and_the_random_state_are_left_as_they_were():
    model = zoo.FAMILIES["llava"].model().train()
    before = {name: one.clone() for name, one in model.state_dict().items()}
    drawn = torch.random.get_rng_state()
    find_projection(model, zoo.FAMILIES["llava"].inputs())
    assert torch.equal(drawn, torch.random.get_rng_state())
    assert all(torch.equal(one, before[name]) for name, one in model.state_dict().items())
    assert model.training
    assert all(one.grad is None for one in model.parameters())


def test_a_text_alone_has_no_projection():
    model = hf.LlamaForCausalLM(zoo._llama())
    assert find_projection(model, zoo._text(4)) is None


class BelowTheHead(nn.Module):
    def __init__(self):
        super().__init__()
        self.vision_tower, self.language_model = nn.Linear(2, 2), nn.Linear(2, 2)


class WithDecoder(nn.Module):
    """A model that says what its decoder is as some version of transformers does."""

    def __init__(self, said):
        super().__init__()
        self.model = BelowTheHead()
        self.said = said

    def get_decoder(self):
        return self.said(self)


def missing(model):
    raise AttributeError("get_decoder")


SAID = {
    "the decoder": lambda model: model.model.language_model,
    "all below the head": lambda model: model.model,
    "a method of it": lambda model: model.model.forward,
    "nothing": lambda model: None,
    "an error": missing,
}


@pytest.mark.parametrize("said", SAID)
def test_the_decoder_is_found_whatever_a_version_says_it_is(said):
    assert decoder_name(WithDecoder(SAID[said])) == "model.language_model"


def test_the_decoder_of_a_model_without_a_head_is_found():
    assert decoder_name(BelowTheHead()) == "language_model"
