"""Which sentences a table is made from."""

import json

import pytest

from attnx.demo_models import Beginning, split_files
from attnx.demo_models.verb_number_data import generate
from attnx.errors import InputError
from attnx.paper import sentences
from tests import verb_number_zoo as zoo


def write(path, beginnings):
    path.write_text("".join(f"{('VBZ', 'VBP')[one.label]}\t{one.text}\n" for one in beginnings), encoding="utf-8")
    return path


@pytest.fixture
def files(tmp_path):
    return [
        write(tmp_path / "natural.tsv", generate(80, seed=1)),
        write(tmp_path / "numpred.test.2.tsv", generate(40, seed=2, attractors=2)),
    ]


def trained_with(files, tmp_path):
    (tmp_path / "training.json").write_text(json.dumps({"data_sha256": split_files(files).digest}))
    return tmp_path


def test_a_file_gives_as_many_lines_as_asked_in_its_order(files):
    lines, source = sentences.from_files(files[:1], 10, 0)
    texts = [one.text for one in generate(80, seed=1)]
    places = [texts.index(one.text) for one in lines]
    assert (len(places), places) == (10, sorted(places))
    assert source == "natural.tsv"
    assert lines != sentences.from_files(files[:1], 10, 1)[0]


def test_generated_sentences_are_not_those_that_training_draws():
    trained_on = {one.text for one in generate(2000, seed=0)}
    made, _ = sentences.generated(200, 0)
    assert len(made) == 200
    # A grammar says short things twice; all but a few are new.
    assert sum(one.text in trained_on for one in made) < 10


def test_a_short_file_gives_all_it_has(files):
    assert len(sentences.from_files(files, 1000, 0)[0]) == 120


def test_held_out_lines_are_natural_and_never_trained_on(files, tmp_path):
    lines, source = sentences.never_trained_on(trained_with(files, tmp_path), files, 1000)
    split = split_files(files)
    assert tuple(lines) == split.test[0]
    assert not {one.text for one in lines} & {one.text for part in split.train for one in part}
    assert source == "natural.tsv, held out of the training"


def test_held_out_of_another_training_is_an_error(files, tmp_path):
    with pytest.raises(InputError, match="was not trained with these files"):
        sentences.never_trained_on(trained_with(files, tmp_path), files[::-1], 10)


def test_nothing_natural_held_out_is_an_error(files, tmp_path):
    with pytest.raises(InputError, match="none of the files holds out natural sentences"):
        sentences.never_trained_on(trained_with(files[1:], tmp_path), files[1:], 10)


def test_no_sentences_asked_is_an_error(files):
    for choose in (lambda: sentences.generated(0, 0), lambda: sentences.from_files(files, 0, 0)):
        with pytest.raises(InputError, match="--samples must be at least 1"):
            choose()


def test_a_sentence_too_long_for_the_model_is_shown():
    with pytest.raises(InputError, match=r"sentence 2 of a file \(the the .*42 tokens, the model takes 40"):
        sentences.prepare(zoo.model(), zoo.tokenizer(), [Beginning("keys", 1), Beginning("the " * 40, 0)], "a file")
