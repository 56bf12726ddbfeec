"""Shares of relevance, where the parts are known."""

import json

import numpy as np
import pytest

from attnx.demo_models import Beginning
from attnx.errors import ChoiceError, InputError
from attnx.paper.sentences import prepare
from attnx.paper.subject import PARTS, SentenceParts, shares_of, subject
from tests import verb_number_zoo as zoo
from tests import zoo as families


def test_words_are_found_behind_bos():
    beginning = Beginning("the key to the cabinets", 0, subject=1, attractors=(4,))
    (prepared,) = zoo.prepared(beginning.text)
    assert SentenceParts.of(beginning, prepared) == SentenceParts(frozenset({2}), frozenset({5}), (1, 2, 3, 4, 5))


def test_all_pieces_of_a_word_are_the_word():
    from attnx.adapters import adapter_for

    model, tokenizer = families.classifier(), families.wordpiece_tokenizer()
    beginning = Beginning("the the unaffordable key", 0, subject=2, attractors=())
    prepared = adapter_for(model).prepare(model, tokenizer, beginning.text)
    assert SentenceParts.of(beginning, prepared).subject == {3, 4, 5, 6}


PLACES = SentenceParts(frozenset({2}), frozenset({5}), (1, 2, 3, 4, 5))


def test_shares_are_of_words_and_sum_to_one():
    on_subject, on_attractors, other, first = shares_of(np.array([9, 1, 4, 1, 0, 2, 9.0]), PLACES)
    assert (on_subject, on_attractors, other, first) == (0.5, 0.25, 0.25, 1.0)


def test_the_first_place_is_divided_among_those_that_tie():
    assert shares_of(np.array([0, 1, 1, 0, 0, 1, 0.0]), PLACES)[3] == pytest.approx(1 / 3)


def test_no_relevance_at_all_has_no_shares():
    assert np.isnan(shares_of(np.zeros(7), PLACES)).all()


def test_right_and_wrong_predictions_are_apart_and_complete(few):
    table = subject(zoo.model(), zoo.tokenizer(), few)
    assert table.predictions == ("right", "wrong")
    assert sum(table.share("rollout", "subject", kind).count for kind in table.predictions) == 12
    for kind in table.predictions:
        for measure in table.methods:
            assert sum(table.share(measure, part, kind).mean for part in PARTS[:3]) == pytest.approx(1)


def test_an_even_spread_gives_the_subject_one_share_of_the_words(few):
    table = subject(zoo.model(), zoo.tokenizer(), few)
    assert table.cell("even spread", "subject").mean == pytest.approx(
        np.mean([1 / len(beginning.words) for beginning in few.beginnings])
    )


def test_it_prints_in_three_forms(few):
    table = subject(zoo.model(), zoo.tokenizer(), few, layer=2)
    assert "at layer 2" in table.to_text()
    assert "| rollout |" in table.to_markdown()
    assert json.loads(table.to_json())["layer"] == 2


def test_unknown_attractors_are_said_to_be_so():
    known = [Beginning("the key to the cabinets", 0, subject=1), Beginning("the keys", 1, subject=1)]
    table = subject(zoo.model(), zoo.tokenizer(), prepare(zoo.model(), zoo.tokenizer(), known, "a file"))
    assert "not marked in this data" in table.to_text()


def test_a_sentence_without_a_known_subject_is_an_error():
    unknown = prepare(zoo.model(), zoo.tokenizer(), [Beginning("the key", 0)], "a file")
    with pytest.raises(InputError, match="1 of 1 sentences of a file come without the subject's position"):
        subject(zoo.model(), zoo.tokenizer(), unknown)


def test_a_layer_that_does_not_exist_is_an_error(few):
    with pytest.raises(ChoiceError, match="layer 9 was requested, but the model has 3"):
        subject(zoo.model(), zoo.tokenizer(), few, layer=9)
