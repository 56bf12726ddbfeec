"""Where a processor puts an image, measured on the processor, against what its settings mean."""

import numpy as np
import pytest
import transformers as hf

from attnx.adapters.image import measure_geometry

SIZES = [(640, 480), (480, 640), (64, 64), (300, 201), (1200, 200), (223, 225), (8, 8), (31, 90)]


def square(side):
    return {"height": side, "width": side}


PROCESSORS = {
    "resize": hf.ViTImageProcessor(size=square(224)),
    "resize to other sides": hf.ViTImageProcessor(size={"height": 96, "width": 160}),
    "resize, crop": hf.DeiTImageProcessor(size=square(256), crop_size=square(224)),
    "resize the shortest edge, crop": hf.BitImageProcessor(size={"shortest_edge": 64}, crop_size=square(56)),
    "clip": hf.CLIPImageProcessor(),
    "crop or pad": hf.BitImageProcessor(do_resize=False, crop_size=square(224)),
    "nothing": hf.ViTImageProcessor(do_resize=False),
    "siglip": hf.SiglipImageProcessor(size=square(96)),
}


def measured(processor, size):
    return measure_geometry(lambda picture: processor(picture, return_tensors="np")["pixel_values"][0], size, "RGB")


def meant(processor, size):
    """(resized, moved) of both axes by the processor's settings, as transformers documents them."""
    wanted = {name: side for name, side in dict(processor.size).items() if side}
    crop = dict(processor.crop_size) if getattr(processor, "do_center_crop", False) else None
    for axis, name in enumerate(("width", "height")):
        resized = size[axis]
        if processor.do_resize:
            shortest = wanted.get("shortest_edge")
            resized = int(shortest * size[axis] / min(size)) if shortest else wanted[name]
        yield resized, 0 if crop is None else -((resized - crop[name]) // 2)


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("name", PROCESSORS)
def test_what_is_measured_is_what_the_settings_mean(name, size):
    found = measured(PROCESSORS[name], size)
    for axis, length, (resized, moved) in zip((found.x, found.y), size, meant(PROCESSORS[name], size), strict=True):
        assert (axis.scale * length, axis.shift) == pytest.approx((resized, moved), abs=1e-6)


def test_padding_has_no_place_in_the_original():
    found = measured(PROCESSORS["crop or pad"], (100, 100))
    assert found.original((0, 0, 32, 32)) is None
    assert found.original((32, 60, 80, 90)) == pytest.approx((0, 0, 18, 28))


def test_a_few_pixels_are_taken_to_fill_the_picture():
    box = measured(PROCESSORS["resize"], (1, 3)).original((0, 0, 224, 112))
    assert box == pytest.approx((0, 0, 1, 1.5))
    assert [type(edge) for edge in box] == [float] * 4


@pytest.mark.parametrize("name", PROCESSORS)
@pytest.mark.parametrize("size", [(4, 4), (4, 40), (5, 4)], ids=str)
def test_a_handful_of_pixels_is_placed_to_a_share_of_a_pixel(name, size):
    found = measured(PROCESSORS[name], size)
    for axis, length, (resized, moved) in zip((found.x, found.y), size, meant(PROCESSORS[name], size), strict=True):
        for edge in (0, length):
            assert axis.scale * edge + axis.shift == pytest.approx(
                resized / length * edge + moved, abs=0.1 * axis.scale
            )


@pytest.mark.parametrize(
    "turn",
    [np.transpose, np.fliplr, np.flipud, lambda picture: np.roll(picture, 20, 1)],
    ids=["turn", "x", "y", "roll"],
)
def test_what_is_no_scaling_is_not_measured(turn):
    def process(picture):
        return turn(np.asarray(picture.convert("L")).astype(float))[None].repeat(3, 0)

    assert measure_geometry(process, (48, 48), "RGB") is None
