"""What holds for every small model that ships: it is small, loads as any other, and its training repeats."""

from __future__ import annotations

from importlib import import_module

import pytest
import torch

from attnx.demo_models.hub import SHIPPED, shipped_directory
from attnx.errors import InputError
from attnx.pipeline import load

NAMES = [name for name in SHIPPED if name != "verb-number"]


@pytest.fixture(params=NAMES)
def name(request):
    return request.param


@pytest.fixture
def task(name):
    """Its generator, its model and its files."""
    return import_module(f"attnx.demo_models.{SHIPPED[name]}")


@pytest.fixture
def training(name):
    return import_module(f"examples.training.{SHIPPED[name]}")


def same_weights(model, other, tolerance=0.0):
    weights = other.state_dict()
    return all((tensor - weights[key]).abs().max() <= tolerance for key, tensor in model.state_dict().items())


def test_a_shipped_model_is_small(name):
    with shipped_directory(name) as directory:
        assert sum(file.stat().st_size for file in directory.iterdir()) < 2_000_000


def test_load_demo_and_load_by_name_give_the_same_model_in_float32(name, task):
    (model, processor), (by_name, other) = task.load_demo(), load(name)
    assert next(model.parameters()).dtype == torch.float32
    assert not model.training
    assert type(processor) is type(other)
    assert type(by_name) is type(model)
    assert same_weights(model, by_name)
    assert model.config.name_or_path == by_name.config.name_or_path == f"the {name} model embedded in attnx"


def test_loading_draws_no_random_numbers(task):
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    task.load_demo()
    assert torch.equal(torch.rand(3), expected)


def test_the_same_seed_generates_the_same_inputs(task):
    first, again, other = ([_content(item) for item in task.generate(4, seed=seed)] for seed in (1, 1, 2))
    assert first == again != other


def _content(item):
    return {
        key: value if isinstance(value, str | int | float | tuple) else value.tobytes()
        for key, value in vars(item).items()
    }


def test_no_input_is_an_error(task):
    with pytest.raises(InputError, match="at least 1"):
        task.generate(0)


def test_training_repeats_touches_no_random_state_and_is_saved_in_half_precision(task, training, tmp_path):
    recipe, losses = training.Recipe(steps=2, batch=2, seed=3), []
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    model = training.train(recipe, report=lambda step, loss: losses.append(loss))
    assert same_weights(model, training.train(recipe))
    assert torch.equal(torch.rand(1), expected)
    assert len(losses) == 2
    task.save(model, tmp_path / "mine")
    assert next(model.parameters()).dtype == torch.float32
    read, processor = load(str(tmp_path / "mine"))
    assert next(read.parameters()).dtype == torch.float32
    assert same_weights(model, read, tolerance=2e-2)
    assert type(processor) is type(
        task.build_processor() if hasattr(task, "build_processor") else task.build_tokenizer()
    )


def test_a_recipe_without_steps_is_an_error(training):
    with pytest.raises(InputError, match="at least 1"):
        training.train(training.Recipe(steps=0))
