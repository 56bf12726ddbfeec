"""`attnx explain --image`: a photo in, an overlay out."""

import json
import sys

import numpy as np
import pytest
import torch
import transformers as hf
from PIL import Image

import attnx
from attnx.cli.main import main
from tests import zoo


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("vit")
    torch.manual_seed(0)
    config = hf.ViTConfig(image_size=32, patch_size=8, id2label={0: "cat", 1: "dog"}, **zoo.WIDTH)
    hf.ViTForImageClassification(config).eval().save_pretrained(folder)
    hf.ViTImageProcessor(size={"height": 32, "width": 32}).save_pretrained(folder)
    return str(folder)


@pytest.fixture
def photo(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 255, (40, 60, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "photo.png")
    return str(tmp_path / "photo.png")


def run(monkeypatch, capsys, *arguments):
    monkeypatch.setattr(sys, "argv", ["attnx", "explain", *arguments])
    with pytest.raises(SystemExit) as done:
        main()
    printed = capsys.readouterr()
    return done.value.code, printed.out, printed.err


def test_the_overlay_is_that_of_python(saved, photo, tmp_path, monkeypatch, capsys):
    output = tmp_path / "overlay.png"
    code, out, err = run(monkeypatch, capsys, "--model", saved, "--image", photo, "--output", str(output))
    assert code == 0, err
    model = hf.ViTForImageClassification.from_pretrained(saved).eval()
    expected = attnx.explain(model, hf.ViTImageProcessor.from_pretrained(saved), photo)
    assert np.array_equal(np.asarray(Image.open(output)), np.asarray(expected.overlay()))
    assert out == f"{expected}\n"
    assert "strongest 10 of 16 patches" in out


def test_several_methods_stand_side_by_side(saved, photo, tmp_path, monkeypatch, capsys):
    output = tmp_path / "panels.png"
    methods = ["--method", "raw", "--method", "rollout", "--discard-ratio", "0.5"]
    code, out, err = run(monkeypatch, capsys, "--model", saved, "--image", photo, *methods, "--output", str(output))
    assert code == 0, err
    assert Image.open(output).width > 3 * 300
    assert "raw at layer 3" in out
    assert "rollout at layer 3" in out


def test_json_has_the_boxes(saved, photo, monkeypatch, capsys):
    code, out, _ = run(monkeypatch, capsys, "--model", saved, "--image", photo, "--json")
    told = json.loads(out)
    assert (code, told["image_size"], told["positions"][-1]["box"]) == (0, [60, 40], [45, 30, 60, 40])


BAD = [
    (["--image", "{photo}"], "needs a vision model"),
    (["--image", "{photo}", "a text", "--model", "{saved}"], "not both"),
    ([], "give a text, or an image"),
    (["--image", "{photo}", "--pair", "x", "--model", "{saved}"], "an image has none"),
    (["--image", "missing.png", "--model", "{saved}"], "no image file 'missing.png'"),
    (["--image", "{photo}", "--model", "{saved}", "--output", "x.pdf"], "ends in .safetensors, .html"),
    (["a text", "--output", "x.png"], ".md or .txt, found 'x.png'"),
    (["a text", "--model", "{saved}"], "not text"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD)
def test_mistakes_are_one_line(arguments, message, saved, photo, monkeypatch, capsys):
    filled = [one.format(photo=photo, saved=saved) for one in arguments]
    code, _, err = run(monkeypatch, capsys, *filled)
    assert code == 2
    assert message in err
    assert err.count("\n") == 1


def test_every_layer_can_be_listed_the_last_on_top(saved, photo, monkeypatch, capsys):
    arguments = ["--model", saved, "--image", photo, "--all-layers", "--reference", "gradient"]
    code, out, err = run(monkeypatch, capsys, *arguments)
    assert code == 0, err
    headlines = [line.split(" · ")[1] for line in out.splitlines() if line.startswith("prediction")]
    assert headlines == ["rollout at layer 3", "rollout at layer 2", "rollout at layer 1", "gradient"]


def test_a_missing_folder_is_told_before_anything_is_computed(photo, tmp_path, monkeypatch, capsys):
    arguments = ["--model", "not-even-loaded", "--image", photo, "--output", str(tmp_path / "missing" / "overlay.png")]
    code, _, err = run(monkeypatch, capsys, *arguments)
    assert (code, "there is no directory" in err) == (2, True)
