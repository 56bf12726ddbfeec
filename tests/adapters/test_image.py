"""From images to patches: positions, their boxes in the original image, and input that cannot be explained."""

import numpy as np
import pytest
import torch
import transformers as hf
from PIL import Image

import attnx
from attnx.adapters import adapter_for
from attnx.errors import ArgumentError, CaptureError, ChoiceError, InputError
from tests import zoo

RESIZED = {"size": {"height": 32, "width": 32}}
CROPPED = {"size": {"shortest_edge": 40}, "crop_size": {"height": 32, "width": 32}}

PREFIXES = {
    "vit": ["[CLS]"],
    "deit": ["[CLS]", "[DIST]"],
    "beit": ["[CLS]"],
    "dinov2": ["[CLS]"],
    "dinov2_with_registers": ["[CLS]", "[REG]", "[REG]", "[REG]", "[REG]"],
    "clip_vision_model": ["[CLS]"],
    "siglip_vision_model": [],
}


def photo(width=60, height=40):
    return Image.fromarray(np.random.default_rng(0).integers(0, 255, (height, width, 3), dtype=np.uint8))


def processor(**options):
    return hf.BitImageProcessor(**(RESIZED | {"do_center_crop": False} | options))


def test_every_vision_family_of_the_zoo_is_here():
    assert set(PREFIXES) == set(zoo.IMAGE)


@pytest.mark.parametrize("name", PREFIXES)
def test_positions_are_the_prefix_and_then_the_patches(name):
    prefix = PREFIXES[name]
    e = attnx.explain(zoo.model(name), processor(), photo(), position=0)
    assert list(e.tokens[: len(prefix)]) == prefix
    assert [item.special for item in e.positions] == [True] * len(prefix) + [False] * 16
    assert e.tokens[len(prefix) :] == tuple(f"r{row}c{column}" for row in range(4) for column in range(4))
    first, last = e.positions[len(prefix)], e.positions[-1]
    assert first.box == pytest.approx((0, 0, 15, 10))
    assert last.box == pytest.approx((45, 30, 60, 40))
    assert all(e.positions[index].box is None for index in range(len(prefix)))
    attention = attnx.capture(zoo.model(name), pixel_values=processor()(photo(), return_tensors="pt")["pixel_values"])
    np.testing.assert_allclose(e["rollout"], attnx.rollout(attention, position=0), atol=1e-6)
    np.testing.assert_allclose(e["flow"], attnx.flow(attention, position=0), atol=1e-6)


@pytest.mark.parametrize("name", PREFIXES)
def test_every_head_can_be_seen(name):
    e = attnx.explain(zoo.model(name), processor(), photo(), position=-1, head="all", methods="rollout")
    assert e["rollout"].shape == (3, 4, 16 + len(PREFIXES[name]))
    np.testing.assert_allclose(e["rollout"].sum(-1), 1, atol=1e-5)


def test_a_model_without_cls_asks_for_a_position():
    with pytest.raises(ChoiceError, match=r"SiglipVisionModel has no CLS token.*position="):
        attnx.explain(zoo.model("siglip_vision_model"), processor(), photo())


def beit_that_pools():
    config = hf.BeitConfig(image_size=32, patch_size=8, num_labels=2, use_mean_pooling=True, **zoo.WIDTH)
    return hf.BeitForImageClassification(config)


def clip_classifier():
    vision = hf.CLIPVisionConfig(image_size=32, patch_size=8, **zoo.WIDTH)
    text = hf.CLIPTextConfig(vocab_size=50, bos_token_id=1, eos_token_id=2, **zoo.WIDTH)
    config = hf.CLIPConfig(vision_config=vision.to_dict(), text_config=text.to_dict())
    return hf.CLIPForImageClassification(config)


@pytest.mark.parametrize("classifier", [beit_that_pools, clip_classifier])
def test_a_classifier_that_pools_patches_says_that_it_does_not_predict_from_cls(classifier):
    e = attnx.explain(classifier().eval(), processor(), photo(), methods="raw")
    assert f"{type(classifier()).__name__} classifies the mean of all patches" in e.notes[0]
    alone = attnx.explain(zoo.model("clip_vision_model"), processor(), photo(), methods="raw")
    assert not any("classifies the mean" in note for note in alone.notes)


def test_windows_are_refused_with_the_reason():
    config = hf.SwinConfig(image_size=32, patch_size=2, embed_dim=16, depths=[1, 1], num_heads=[2, 2], window_size=4)
    with pytest.raises(CaptureError, match=r"16 maps of 16 × 16 positions .*windows .*without an n × n map"):
        attnx.explain(hf.SwinModel(config).eval(), processor(), photo())


class Reader(torch.nn.Module):
    """A hand-made model that reads one patch only: every query attends to the position of that patch."""

    main_input_name = "pixel_values"

    def __init__(self, patch, size=(32, 32)):
        super().__init__()
        self.config = hf.ViTConfig(image_size=list(size), patch_size=8, num_hidden_layers=1)
        self.patch = patch
        self.cls_token = torch.nn.Parameter(torch.zeros(1, 1, 192))

    def forward(self, pixel_values):
        patches = torch.nn.functional.unfold(pixel_values, 8, stride=8).transpose(1, 2)
        tokens = torch.cat([self.cls_token.expand(len(patches), -1, -1), patches], 1)
        scores = torch.full((len(tokens), 1, tokens.shape[1], tokens.shape[1]), -1e4)
        scores[..., 1 + self.patch] = 0
        return {"read": (scores.softmax(-1) @ tokens[:, None])[:, 0, 0]}


def painted(width, height, box):
    """Black, with a white box in it."""
    picture = np.zeros((height, width, 3), np.uint8)
    left, top, right, bottom = (round(edge) for edge in box)
    picture[top:bottom, left:right] = 255
    return Image.fromarray(picture)


GEOMETRIES = {
    "resized": ((64, 64), processor()),
    "squeezed": ((160, 64), processor()),
    "enlarged": ((16, 16), processor()),
    "cropped": ((80, 80), processor(do_center_crop=True, **CROPPED)),
    "cropped wide": ((160, 80), processor(do_center_crop=True, **CROPPED)),
    "cropped tall": ((80, 240), processor(do_center_crop=True, **CROPPED)),
    "as it is": ((32, 32), processor(do_resize=False)),
    "padded": ((24, 24), processor(do_resize=False, do_center_crop=True, crop_size=CROPPED["crop_size"])),
    "not square": ((120, 64), processor(size={"height": 32, "width": 48})),
}


@pytest.mark.parametrize("name", GEOMETRIES)
@pytest.mark.parametrize("patch", [0, 6, 15])
def test_a_model_that_reads_one_patch_lights_its_box_in_the_original(name, patch):
    (width, height), resize = GEOMETRIES[name]
    size = (32, 48) if name == "not square" else (32, 32)
    model = Reader(patch, size).eval()
    baseline = attnx.explain(model, resize, Image.new("RGB", (width, height)), methods="raw")
    lit = baseline.positions[int(baseline.scores("raw").argmax())]
    assert (lit.index, baseline.scores("raw")[lit.index]) == (1 + patch, 1)
    left, top, right, bottom = lit.box
    assert 0 <= left < right <= width
    assert 0 <= top < bottom <= height

    def read(picture):
        pixels = resize(picture, return_tensors="pt")["pixel_values"]
        return model(pixels)["read"].mean().item()

    nothing, everything = read(Image.new("RGB", (width, height))), read(painted(width, height, (0, 0, width, height)))
    inside = (read(painted(width, height, lit.box)) - nothing) / (everything - nothing)
    picture = np.asarray(painted(width, height, lit.box))
    outside = (read(Image.fromarray(255 - picture)) - nothing) / (everything - nothing)
    # A resampling filter reaches over the edges of the box, and no edge need fall between two pixels.
    assert inside > 0.85
    assert outside < 0.15


@pytest.mark.parametrize("name", GEOMETRIES)
def test_boxes_meet_and_cover_what_the_model_sees(name):
    (width, height), resize = GEOMETRIES[name]
    size = (32, 48) if name == "not square" else (32, 32)
    e = attnx.explain(Reader(0, size).eval(), resize, Image.new("RGB", (width, height)), methods="raw")
    boxes = [item.box for item in e.positions if item.box]
    left, top = min(box[0] for box in boxes), min(box[1] for box in boxes)
    right, bottom = max(box[2] for box in boxes), max(box[3] for box in boxes)
    area = sum((box[2] - box[0]) * (box[3] - box[1]) for box in boxes)
    assert area == pytest.approx((right - left) * (bottom - top))
    if "cropped" not in name:
        assert (left, top, right, bottom) == pytest.approx((0, 0, width, height))
    else:  # the shortest edge becomes 40, of which the middle 32 are seen
        side = min(width, height) * 0.8
        middle = ((width - side) / 2, (height - side) / 2, (width + side) / 2, (height + side) / 2)
        assert (left, top, right, bottom) == pytest.approx(middle)


def test_processed_pixels_have_boxes_in_themselves():
    ready = processor()(photo(), return_tensors="pt")
    e = attnx.explain(zoo.model("vit"), processor(), ready)
    assert e.image_size == (32, 32)
    assert e.positions[-1].box == (24, 24, 32, 32)
    shown = np.asarray(e.image).astype(int)
    expected = np.asarray(photo().resize((32, 32), Image.Resampling.BICUBIC)).astype(int)
    assert np.abs(shown - expected).max() <= 1
    plain = attnx.explain(zoo.model("vit"), processor(), photo())
    np.testing.assert_allclose(e["rollout"], plain["rollout"], atol=1e-6)


def test_images_of_all_kinds_give_the_same(tmp_path):
    picture = photo()
    array = np.asarray(picture)
    picture.save(tmp_path / "photo.png")
    kinds = [
        str(tmp_path / "photo.png"),
        tmp_path / "photo.png",
        array,
        array.transpose(2, 0, 1),
        array / 255,
        torch.tensor(array).permute(2, 0, 1),
        torch.tensor(array).permute(2, 0, 1)[None] / 255,
        picture.convert("RGBA"),
    ]
    expected = attnx.explain(zoo.model("vit"), processor(), picture)
    for item in attnx.explain(zoo.model("vit"), processor(), kinds):
        np.testing.assert_allclose(item["rollout"], expected["rollout"], atol=1e-6)
        assert item.image_size == (60, 40)


def test_images_of_one_batch_may_differ_in_shape():
    wide, tall = processor(size={"height": 32, "width": 64}), processor(size={"height": 64, "width": 32})
    model = zoo.model("dinov2")  # interpolates by itself
    ready = [item(photo(), return_tensors="pt") for item in (wide, tall)]
    together = attnx.explain(model, processor(), ready)
    for item, alone in zip(together, ready, strict=True):
        np.testing.assert_allclose(item["rollout"], attnx.explain(model, processor(), alone)["rollout"], atol=1e-6)


@pytest.mark.parametrize("name", ["vit", "deit", "beit", "clip_vision_model", "siglip_vision_model"])
def test_another_size_is_interpolated_on_request_only(name):
    model = zoo.model(name)
    wide = processor(size={"height": 32, "width": 48})
    with pytest.raises(InputError, match=r"makes 48 × 32 pixels, \w+ takes 32 × 32.*interpolate=True"):
        attnx.explain(model, wide, photo(), position=0)
    e = attnx.explain(model, wide, photo(), position=0, interpolate=True)
    assert e.tokens[-1] == "r3c5"
    assert e.positions[-1].box == pytest.approx((50, 30, 60, 40))
    assert "position embeddings were interpolated" in e.notes[0]
    pixels = wide(photo(), return_tensors="pt")["pixel_values"]
    attention = attnx.capture(model, pixel_values=pixels, interpolate_pos_encoding=True)
    np.testing.assert_allclose(e["rollout"], attnx.rollout(attention, position=0), atol=1e-6)


@pytest.mark.parametrize("name", ["dinov2", "dinov2_with_registers"])
def test_a_model_that_interpolates_by_itself_takes_any_size(name):
    e = attnx.explain(zoo.model(name), processor(size={"height": 32, "width": 48}), photo())
    assert e.tokens[-1] == "r3c5"
    assert "by the model itself" in e.notes[0]


def test_a_picture_smaller_than_a_patch_is_told():
    e = attnx.explain(zoo.model("vit"), processor(), photo(7, 5))
    assert "smaller than a patch" in e.notes[0]
    assert e.positions[-1].box == pytest.approx((5.25, 3.75, 7, 5))


def test_the_prediction_is_the_pipelines():
    torch.manual_seed(0)
    config = hf.ViTConfig(image_size=32, patch_size=8, id2label={0: "cat", 1: "dog"}, **zoo.WIDTH)
    model = hf.ViTForImageClassification(config).eval()
    e = attnx.explain(model, processor(), photo())
    best = hf.pipeline("image-classification", model=model, image_processor=processor())(photo())[0]
    assert (e.prediction.label, e.prediction.probability) == (best["label"], pytest.approx(best["score"], abs=1e-6))


def test_the_model_is_told_no_geometry_twice(monkeypatch):
    """Measuring runs the processor; images of one size need it once."""
    calls = []
    resize = processor(size={"height": 32, "width": 32}, image_mean=[0.1, 0.2, 0.3])
    original = type(resize).__call__
    monkeypatch.setattr(type(resize), "__call__", lambda self, *a, **k: calls.append(1) or original(self, *a, **k))
    attnx.explain(zoo.model("vit"), resize, [photo()] * 5, methods="raw")
    assert len(calls) == 5 + 6


def tiled(images, return_tensors):
    return {"pixel_values": torch.zeros(1, 5, 3, 32, 32)}


def flipped(images, return_tensors):
    return processor()(images.transpose(Image.Transpose.ROTATE_90), return_tensors="pt")


def test_a_processor_that_turns_images_leaves_patches_without_boxes():
    e = attnx.explain(zoo.model("vit"), flipped, photo())
    assert all(item.box is None for item in e.positions)
    assert "no box in the original" in e.notes[0]


BAD = [
    ({"text": "a cat"}, InputError, "not text"),
    ({"text": "cat.jpg"}, InputError, r"no image file 'cat\.jpg'"),
    ({"text": ["missing.png", "other.png"]}, InputError, "image 1 of 2: there is no image file"),
    ({"text": None}, ArgumentError, "missing a required argument: 'text'"),
    ({"text": ("a", "b")}, InputError, "cannot explain tuple as an image"),
    ({"text": {"input_ids": [[1, 2]]}}, InputError, "not tokenised text"),
    ({"text": np.zeros((0, 4, 3), np.uint8)}, InputError, "empty"),
    ({"text": np.zeros((5, 5, 2))}, InputError, "1, 3 or 4 channels"),
    ({"text": np.full((8, 8, 3), np.nan)}, InputError, "values from 0 to 255"),
    ({"text": np.full((8, 8, 3), -1.0)}, InputError, r"-1 to -1 \(processed"),
    ({"text": np.array([["a"]])}, InputError, "made of numbers"),
    ({"text": torch.zeros(2, 3, 8, 8)}, InputError, "batch of images"),
    ({"text": {"pixel_values": torch.full((1, 3, 32, 32), torch.nan)}}, InputError, "NaN"),
    ({"text": {"pixel_values": torch.zeros(0, 3, 32, 32)}}, InputError, "batch of processed images is empty"),
    (
        {"text": {"pixel_values": [np.zeros((3, 4, 4)), np.zeros((3, 5, 5))]}},
        InputError,
        "process each image by itself",
    ),
    ({"text": {"pixel_values": "a cat"}}, InputError, "pixel_values are no tensor"),
    ({"text": {"pixel_values": torch.zeros(1, 1, 32, 32)}}, InputError, "has 1 channels.*takes 3"),
    ({"text": {"pixel_values": torch.zeros(1, 3, 64, 64)}}, InputError, "interpolate=True"),
    ({"text": photo(6, 6), "tokenizer": processor(do_resize=False), "interpolate": True}, InputError, "one patch"),
    ({"tokenizer": None}, InputError, "needs an image processor, found NoneType"),
    ({"tokenizer": zoo.wordpiece_tokenizer()}, InputError, "needs an image processor, found .*Token"),
    ({"tokenizer": tiled}, InputError, "tiles"),
    ({"tokenizer": lambda **_: {}}, InputError, "cannot process the image"),
    ({"tokenizer": processor(size={"height": 48, "width": 48})}, InputError, "same checkpoint"),
]


@pytest.mark.parametrize(("change", "error", "message"), BAD)
def test_bad_input_is_one_line_that_says_what_to_do(change, error, message):
    arguments = {"model": zoo.model("vit"), "tokenizer": processor(), "text": photo()} | change
    with pytest.raises(error, match=message) as caught:
        attnx.explain(**arguments)
    assert "\n" not in str(caught.value)


def test_an_image_is_no_input_for_a_text_model():
    model, tokenizer = zoo.classifier(), zoo.wordpiece_tokenizer()
    with pytest.raises(InputError, match="an image needs a vision model"):
        attnx.explain(model, tokenizer, photo())
    with pytest.raises(InputError, match="an image needs a vision model"):
        attnx.explain(model, tokenizer, {"pixel_values": torch.zeros(1, 3, 32, 32)})
    with pytest.raises(InputError, match="interpolate is for images"):
        attnx.explain(model, tokenizer, "hello", interpolate=True)


def test_the_adapter_gives_the_pixels_of_each_patch():
    prepared = adapter_for(zoo.model("deit")).prepare(zoo.model("deit"), processor(), photo())
    assert prepared.boxes[:3] == (None, None, (0, 0, 8, 8))
    assert prepared.boxes[-1] == (24, 24, 32, 32)
