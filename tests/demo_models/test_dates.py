"""Dates: texts whose deciding words are known, and the encoder–decoder that ships and really reads them there."""

from datetime import date

import numpy as np
import pytest
import torch

from attnx.demo_models.dates import (
    ENTRIES,
    FIELDS,
    MONTHS,
    NUMBERS,
    ORDINALS,
    POSITIONS,
    SHORT,
    YEARS,
    build_tokenizer,
    generate,
    load_demo,
)
from attnx.demo_models.hub import END, UNKNOWN
from examples.training.dates import accuracy


def field_of(word):
    """The year that a word names, or the month or day."""
    for words in (MONTHS, SHORT, ORDINALS, NUMBERS):
        if word in words:
            return FIELDS[words.index(word)]
    return word if word in YEARS else None


def written(model, tokenizer, text):
    with torch.no_grad():
        tokens = model.generate(**tokenizer(text, return_tensors="pt"), max_new_tokens=5, do_sample=False)
    return tokenizer.decode(tokens[0], skip_special_tokens=True)


def test_the_same_seed_writes_the_same_texts():
    assert generate(5, seed=1) == generate(5, seed=1) != generate(5, seed=2)


def test_every_field_is_that_of_its_source_word_and_of_no_other_of_its_kind():
    for one in generate(300, seed=2):
        words, fields = one.text.split(), one.written.split()
        date(*map(int, fields))
        kinds = ((*YEARS,), (*MONTHS, *SHORT), (*ORDINALS, *NUMBERS))
        for field, source, kind in zip(fields, one.sources, kinds, strict=True):
            assert field_of(words[source]) == field
            assert [word for word in words if word in kind and field_of(word) == field] == [words[source]]


def test_place_gives_nothing_away_and_what_distracts_is_there():
    texts = generate(400, seed=3)
    assert len({one.sources for one in texts}) > 50
    assert 0.3 < np.mean([" not " in f" {one.text} " or "instead" in one.text for one in texts]) < 0.5
    assert any("page" in one.text for one in texts)


def test_the_tokenizer_knows_every_word_that_is_drawn_and_puts_an_end_behind():
    tokenizer = build_tokenizer()
    longest = 0
    for one in generate(500, seed=4):
        tokens = tokenizer.convert_ids_to_tokens(tokenizer(one.text)["input_ids"])
        assert tokens == [*one.text.split(), END]
        assert UNKNOWN not in tokens
        longest = max(longest, len(tokens))
    assert longest <= POSITIONS
    assert tokenizer.convert_ids_to_tokens(tokenizer("March")["input_ids"]) == ["march", END]


def test_the_shipped_model_rewrites_new_dates():
    model, tokenizer = load_demo()
    assert accuracy(model, count=500, seed=77) >= 0.99
    assert next(model.parameters()).dtype == torch.float32
    assert not model.training
    assert len(tokenizer) == len(ENTRIES) == model.config.vocab_size
    assert written(model, tokenizer, "the third of march 1998") == "1998 03 03"


@pytest.mark.slow
def test_another_word_at_the_source_changes_its_field_and_no_other():
    model, tokenizer = load_demo()
    other = {"year": "1984", "month": "august", "day": "eleventh"}
    changed = {"year": "1984", "month": "08", "day": "11"}
    asked = right = 0
    for one in generate(40, seed=5):
        for place, (name, word) in enumerate(other.items()):
            words, expected = one.text.split(), one.written.split()
            if field_of(word) in (expected[place], *map(field_of, words)):
                continue
            words[one.sources[place]] = word
            expected[place] = changed[name]
            asked += 1
            right += written(model, tokenizer, " ".join(words)) == " ".join(expected)
    assert asked > 90
    assert right / asked >= 0.99
