"""A picture with a text: words from offsets, patches with boxes in the original, whatever the processor does."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import transformers as hf
from PIL import Image
from tokenizers import Tokenizer, models, pre_tokenizers

import attnx
from attnx.adapters.image_text import prepare_image_text
from attnx.errors import InputError
from tests import pictures_with_text as zoo

WORDS = ("<pad>", "<bos>", "<eos>", "<unk>", "what", "is", "there", "and", "here", "?")


def tokenizer(*specials):
    """Words by their ids, the image token at the id that the tiny models have for it."""
    vocabulary = {word: number for number, word in enumerate(WORDS)}
    vocabulary |= {f"w{number}": number for number in range(len(WORDS), zoo.IMAGE)}
    vocabulary |= {token: zoo.IMAGE + number for number, token in enumerate(specials)}
    vocabulary |= {f"w{number}": number for number in range(zoo.IMAGE + len(specials), zoo.VOCABULARY)}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.add_special_tokens([*WORDS[:4], *specials])
    return hf.PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token="<pad>", bos_token="<bos>", eos_token="<eos>", unk_token="<unk>"
    )


def square(side):
    return {"height": side, "width": side}


def llava_processor(**how):
    options = {"size": {"shortest_edge": 32}, "crop_size": square(32), **how}
    return hf.LlavaProcessor(
        hf.CLIPImageProcessor(**options),
        tokenizer("<image>"),
        patch_size=8,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
    )


def llava_next_processor():
    return hf.LlavaNextProcessor(
        hf.LlavaNextImageProcessor(
            size={"shortest_edge": 32}, crop_size=square(32), image_grid_pinpoints=[[32, 64], [64, 32]]
        ),
        tokenizer("<image>"),
        patch_size=8,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
    )


def idefics3_processor():
    return hf.Idefics3Processor(
        hf.Idefics3ImageProcessor(size={"longest_edge": 64}, max_image_size={"longest_edge": 32}),
        tokenizer(
            "<image>",
            "<fake_token_around_image>",
            "<global-img>",
            "<end_of_utterance>",
            "<row_1_col_1>",
            "<row_1_col_2>",
            "<row_2_col_1>",
            "<row_2_col_2>",
        ),
        image_seq_len=4,
    )


def qwen_processor():
    pixels = hf.Qwen2VLImageProcessor(
        patch_size=4, temporal_patch_size=2, merge_size=2, size={"shortest_edge": 64, "longest_edge": 4096}
    )
    return QwenPictures(pixels, tokenizer("<|image_pad|>", "<|video_pad|>"))


class QwenPictures(hf.Qwen2VLProcessor):
    """Without the part that reads videos, which needs torchvision."""

    def check_argument_for_proper_class(self, argument_name, argument):
        return type(argument)


CASES = {
    "one sheet": ("llava", llava_processor, (32, 32), "<image>"),
    "cropped, not square": ("llava", llava_processor, (64, 32), "<image>"),
    "enlarged": ("llava", lambda: llava_processor(do_center_crop=False, size=square(32)), (16, 8), "<image>"),
    "tiles beside the whole": ("llava_next", llava_next_processor, (64, 32), "<image>"),
    "tiles, merged by a shuffle": ("idefics3", idefics3_processor, (64, 64), "<image>"),
    "rows of patches, merged": ("qwen2_vl", qwen_processor, (24, 16), "<|image_pad|>"),
    "windows": ("qwen2_5_vl", qwen_processor, (24, 32), "<|image_pad|>"),
}


def prepared(case, picture=None):
    family, processor, size, token = CASES[case]
    made = processor()
    picture = Image.new("RGB", size) if picture is None else picture
    return made, prepare_image_text(zoo.model(family), made, {"image": picture, "text": f"{token} what is there ?"})


@pytest.mark.parametrize("case", list(CASES))
def test_what_is_painted_into_the_box_of_a_patch_is_read_by_that_patch(case):
    """Black pictures with one white box: pixels that change by more than half are read by patches that lie in it."""
    _processor, black = prepared(case)
    size, pixels = CASES[case][2], black.inputs["pixel_values"]
    patches = [one for one in black.positions[black.text_length :] if one.box is not None]
    assert patches
    whole = max((one.box[2] - one.box[0]) * (one.box[3] - one.box[1]) for one in patches)
    for one in (patches[0], patches[len(patches) // 2], patches[-1]):
        left, top, right, bottom = (round(edge) for edge in one.box)
        shades = np.zeros((size[1], size[0], 3), np.uint8)
        shades[top:bottom, left:right] = 255
        _, white = prepared(case, Image.fromarray(shades))
        changed = (white.inputs["pixel_values"] - pixels).abs()
        own = white.readers == one.index
        assert float(changed[own].mean()) > 0.7 * float(changed.max())  # resampling blurs its edges
        inside = {
            other.index
            for other in patches
            if other.box[0] < right and other.box[2] > left and other.box[1] < bottom and other.box[3] > top
        }
        lit = set(white.readers[changed > 0.5 * changed.max()].unique().tolist())
        assert lit <= inside
        if all((other.box[2] - other.box[0]) * (other.box[3] - other.box[1]) == whole for other in patches):
            assert lit == {one.index}


@pytest.mark.parametrize("case", list(CASES))
def test_patches_lie_over_the_whole_picture_but_for_what_was_cropped(case):
    _, found = prepared(case)
    width, height = CASES[case][2]
    covered = np.zeros((height, width), bool)
    for one in found.positions[found.text_length :]:
        if one.box is not None:
            left, top, right, bottom = (round(edge) for edge in one.box)
            covered[top:bottom, left:right] = True
    expected = np.ones_like(covered)
    if "cropped" in case:
        expected[:, :16], expected[:, 48:] = False, False
    np.testing.assert_array_equal(covered, expected)


@pytest.mark.parametrize("case", list(CASES))
def test_the_box_of_an_image_token_is_that_of_all_patches_that_it_reads(case):
    _, found = prepared(case)
    merged = zoo.FAMILIES[CASES[case][0]].merged
    tokens = [one for one in found.positions[: found.text_length] if one.box is not None]
    patch = next(one for one in found.positions[found.text_length :] if one.box is not None)
    area = lambda box: (box[2] - box[0]) * (box[3] - box[1])  # noqa: E731
    assert area(tokens[0].box) == pytest.approx(merged * area(patch.box))
    assert all(one.special for one in tokens)


@pytest.mark.parametrize("case", list(CASES))
def test_words_are_those_of_the_text_as_it_was_given(case):
    _, found = prepared(case)
    words = [word.text for word in found.words if max(word.positions) < found.text_length]
    assert words == ["what", "is", "there", "?"]
    for one in found.positions:
        if one.start is not None:
            assert found.text[one.start : one.end] in WORDS


def test_explain_names_the_streams_and_shares():
    e = attnx.explain(
        zoo.model("llava"),
        llava_processor(),
        {"image": Image.new("RGB", (40, 32), "red"), "text": "<image> what is ?"},
        methods=("raw", "rollout"),
    )
    assert e.sequences == {"text": 19, "picture": 17}
    assert e.explained == "?"
    for method in ("raw", "rollout"):
        assert sum(e.sequence_shares(method).values()) == pytest.approx(1)
        np.testing.assert_allclose(e[method].sum(-1), 1)
    assert e.sequence_shares("raw")["picture"] > 0.3  # image tokens count to the picture


def test_several_pictures_are_told_apart():
    pictures = [Image.new("RGB", (32, 32), "red"), Image.new("RGB", (64, 32), "blue")]
    e = attnx.explain(
        zoo.model("llava"),
        llava_processor(),
        {"image": pictures, "text": "<image> and <image> what ?"},
        methods="rollout",
    )
    boxes = e.provenance["input"]["pictures"]
    assert boxes[0] == [0, 0, 32, 32]
    assert boxes[1][0] >= 32
    assert boxes[1][2] - boxes[1][0] == 64
    assert e.image_size == (boxes[1][2], 32)
    for one in e.positions[e.sequences["text"] :]:
        if one.box is not None:
            number = int(one.token.split()[1]) - 1
            assert boxes[number][0] <= one.box[0]
            assert one.box[2] <= boxes[number][2]


def test_a_text_that_names_no_picture_is_told_where_it_stands():
    e = attnx.explain(
        zoo.model("llava"),
        llava_processor(),
        {"image": Image.new("RGB", (32, 32)), "text": "what is ?"},
        methods="rollout",
    )
    assert any("stands before it" in note for note in e.notes)


def test_a_chat_goes_through_the_processors_template():
    processor = llava_processor()
    processor.chat_template = (
        "{% for m in messages %}{% for c in m['content'] %}"
        "{% if c['type'] == 'image' %}<image> {% else %}{{ c['text'] }}{% endif %}{% endfor %}{% endfor %}"
    )
    chat = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "what is there ?"}]}]
    e = attnx.explain(
        zoo.model("llava"), processor, {"image": Image.new("RGB", (32, 32)), "text": chat}, methods="rollout"
    )
    assert e.text == "<image> what is there ?"


def test_a_text_alone_is_read_as_before():
    e = attnx.explain(
        zoo.model("llava"),
        llava_processor().tokenizer,
        "what is there ?",
        methods="rollout",
        module="model.language_model",
    )
    assert not e.sequences
    assert len(e.positions) == 4


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"image": [], "text": "<image> what"}, "list of images is empty"),
        ({"image": Image.new("RGB", (8, 8)), "text": ""}, "must be a text or a chat"),
        ({"image": Image.new("RGB", (8, 8)), "text": "<image> and <image>"}, "names 2 images"),
    ],
)
def test_what_cannot_be_read_says_why(given, message):
    with pytest.raises(InputError, match=message):
        attnx.explain(zoo.model("llava"), llava_processor(), given)


def test_a_tokenizer_alone_cannot_read_a_picture():
    with pytest.raises(InputError, match="needs a processor of both"):
        attnx.explain(
            zoo.model("llava"), tokenizer("<image>"), {"image": Image.new("RGB", (8, 8)), "text": "<image> what"}
        )


def test_the_processor_and_its_tokenizer_are_left_as_they_were():
    processor = llava_processor()
    inner = processor.tokenizer
    prepare_image_text(zoo.model("llava"), processor, {"image": Image.new("RGB", (32, 32)), "text": "<image> what"})
    assert processor.tokenizer is inner


@pytest.mark.parametrize("reference", ["lrp", "attn_lrp"])
def test_paths_add_up_over_patches_and_tokens(reference):
    torch.manual_seed(0)
    e = attnx.explain(
        zoo.model("llava_next"),
        llava_next_processor(),
        {"image": Image.effect_noise((64, 32), 80).convert("RGB"), "text": "<image> what is ?"},
        methods="rollout",
        references=reference,
    )
    scores, facts = e[reference], e.attributions[reference].diagnostics
    rest = facts["biases"] if reference == "lrp" else facts["gap"]
    assert scores.sum() + rest == pytest.approx(facts["value"], rel=1e-4, abs=1e-5)
    patches = [one.index for one in e.positions if one.index >= e.sequences["text"] and one.box is not None]
    assert np.abs(scores[patches]).sum() > 0
    image_tokens = [one.index for one in e.positions[: e.sequences["text"]] if one.box is not None]
    assert np.abs(scores[image_tokens]).max() == 0


def test_blank_out_paints_a_patch_and_takes_a_word():
    model, processor = zoo.model("llava"), llava_processor()
    given = {"image": Image.effect_noise((32, 32), 80).convert("RGB"), "text": "<image> what is ?"}
    e = attnx.explain(model, processor, given, methods="rollout", references="blankout")
    scores = e["blankout"]
    units = [one.index for one in e.positions if not one.special]
    assert np.count_nonzero(scores[units]) == len(units)
    assert np.abs(scores[[one.index for one in e.positions if one.special]]).max() == 0
