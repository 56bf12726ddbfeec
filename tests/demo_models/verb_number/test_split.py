from __future__ import annotations

from attnx.demo_models import Beginning, split_files
from attnx.demo_models.verb_number_data import generate, split

NATURAL = generate(400, seed=1)
SELECTED = generate(200, seed=2, attractors=1)
REPEATED = [*NATURAL, *NATURAL[:100], Beginning("the key", 0)]


def texts(files):
    return {one.text for file in files for one in file}


def test_no_tested_sentence_is_learned_from():
    parts = split([REPEATED, [*SELECTED, *NATURAL[:50]]])
    assert not texts(parts.train) & texts(parts.test)
    assert not texts(parts.train) & texts(parts.development)
    assert not texts(parts.development) & texts(parts.test)
    assert parts.held_out == texts(parts.development) | texts(parts.test)


def test_a_quarter_is_tested_and_a_sixteenth_is_for_development():
    parts = split([NATURAL, SELECTED])
    assert [len(file) for file in parts.test] == [100, 50]
    assert [len(file) for file in parts.development] == [25, 12]
    assert [len(file) for file in parts.train] == [275, 138]


def test_at_most_two_thousand_are_tested():
    many = [Beginning(f"word {number}", 0) for number in range(9000)]
    assert len(split([many]).test[0]) == 2000


def test_the_split_depends_on_the_seed_alone(data):
    assert split_files(data, seed=1) == split_files(data, seed=1)
    assert split_files(data, seed=1) != split_files(data, seed=2)
