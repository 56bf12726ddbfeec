"""A real model translates, and each word is found to come from the word that it translates."""

import pytest

import attnx
from tests import flan_t5

SOURCE = "translate English to German: The house is wonderful."


@pytest.mark.slow
def test_words_come_from_what_they_translate():
    model, tokenizer = flan_t5.load()
    g = attnx.explain_generation(
        model, tokenizer, SOURCE, max_new_tokens=12, methods=("rollout", "alti"), references=("value_path", "blankout")
    )
    assert g.generated == ("Das", "Haus", "ist", "wunderbar", ".", "</s>")
    source = g.streams["source"]
    for written, word in (("Haus", "house"), ("wunderbar", "wonderful")):
        step = g.step(g.generated.index(written))
        for reference in ("value_path", "blankout"):
            best = next(one for one in step.top(9, reference) if one.positions[0] < source)
            assert best.text == word
    assert g.step(0).split_by_residual("rollout")
    assert not g.step(0).split_by_residual("alti")
