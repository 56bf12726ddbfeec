"""Images as people hand them over, as one picture in RGB."""

import numpy as np
import pytest
import torch
from PIL import Image

from attnx.adapters import load_image
from attnx.errors import InputError


def picture(image, channels=3):
    return np.asarray(load_image(image, channels)[0])


def test_gray_becomes_three_equal_channels():
    gray = np.arange(30, dtype=np.uint8).reshape(5, 6)
    for image in (gray, gray[..., None], gray[None], Image.fromarray(gray), Image.fromarray(gray).convert("LA")):
        np.testing.assert_array_equal(picture(image), np.repeat(gray[..., None], 3, 2))
    np.testing.assert_array_equal(picture(gray, channels=1), gray)


def test_sixteen_bits_are_divided_not_cut():
    deep = np.array([[0, 257, 65535]], np.uint16)
    for image in (deep, Image.fromarray(deep), Image.fromarray(deep.astype(np.int32))):
        np.testing.assert_array_equal(picture(image)[..., 0], [[0, 1, 255]])
    dark = Image.fromarray(np.array([[0, 200]], np.uint16))
    np.testing.assert_array_equal(picture(dark)[..., 0], [[0, 1]])


@pytest.mark.parametrize("beyond", [-500, 2**16])
def test_more_than_sixteen_bits_are_refused_not_wrapped(beyond):
    with pytest.raises(InputError, match="values from 0 to 255"):
        load_image(Image.fromarray(np.array([[300, beyond]], np.int32)))


def test_a_tensor_of_any_precision_is_read():
    tensor = torch.linspace(0, 1, 12).reshape(3, 2, 2)
    expected = picture(tensor)
    for dtype in (torch.float64, torch.float16, torch.bfloat16):
        assert np.abs(picture(tensor.to(dtype)).astype(int) - expected).max() <= 1


def test_transparency_is_dropped_and_told():
    clear = np.zeros((2, 2, 4), np.uint8)
    clear[..., 0] = 200
    read, notes = load_image(clear)
    np.testing.assert_array_equal(np.asarray(read)[0, 0], [200, 0, 0])
    assert "transparent" in notes[0]
    clear[..., 3] = 255
    assert load_image(clear)[1] == ()


def test_a_palette_becomes_colours():
    rgb = Image.fromarray(np.array([[[255, 0, 0], [0, 0, 255]]], np.uint8))
    np.testing.assert_array_equal(picture(rgb.convert("P")), np.asarray(rgb))


def test_the_rotation_flag_of_a_file_is_obeyed(tmp_path):
    turned = Image.new("RGB", (20, 10))
    flags = turned.getexif()
    flags[0x0112] = 6
    turned.save(tmp_path / "turned.jpg", exif=flags)
    assert load_image(tmp_path / "turned.jpg")[0].size == (10, 20)


def test_the_picture_is_a_copy():
    mine = Image.new("RGB", (4, 4))
    kept = load_image(mine)[0]
    mine.paste((255, 0, 0), (0, 0, 4, 4))
    assert kept.getpixel((0, 0)) == (0, 0, 0)


@pytest.mark.parametrize("content", [b"", b"not an image", b"\x89PNG\r\n\x1a\n" + b"\0" * 40])
def test_a_broken_file_is_named(tmp_path, content):
    path = tmp_path / "broken.png"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"broken\.png is no image that can be read"):
        load_image(path)


def test_a_file_that_ends_too_early_is_named(tmp_path):
    path = tmp_path / "half.jpg"
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (64, 64, 3), dtype=np.uint8)).save(path)
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(InputError, match=r"half\.jpg is no image"):
        load_image(path)


def test_a_folder_is_no_image(tmp_path):
    with pytest.raises(InputError, match="no image file"):
        load_image(tmp_path)
    with pytest.raises(InputError, match="not text"):
        load_image("a long text " * 1000)
