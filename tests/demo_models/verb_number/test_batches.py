from __future__ import annotations

import pytest
import torch

from attnx.demo_models import verb_number_data as generator
from attnx.demo_models.verb_number import build_tokenizer
from attnx.demo_models.verb_number_data import generate
from attnx.errors import InputError
from examples.training.verb_number import Example, LessonSource, Recipe, epoch_batches, padded, tokenize

EXAMPLES = [Example(one.text, float(one.label)) for one in generate(300, seed=4)]
TOKENIZER = build_tokenizer(generator.words(), positions=40)
IDS = tokenize([example.text for example in EXAMPLES], TOKENIZER, 40)


def epoch(number, seed=0):
    return epoch_batches([LessonSource(EXAMPLES)], IDS, Recipe(seed=seed, batch=16), number, pad=0)


def test_an_epoch_has_every_example_once():
    rows = [row[mask.bool()].tolist() for batch in epoch(0) for row, mask in zip(batch.ids, batch.mask, strict=True)]
    assert sorted(rows) == sorted(IDS.values())


def test_the_order_depends_on_seed_and_epoch_alone():
    def first(batches):
        return batches[0].ids.tolist()

    assert first(epoch(0)) == first(epoch(0))
    assert first(epoch(0)) != first(epoch(1))
    assert first(epoch(0)) != first(epoch(0, seed=1))


def test_targets_stay_with_their_sentences():
    plural = {tuple(IDS[example.text]): example.plural for example in EXAMPLES}
    for batch in epoch(0):
        for row, mask, target in zip(batch.ids, batch.mask, batch.plural, strict=True):
            assert plural[tuple(row[mask.bool()].tolist())] == target


def test_batches_hold_like_lengths():
    padding = sum(int((batch.mask == 0).sum()) for batch in epoch(0))
    assert padding < 0.1 * sum(batch.mask.numel() for batch in epoch(0))


def test_padding_is_masked():
    ids, mask = padded([[5, 6, 7], [8]], pad=0)
    assert torch.equal(ids, torch.tensor([[5, 6, 7], [8, 0, 0]]))
    assert torch.equal(mask, torch.tensor([[1, 1, 1], [1, 0, 0]]))


def test_a_sentence_longer_than_the_positions_is_an_error():
    with pytest.raises(InputError, match="has 7 tokens, the model 6 positions"):
        tokenize(["the key to the cabinets"], TOKENIZER, 6)
    assert tokenize([], TOKENIZER, 6) == {}
