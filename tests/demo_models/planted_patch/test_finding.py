"""The test that counts: does each method find the planted patch, against chance, with an interval?"""

from pathlib import Path

import numpy as np
import pytest
import torch
import transformers as hf

import attnx
from attnx.benchmarks.suites import find_patch as find
from attnx.demo_models import generate
from attnx.demo_models.planted_patch import LABELS, demo_directory, load_demo, save
from attnx.errors import ChoiceError, InputError
from attnx.pipeline import load
from examples.training.planted_patch import Recipe, _config, accuracy, train


@pytest.fixture(scope="module")
def demo():
    return load_demo()


def test_the_shipped_model_classifies_new_pictures(demo):
    assert accuracy(demo[0], count=200) > 0.97


def test_the_processor_gives_the_pixels_of_training(demo):
    pictures = generate(100, seed=78)
    pixels = demo[1]([one.image for one in pictures], return_tensors="pt")["pixel_values"]
    with torch.no_grad():
        found = demo[0](pixel_values=pixels).logits.argmax(-1)
    assert np.mean([LABELS[int(index)] == one.label for index, one in zip(found, pictures, strict=True)]) > 0.95


def finds(finding):
    """Beyond chance, and beyond seeing only what stands out, with all of the interval."""
    assert finding.low <= finding.found <= finding.high
    assert (finding.chance, finding.striking) == (1 / 64, 1 / 4)
    assert finding.rank < 24
    return finding.low > finding.striking


@pytest.mark.parametrize("method", ["raw", "rollout"])
def test_a_method_finds_the_planted_patch(demo, method):
    assert finds(find(*demo, generate(24, seed=77), methods=[method])[method])


@pytest.mark.slow
def test_every_method_and_reference_finds_the_planted_patch(demo):
    findings = find(*demo, generate(100, seed=77), references=("gradient", "blankout"))
    assert set(findings) == {"raw", "rollout", "flow", "gradient", "blankout"}
    assert all(map(finds, findings.values()))


def test_a_model_that_learnt_nothing_sees_at_best_what_stands_out(demo):
    torch.manual_seed(0)
    model = hf.ViTForImageClassification(_config(Recipe())).eval()
    findings = find(model, demo[1], generate(60, seed=77), methods=["raw", "rollout"])
    for finding in findings.values():
        assert finding.low <= finding.striking


def test_finding_takes_the_options_of_explain(demo):
    with pytest.raises(ChoiceError, match="discard is a share"):
        find(*demo, generate(1), methods=["rollout"], discard_ratio=2)
    early = find(*demo, generate(3, seed=77), methods=["raw"], layer=1)["raw"]
    assert early.found == 1


def test_the_box_of_the_best_patch_is_the_box_that_was_planted(demo):
    """Through resizing, in the pixels of the original."""
    for planted in generate(5, seed=80, enlarged=3):
        e = attnx.explain(*demo, planted.image, methods="rollout")
        best = max(e.positions[1:], key=lambda one: e.scores("rollout")[one.index])
        assert best.box == pytest.approx(planted.box)


def test_the_shipped_model_is_small_and_loads_as_any_other(demo):
    with demo_directory() as directory:
        assert sum(file.stat().st_size for file in Path(directory).iterdir()) < 1_000_000
        model, processor = load(str(directory))
    planted = generate(1, seed=81)[0]
    np.testing.assert_allclose(
        attnx.explain(model, processor, planted.image)["rollout"],
        attnx.explain(*demo, planted.image)["rollout"],
        atol=1e-6,
    )


def test_training_is_the_same_for_the_same_seed_and_leaves_the_callers_randomness_alone(tmp_path):
    recipe = Recipe(steps=2, batch=4)
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    losses = []
    one, two = train(recipe, report=lambda step, loss: losses.append(loss)), train(recipe)
    assert torch.equal(torch.rand(1), expected)
    assert len(losses) == 2
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))
    save(one, tmp_path)
    loaded, _ = load(str(tmp_path))
    assert (loaded.classifier.weight - one.classifier.weight).abs().max() < 1e-3
    assert next(one.parameters()).dtype == torch.float32


def test_no_steps_is_an_error():
    with pytest.raises(InputError, match="at least 1"):
        train(Recipe(steps=0))
