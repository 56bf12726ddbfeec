"""Recall: texts whose answer stands once, lessons that ask only what a text decides, and the model that ships."""

import numpy as np
import pytest
import torch

from attnx.demo_models.hub import BEGIN, END
from attnx.demo_models.recall import ENTRIES, FEWEST, MOST, build_tokenizer, generate, load_demo
from attnx.errors import InputError
from examples.training.recall import accuracy, lesson


def test_the_answer_stands_at_the_source_and_nowhere_else():
    for one in generate(100, seed=2):
        words = one.text.split()
        assert words[one.source] == one.answer
        assert words.count(one.answer) == 1
        assert words[one.source - 1] == words[-1]


def test_every_pair_is_asked_about_as_often_and_every_length_is_drawn():
    asked = [one.source // 2 for one in generate(400, seed=3, pairs=4)]
    assert np.abs(np.bincount(asked, minlength=4) - 100).max() < 35
    assert {len(one.text.split()) // 2 for one in generate(400)} == set(range(FEWEST, MOST + 1))


@pytest.mark.parametrize("wrong", [{"count": 0}, {"count": 1, "pairs": 0}, {"count": 1, "pairs": MOST + 1}])
def test_what_cannot_be_written_is_an_error(wrong):
    with pytest.raises(InputError, match="at least 1"):
        generate(**wrong)


def test_a_lesson_asks_for_the_value_of_a_key_and_then_for_the_end():
    tokens, labels = lesson(3, 4, np.random.default_rng(0))
    for row, wanted in zip(tokens.tolist(), labels.tolist(), strict=True):
        words = [ENTRIES[one] for one in row]
        assert words[0] == BEGIN
        told = dict(zip(words[1:9:2], words[2:9:2], strict=True))
        assert wanted[:9] == [-100] * 9
        assert [ENTRIES[one] for one in wanted[9::2]] == [told[key] for key in words[9::2]]
        assert [ENTRIES[one] for one in wanted[10::2]] == [END] * 4
        assert words[10::2] == [told[key] for key in words[9::2]]


def test_the_tokenizer_puts_a_begin_token_in_front_and_makes_a_token_of_each_word():
    tokenizer = build_tokenizer()
    assert tokenizer.convert_ids_to_tokens(tokenizer("k3 v7 k3")["input_ids"]) == [BEGIN, "k3", "v7", "k3"]


def test_the_shipped_model_recalls_new_texts():
    model, tokenizer = load_demo()
    assert accuracy(model, count=500, seed=77) >= 0.99
    assert next(model.parameters()).dtype == torch.float32
    assert not model.training
    assert model.config.num_hidden_layers >= 2
    assert len(tokenizer) == len(ENTRIES) == model.config.vocab_size


def test_it_says_the_value_and_then_the_end():
    model, tokenizer = load_demo()
    written = model.generate(
        **tokenizer("k3 v7 k1 v2 k8 v5 k1", return_tensors="pt"), max_new_tokens=5, do_sample=False
    )
    assert tokenizer.convert_ids_to_tokens(written[0, 8:]) == ["v2", END]
