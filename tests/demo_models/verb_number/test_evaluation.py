from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from attnx.demo_models import Beginning
from attnx.demo_models import verb_number_data as generator
from attnx.demo_models.verb_number import VerbNumberConfig, VerbNumberForSequenceClassification, build_tokenizer
from attnx.demo_models.verb_number_data import generate
from examples.training.verb_number import Accuracy, accuracies, plural_probabilities

TOKENIZER = build_tokenizer(generator.words(), positions=40)
PLURALS = {plural for kind in generator.NOUNS.values() for _, plural in kind}


class LastNoun(torch.nn.Module):
    """Answers with the number of the last noun: right without attractors, wrong with one at the end."""

    config = SimpleNamespace(max_position_embeddings=40)

    def forward(self, input_ids, attention_mask):
        nouns = {TOKENIZER.convert_tokens_to_ids(word): word in PLURALS for word in known_nouns()}
        answers = [[nouns[one] for one in row.tolist() if one in nouns][-1] for row in input_ids]
        return SimpleNamespace(logits=torch.nn.functional.one_hot(torch.tensor(answers).long(), 2).float())


def known_nouns():
    return (word for kind in generator.NOUNS.values() for pair in kind for word in pair)


def test_accuracy_is_told_by_the_number_of_attractors():
    lines = [*generate(60, attractors=0), *generate(60, attractors=1), *generate(60, attractors=2)]
    whole, none, one, two = accuracies(LastNoun(), TOKENIZER, [lines], ["some.tsv"])
    assert (none.of, none.share) == ("some.tsv, 0 attractors", 1.0)
    assert two.share < one.share < 0.5
    assert whole.total == 180
    assert whole.right == none.right + one.right + two.right


def test_a_file_of_one_count_has_one_line_and_an_empty_one_none():
    lines = generate(10, attractors=1)
    assert [one.of for one in accuracies(LastNoun(), TOKENIZER, [lines, []], ["a", "b"])] == ["a"]


def test_answers_come_in_the_order_of_the_texts_and_the_mode_is_kept():
    model = LastNoun().train()
    lines = generate(50, attractors=0)
    plural = plural_probabilities(model, TOKENIZER, [one.text for one in lines], batch=7) > 0.5
    assert plural.tolist() == [one.label == 1 for one in lines]
    assert model.training


def test_probabilities_do_not_depend_on_the_batch():
    torch.manual_seed(0)
    config = VerbNumberConfig(len(TOKENIZER), 16, 2, 2, 40, initializer_range=0.3)
    model = VerbNumberForSequenceClassification(config)
    texts = [one.text for one in generate(30)]
    together = plural_probabilities(model, TOKENIZER, texts)
    torch.testing.assert_close(together, plural_probabilities(model, TOKENIZER, texts, batch=1))
    assert together.std() > 0.01


def test_the_interval_is_wilsons():
    """Reference values: 81 of 263, Newcombe 1998, method 3."""
    assert Accuracy("x", 81, 263).interval == pytest.approx((0.2553, 0.3662), abs=1e-4)
    assert "0.3080 (81 of 263; 95 % interval 0.255–0.366)" in str(Accuracy("x", 81, 263))


def test_a_beginning_knows_its_words():
    assert Beginning("the key", 0).words == ["the", "key"]
