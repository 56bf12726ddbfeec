from __future__ import annotations

import pytest

from attnx.demo_models import verb_number_data as generator
from attnx.demo_models.verb_number_data import MOST_ATTRACTORS, generate
from attnx.errors import InputError

NUMBER = {word: number for kind in generator.NOUNS.values() for pair in kind for number, word in enumerate(pair)}
BEGINNINGS = generate(2000, seed=3)


def test_the_same_seed_says_the_same():
    assert generate(50, seed=7) == generate(50, seed=7)
    assert generate(50, seed=7) != generate(50, seed=8)


def test_sentences_differ_and_numbers_balance():
    assert len({one.text for one in BEGINNINGS}) == 2000
    assert 0.47 < sum(one.label for one in BEGINNINGS) / 2000 < 0.53


def test_the_subject_is_a_noun_of_the_labels_number():
    assert all(NUMBER[one.words[one.subject]] == one.label for one in BEGINNINGS)


def test_attractors_are_the_later_nouns_of_the_other_number():
    for one in BEGINNINGS:
        nouns = [index for index, word in enumerate(one.words) if word in NUMBER and index > one.subject]
        expected = tuple(index for index in nouns if NUMBER[one.words[index]] != one.label)
        assert one.attractors == expected
        assert one.attractor_count == len(expected)


@pytest.mark.parametrize("count", range(MOST_ATTRACTORS + 1))
def test_the_number_of_attractors_can_be_asked_for(count):
    assert {one.attractor_count for one in generate(40, attractors=count)} == {count}


def test_more_attractors_than_the_grammar_has_is_an_error():
    with pytest.raises(InputError, match="9 attractors were requested, but the generator makes 0 to 5"):
        generate(1, attractors=9)


def test_a_request_that_the_grammar_cannot_fill_is_not_made_up_of_repeats():
    assert len(generate(0)) == 0
    assert len(generate(3000, attractors=0)) == 3000


def test_every_word_is_in_the_lexicon():
    known = set(generator.words())
    assert {word for one in BEGINNINGS for word in one.words} <= known


def test_no_noun_is_singular_and_plural():
    words = [word for kind in generator.NOUNS.values() for pair in kind for word in pair]
    assert len(words) == len(set(words))
