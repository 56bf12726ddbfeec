"""Which patches and words make a picture and a text similar: against direct runs of tiny CLIP, SigLIP and BLIP."""

from __future__ import annotations

import copy
import re
from functools import cache

import numpy as np
import pytest
import torch
import transformers as hf
from PIL import Image
from torch.nn.functional import cosine_similarity

import attnx
from attnx.errors import AttnxError, ChoiceError, InputError
from tests import zoo
from tests.two_towers import FAMILIES, TEXT, TOKENIZER, VISION, Processor, token_table, two_towers

SENTENCE = "the key to the cabinets"
PICTURE = Image.fromarray(np.random.default_rng(3).integers(0, 255, (40, 60, 3), dtype=np.uint8))
MATCHED = "blip"
BOTH = [(family, "cosine") for family in FAMILIES] + [(MATCHED, "match")]


@cache
def explained(family, score="cosine", **options):
    return attnx.explain_similarity(two_towers(family), Processor(), PICTURE, SENTENCE, score=score, **options)


def pixels():
    return Processor.image_processor(images=PICTURE, return_tensors="pt")["pixel_values"].double()


def token_ids(family):
    """SigLIP's texts are padded to their full length, and padding is read."""
    how = {"padding": "max_length", "max_length": 16} if family == "siglip" else {}
    return TOKENIZER(SENTENCE, return_tensors="pt", **how)["input_ids"]


def scored(family, score, pixel_values=None, input_ids=None, embeddings=None):
    """The cosine, or the margin of a match, by the model's own forward on eager attention."""
    model = two_towers(family, "eager")
    given = {
        "pixel_values": pixels() if pixel_values is None else pixel_values,
        "input_ids": token_ids(family) if input_ids is None else input_ids,
    }
    table = token_table(model)
    stand_in = None if embeddings is None else table.register_forward_hook(lambda *call: embeddings.clone())
    try:
        if family == MATCHED:
            output = model(**given, use_itm_head=score == "match").itm_score
            return output[0, 1] - output[0, 0] if score == "match" else output[0, 0]
        output = model(**given)
        return cosine_similarity(output.image_embeds, output.text_embeds)[0]
    finally:
        if stand_in is not None:
            stand_in.remove()


@pytest.mark.parametrize("family", FAMILIES)
def test_the_cosine_and_its_grid_are_those_of_the_models_own_forward_in_either_order(family):
    wanted = float(scored(family, "cosine").detach())
    s = explained(family)
    assert s.cosine == pytest.approx(wanted, abs=1e-6)
    assert s.grid.sum() == pytest.approx(wanted, abs=1e-6)
    assert s.grid_by == "lrp"
    np.testing.assert_allclose(s.grid[:-1].sum(1), s.explanations[0]["lrp"], atol=1e-6)
    turned = attnx.explain_similarity(
        two_towers(family), Processor(), SENTENCE, PICTURE, score="cosine", references=("lrp",)
    )
    assert (s.titles, turned.titles) == (("image", "text"), ("text", "image"))
    np.testing.assert_allclose(turned.grid, s.grid.T, atol=1e-6)


@pytest.mark.parametrize(("family", "score"), BOTH)
def test_gradients_of_patches_and_words_are_those_of_the_score_by_hand(family, score):
    s = explained(family, score, references=("gradient",), grid=False)
    own = pixels().requires_grad_()
    (slopes,) = torch.autograd.grad(scored(family, score, pixel_values=own), own)
    boxes = [(8 * column, 8 * row) for row in range(4) for column in range(4)]
    wanted = [float(slopes[0, :, top : top + 8, left : left + 8].norm()) for left, top in boxes]
    picture, text = s.explanations
    np.testing.assert_allclose(picture["gradient"][picture.content], wanted, rtol=1e-5)
    assert max(wanted) > 1.1 * min(wanted)
    model = two_towers(family, "eager")
    table = token_table(model)
    rows = table(token_ids(family)).detach().requires_grad_()
    (slopes,) = torch.autograd.grad(scored(family, score, embeddings=rows), rows)
    np.testing.assert_allclose(text["gradient"], slopes[0].norm(dim=-1).numpy(), rtol=1e-5)


@pytest.mark.parametrize(("family", "score"), BOTH)
def test_blank_out_is_the_fall_of_the_score_by_direct_runs(family, score):
    picture, text = explained(family, score).explanations
    with torch.no_grad():
        whole = float(scored(family, score))
        processor = Processor.image_processor
        gray = torch.tensor(
            [
                (0.5 - mean) / deviation
                for mean, deviation in zip(processor.image_mean, processor.image_std, strict=True)
            ]
        )
        for place, (row, column) in zip(picture.content, np.ndindex(4, 4), strict=True):
            painted = pixels()
            painted[0, :, 8 * row : 8 * row + 8, 8 * column : 8 * column + 8] = gray[:, None, None]
            fall = whole - float(scored(family, score, pixel_values=painted))
            assert picture["blankout"][place] == pytest.approx(fall, abs=1e-5)
        for place in text.content:
            blanked = token_ids(family)
            blanked[0, place] = TOKENIZER.mask_token_id
            fall = whole - float(scored(family, score, input_ids=blanked))
            assert text["blankout"][place] == pytest.approx(fall, abs=1e-5)


@pytest.mark.parametrize(("family", "score"), BOTH)
def test_the_value_path_adds_up_to_the_score(family, score):
    wanted = float(scored(family, score).detach())
    for one in explained(family, score).explanations:
        facts = one.attributions["lrp"].diagnostics
        summed = one["lrp"].sum() + facts["biases"] + facts.get("sink", 0.0)
        assert facts["value"] == pytest.approx(wanted, abs=1e-6)
        assert summed == pytest.approx(wanted, abs=1e-6)
        assert np.abs(one["lrp"][one.content]).max() > 1e-4


@pytest.mark.parametrize("family", FAMILIES)
def test_rollout_is_that_of_the_tower_alone_and_a_note_says_so(family):
    model = two_towers(family, "eager")
    with torch.no_grad():
        seen = model.vision_model(pixels(), output_attentions=True).attentions
    rolled = torch.eye(seen[0].shape[-1], dtype=torch.float64)
    for layer in seen:
        rolled = (0.5 * layer[0].mean(0).double() + 0.5 * torch.eye(len(rolled))) @ rolled
    picture, text = explained(family).explanations
    assert text.position == {"clip": 6, "siglip": 15, "blip": 0}[family]  # its end, its last padding, its CLS
    # SigLIP has no CLS: its embedding is made of all patches.
    wanted = rolled.mean(0) if family == "siglip" else rolled[0]
    np.testing.assert_allclose(picture["rollout"][-1], wanted.numpy(), atol=1e-6)
    assert "rollout is of the picture tower alone and would be the same for any other text" in picture.notes
    assert "rollout is of the text tower alone and would be the same for any other picture" in text.notes
    other = attnx.explain_similarity(
        two_towers(family), Processor(), PICTURE, "Sara talked", score="cosine", grid=False
    )
    np.testing.assert_allclose(other.explanations[0]["rollout"], picture["rollout"])
    assert not np.allclose(other.explanations[0]["gradient_rollout"], picture["gradient_rollout"])
    assert not np.allclose(other.explanations[0]["lrp"], picture["lrp"])


def test_a_tower_explained_by_itself_says_that_it_does_not_know_the_other_side():
    e = attnx.explain(two_towers("clip").vision_model, Processor(), PICTURE)
    assert any("does not know the text; explain_similarity(model" in note for note in e.notes)
    alone = attnx.explain(zoo.model("vit"), Processor(), PICTURE)
    assert not any("does not know the text" in note for note in alone.notes)


def test_the_matching_head_is_explained_where_there_is_one_and_its_probability_told():
    s = explained(MATCHED, None)
    output = two_towers(MATCHED)(pixel_values=pixels(), input_ids=token_ids(MATCHED)).itm_score
    assert s.score == "match"
    assert s.match == pytest.approx(float(output.softmax(-1)[0, 1].detach()), abs=1e-6)
    assert s.grid is None
    assert [one.prediction.label for one in s.explanations] == ["match", "match"]
    assert s.cosine == pytest.approx(float(scored(MATCHED, "cosine").detach()), abs=1e-6)
    assert "what the text adds by itself is counted with the biases" in s.explanations[0].notes
    assert explained("clip").match is None


def test_siglips_text_is_read_as_it_was_trained_padded_to_its_full_length():
    text = explained("siglip").explanations[1]
    assert len(text.positions) == 16
    assert text.position == 15
    assert [word.text for word in text.words] == SENTENCE.split()
    assert text.positions[-1].token == TOKENIZER.pad_token


def test_patches_have_the_boxes_of_the_original_picture():
    boxes = [one.box for one in explained("clip").explanations[0].positions if one.box is not None]
    # 40 × 60 is cropped to the 40 × 40 in its middle, of four patches in a row.
    np.testing.assert_allclose([boxes[0], boxes[-1]], [(10, 0, 20, 10), (40, 30, 50, 40)], atol=0.5)


@pytest.mark.parametrize(("family", "score"), BOTH)
def test_the_model_is_left_exactly_as_it_was(family, score):
    model = copy.deepcopy(two_towers(family)).train()
    next(model.parameters()).requires_grad_(False)
    before = {name: one.clone() for name, one in model.state_dict().items()}
    flags = [(one.requires_grad, one.grad) for one in model.parameters()]
    modes, config = [one.training for one in model.modules()], model.config.to_dict()
    state = torch.random.get_rng_state()
    attnx.explain_similarity(model, Processor(), PICTURE, SENTENCE, score=score)
    assert all(torch.equal(one, model.state_dict()[name]) for name, one in before.items())
    assert [(one.requires_grad, one.grad) for one in model.parameters()] == flags
    assert [one.training for one in model.modules()] == modes
    assert all(modes)
    assert model.config.to_dict() == config
    assert torch.equal(torch.random.get_rng_state(), state)
    assert not zoo.observed(model)


def test_two_texts_and_two_pictures_go_through_one_tower():
    other = PICTURE.rotate(90)
    s = attnx.explain_similarity(two_towers("clip"), Processor(), SENTENCE, "Sara talked", references=("lrp",))
    assert s.titles == ("text 1", "text 2")
    assert s.grid.sum() == pytest.approx(s.cosine, abs=1e-6)
    s = attnx.explain_similarity(two_towers("clip"), Processor(), PICTURE, other, references=("lrp",))
    assert s.titles == ("image 1", "image 2")
    assert "pair of patches" in s.to_text()


def test_what_cannot_be_done_says_what_can():
    clip, processor = two_towers("clip"), Processor()
    for call, said in [
        (lambda: explained("clip", pooling="mean"), "CLIPModel makes its embeddings itself; leave it out"),
        (lambda: explained("clip", "match"), "score 'match' is not known; there are: cosine"),
        (lambda: explained("clip", grid="states"), "not a sum over positions .* grid='lrp' decomposes it"),
        (lambda: explained(MATCHED, "match", grid="lrp"), "the cosine, not the match; score='cosine' explains it"),
        (lambda: explained("clip", target=1), "explain_similarity chooses the target itself"),
        (
            lambda: attnx.explain_similarity(clip, Processor.image_processor, PICTURE, SENTENCE),
            "has no tokenizer for the text; pass AutoProcessor",
        ),
        (lambda: attnx.explain_similarity(clip, processor, [PICTURE, PICTURE], SENTENCE), "give one as a and one as b"),
        (lambda: attnx.explain_similarity(clip, processor, PICTURE, ""), "the text is empty"),
    ]:
        with pytest.raises((ChoiceError, InputError), match=said):
            call()


def test_it_is_kept_and_shown_in_every_way(tmp_path):
    s = explained("clip")
    s.save(tmp_path / "s.safetensors")
    loaded = attnx.Similarity.load(tmp_path / "s.safetensors")
    assert loaded == s
    assert attnx.Similarity.from_json(s.to_json()) == s
    assert "the strongest 12 of 16 patches" in s.to_text()
    assert "pairs of patch and word" in s.to_text()
    assert len(s.to_frame()) == (16 + 1) * (5 + 1)
    assert [len(axes.images) for axes in s.plot().axes] == [1, 1, 1]
    assert len(loaded.plot().axes) == len(loaded.plot(image=PICTURE).axes) == 3
    with pytest.raises(InputError, match="another image was explained"):
        loaded.plot(image=PICTURE.resize((9, 9)))
    page = s.to_html()
    assert "data:image/jpeg;base64" in page
    assert "All pairs of patch and word" in page
    matched = explained(MATCHED, "match")
    assert "match" in matched.to_html()
    assert len(matched.plot().axes) == 2
    assert len(matched.to_frame()) == (16 + 5) * 4


def test_words_that_would_be_markup_stay_words():
    hostile = "<script>alert(1) $x$ key"
    s = attnx.explain_similarity(two_towers("clip"), Processor(), PICTURE, hostile, references=("lrp",))
    page = s.to_html()
    assert "<script>alert" not in page
    assert "\\u003cscript\\u003ealert" in page
    s.plot().canvas.draw()


WIDE = zoo.WIDTH
OPT = {"model_type": "opt", "vocab_size": 60, "word_embed_proj_dim": 32, "ffn_dim": 48, **WIDE}
REFUSED = {
    "siglip2": (
        lambda: hf.Siglip2Model(hf.Siglip2Config(text_config=TEXT, vision_config={**WIDE, "num_patches": 16})),
        "rows of patches (NaFlex), which are not followed; a SigLIP 2 checkpoint of one size loads as SiglipModel",
    ),
    "blip-2": (
        lambda: hf.Blip2ForImageTextRetrieval(
            hf.Blip2Config(
                vision_config=VISION,
                qformer_config={**WIDE, "vocab_size": 60, "encoder_hidden_size": 32},
                text_config=OPT,
                num_query_tokens=4,
            )
        ),
        "by a Q-Former, whose queries are no patches, .* attnx.explain(model.vision_model, processor, image) shows",
    ),
    "vilt": (
        lambda: hf.ViltModel(hf.ViltConfig(**WIDE, vocab_size=60, image_size=32, patch_size=8)),
        "embeds them in no space of both, as CLIP, SigLIP and BLIP do",
    ),
    "groupvit": (
        lambda: hf.GroupViTModel(
            hf.GroupViTConfig(
                text_config=TEXT,
                vision_config={
                    **{name: size for name, size in VISION.items() if name != "num_hidden_layers"},
                    "depths": [1, 1, 1],
                    "num_group_tokens": [4, 2, 0],
                    "num_output_groups": [4, 2, 0],
                },
            )
        ),
        "attn is 4 × 16, not square",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_model_of_two_towers_is_refused_with_what_works(name):
    made, said = REFUSED[name]
    with pytest.raises(AttnxError, match=re.escape(said).replace(r"\.\*", ".*")):
        attnx.explain_similarity(made().eval(), Processor(), PICTURE, SENTENCE)


def test_a_tower_that_is_named_is_explained_by_itself():
    model = two_towers("clip")
    for processor in (Processor(), Processor.image_processor):
        e = attnx.explain(model, processor, PICTURE, module="vision_model", methods="rollout")
        alone = attnx.explain(model.vision_model, processor, PICTURE, methods="rollout")
        np.testing.assert_array_equal(e["rollout"], alone["rollout"])
    text = attnx.explain(model, TOKENIZER, SENTENCE, module="text_model", methods="rollout")
    assert [one.text for one in text.words] == SENTENCE.split()
