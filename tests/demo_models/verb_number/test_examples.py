from __future__ import annotations

import random

from attnx.demo_models import Beginning, split_files
from attnx.demo_models.verb_number_data import split
from examples.training.verb_number import (
    Example,
    LessonSource,
    Recipe,
    inner_beginnings,
    joined,
    labelled_sources,
    noun_phrases,
    prefixes,
)


def test_an_inner_verb_labels_what_stands_before_it():
    found = inner_beginnings("the cat is old but the dogs in the yard were young , so the man")
    assert [(one.text, one.label) for one in found] == [
        ("the cat", 0),
        ("the cat is old but the dogs in the yard", 1),
    ]


def test_verbs_of_pronouns_infinitives_and_inversions_are_passed_over():
    assert inner_beginnings("they are sure that there is a reason to have what the men would have") == []


def test_prefixes_end_where_beginnings_end_and_are_new(data):
    parts = split_files(data)
    lines = {one.text for file in parts.train for one in file}
    cut = prefixes(parts)
    assert cut
    assert len(set(cut)) == len(cut)
    assert not set(cut) & (lines | parts.held_out)
    assert all(any(line.startswith(f"{text} ") for line in lines) for text in cut)
    assert not any(text.endswith((" the", " of")) for text in cut)


def test_single_words_stand_in_a_noun_phrase_unless_that_is_held_out():
    parts = split([[Beginning("the key", 0)] * 4])
    assert noun_phrases(["door", "key", "keys"], parts) == ["the door", "the keys"]


def test_a_joined_sentence_has_the_label_of_its_second_clause():
    lines = [Beginning("the cat", 0), Beginning("the dogs", 1)]
    for one in joined(lines, 20, seed=0):
        assert one.text.startswith(("the cat is ", "the dogs are "))
        assert one.text.endswith(("the cat", "the dogs")[one.label])
    assert joined(lines[:1], 20, seed=0) == []


def test_nothing_held_out_is_an_example(data):
    parts = split_files(data)
    sources = labelled_sources(
        parts, Recipe(generated=400, joined=50, seed=11)
    )  # the seed that the natural file was made with
    assert not {example.text for source in sources for example in source.examples} & parts.held_out


def test_a_source_draws_what_an_epoch_asks_without_repeats():
    source = LessonSource([Example(str(number), 0.0) for number in range(10)], per_epoch=4)
    drawn = source.draw(random.Random(0))
    assert len(set(drawn)) == 4
    assert len(LessonSource(source.examples).draw(random.Random(0))) == 10
