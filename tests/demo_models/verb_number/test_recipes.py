from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file

from attnx.demo_models import split_seed
from attnx.demo_models.verb_number import load
from attnx.errors import InputError
from examples.training import verb_number as loop
from examples.training import verb_number as recipes
from examples.training.verb_number import (
    RECIPES,
    LessonBatch,
    LstmForSequenceClassification,
    evaluate,
    load_trained,
    plural_probabilities,
    train_recipe,
)

pytestmark = pytest.mark.slow


@pytest.fixture
def short_recipes(monkeypatch):
    """Each run as it is, but for a few steps of small batches."""
    fewer = {"epochs": 1, "batch": 32, "attractor_lines": 20}
    some = dict.fromkeys(("generated", "joined", "prefixes", "noun_phrases"), 20)

    def shortened(recipe):
        return replace(recipe, **fewer, **{name: count for name, count in some.items() if getattr(recipe, name)})

    short = {name: tuple(replace(run, recipe=shortened(run.recipe)) for run in runs) for name, runs in RECIPES.items()}
    monkeypatch.setattr(recipes, "RECIPES", short)


def test_paper_is_plain_with_the_papers_dropouts(short_recipes, data, tmp_path):
    found = train_recipe("paper", data, tmp_path / "out", progress=False)
    config = load(tmp_path / "out")[0].config
    assert (config.residual_dropout, config.embedding_dropout, config.attention_dropout) == (0.4, 0.2, 0.6)
    assert evaluate(tmp_path / "out", data) == found
    plain, paper = RECIPES["plain"][0].recipe, RECIPES["paper"][0].recipe
    differ = {name for name, value in plain.as_dict().items() if paper.as_dict()[name] != value}
    assert differ == {"dropout", "embedding_dropout", "attention_dropout", "epochs"}


def test_all_seeds_hold_out_the_same_lines_and_end_with_other_weights(short_recipes, data, tmp_path):
    for seed in (0, 3):
        train_recipe("plain", data, tmp_path / str(seed), seed=seed, progress=False)
    first, second = (json.loads((tmp_path / str(seed) / "training.json").read_text()) for seed in (0, 3))
    assert first["data_sha256"] == second["data_sha256"]
    assert (first["recipe"]["seed"], second["recipe"]["seed"]) == (0, 3)
    assert split_seed(tmp_path / "3") == 0
    one, other = (load_file(tmp_path / str(seed) / "model.safetensors") for seed in (0, 3))
    assert not torch.equal(one["classifier.weight"], other["classifier.weight"])


def test_the_authors_student_learns_what_an_lstm_thinks_and_nothing_else(short_recipes, data, tmp_path, monkeypatch):
    seen = []
    real = loop._step

    def watched(model, tokenizer, batch, state, recipe, total):
        if not isinstance(model, LstmForSequenceClassification):
            seen.append((batch, tokenizer))
        return real(model, tokenizer, batch, state, recipe, total)

    monkeypatch.setattr(loop, "_step", watched)
    train_recipe("authors", data, tmp_path / "out", progress=False)
    teacher, tokenizer = load_trained(tmp_path / "out" / "teacher")
    assert isinstance(teacher, LstmForSequenceClassification)
    batch, students = seen[0]
    texts = students.batch_decode(batch.ids, skip_special_tokens=True)
    torch.testing.assert_close(batch.plural, plural_probabilities(teacher, tokenizer, texts), atol=1e-6, rtol=0)


def test_padding_that_is_not_masked_is_learned_from_like_words(tiny, data, tmp_path, monkeypatch):
    masks = []

    class Watched(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(2))

        def forward(self, input_ids, attention_mask):
            masks.append(attention_mask)
            return type("Output", (), {"logits": self.weight.expand(len(input_ids), 2)})

    ids, mask = torch.tensor([[2, 5, 3, 0]]), torch.tensor([[1, 1, 1, 0]])
    for recipe in (RECIPES["paper"][0].recipe, RECIPES["authors"][-1].recipe):
        model = Watched()
        state = loop.TrainingState.begin(model, 0.0)
        loop._step(model, None, LessonBatch(ids, mask, torch.tensor([1.0])), state, recipe, 10)
    assert [one.tolist() for one in masks] == [[[1, 1, 1, 0]], [[1, 1, 1, 1]]]


def test_an_interrupted_recipe_resumes_in_the_run_it_was_in(short_recipes, data, tmp_path, monkeypatch):
    train_recipe("authors", data, tmp_path / "whole", progress=False)
    real, taken = loop._step, 0

    def interrupted(model, *arguments):
        nonlocal taken
        taken += not isinstance(model, LstmForSequenceClassification)
        if taken == 2:
            raise KeyboardInterrupt
        return real(model, *arguments)

    monkeypatch.setattr(loop, "STEPS_BETWEEN_SAVES", 1)
    monkeypatch.setattr(loop, "_step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train_recipe("authors", data, tmp_path / "out", progress=False)
    monkeypatch.setattr(loop, "_step", real)
    with pytest.raises(InputError, match="exists; choose another directory"):
        train_recipe("authors", data, tmp_path / "out", progress=False)
    with pytest.raises(InputError, match="begun with other name, recipe"):
        train_recipe("paper", data, tmp_path / "out", resume=True, progress=False)
    train_recipe("authors", data, tmp_path / "out", resume=True, progress=False)
    whole, resumed = (load_file(tmp_path / place / "model.safetensors") for place in ("whole", "out"))
    assert all(torch.equal(tensor, resumed[name]) for name, tensor in whole.items())


@pytest.mark.slow
def test_ours_is_a_teacher_a_student_and_the_student_going_on(short_recipes, data, body, tmp_path, monkeypatch):
    monkeypatch.setattr("examples.training.verb_number.word_vectors", lambda _, words, width: torch.ones(width))
    train_recipe("ours", data, tmp_path / "out", body=body, progress=False)
    notes = [json.loads((tmp_path / "out" / part / "training.json").read_text()) for part in ("teacher", "student", "")]
    assert [(one["body"], one["teacher"], one["start"]) for one in notes] == [
        ("body", None, None),
        (None, "teacher", None),
        (None, "teacher", "student"),
    ]
    assert load(tmp_path / "out")[0].config.residual_dropout == 0.05


def test_ours_needs_a_body_and_the_others_take_none(data, tmp_path):
    with pytest.raises(InputError, match=r"give its directory \(body\), of all-MiniLM-L6-v2"):
        train_recipe("ours", data, tmp_path / "out")
    with pytest.raises(InputError, match="the recipe plain takes no pretrained encoder"):
        train_recipe("plain", data, tmp_path / "out", body=tmp_path)
    with pytest.raises(InputError, match="there is no recipe 'mine'; there are ours, plain, paper, authors"):
        train_recipe("mine", data, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_card_has_the_accuracy_and_the_recipe(short_recipes, data, tmp_path):
    natural, _ = train_recipe("plain", data, tmp_path / "out", seed=2, progress=False)
    card = (tmp_path / "out" / "README.md").read_text()
    assert "recipe `plain`, seed 2, split of seed 0." in card
    assert f"| natural.tsv | 40 | {natural.share:.4f} |" in card
    assert ("does not reach 90%" in card) == (natural.share < 0.9)
    assert "| `residual_dropout` |" not in card
    assert "| `dropout` | 0.1 |" in card
