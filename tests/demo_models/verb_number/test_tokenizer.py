from __future__ import annotations

import pytest

from attnx.demo_models.verb_number import TAG_EXAMPLES, build_tokenizer
from examples.training.verb_number import vocabulary


@pytest.fixture(scope="module")
def tokenizer():
    return build_tokenizer(["the", "key", "to", "cabinets", ",", "(", ")", "john", "'s", "``", "which"], positions=12)


def pieces(tokenizer, text):
    return tokenizer.convert_ids_to_tokens(tokenizer(text)["input_ids"])


def test_words_stand_between_bos_and_eos(tokenizer):
    assert pieces(tokenizer, "the key") == ["<bos>", "the", "key", "<eos>"]


def test_words_are_lowered_and_tags_are_not(tokenizer):
    assert pieces(tokenizer, "The NNS to NNP")[1:-1] == ["the", "NNS", "to", "NNP"]


@pytest.mark.parametrize("tag", TAG_EXAMPLES)
def test_every_tag_is_one_token(tokenizer, tag):
    assert pieces(tokenizer, f"the {tag} key")[1:-1] == ["the", tag, "key"]


def test_a_tag_inside_a_word_is_no_tag(tokenizer):
    assert pieces(tokenizer, "NNSX")[1:-1] == ["<unk>"]


def test_words_outside_the_vocabulary_are_unknown(tokenizer):
    assert pieces(tokenizer, "the zebra")[1:-1] == ["the", "<unk>"]


def test_attached_punctuation_is_set_apart_as_in_the_data(tokenizer):
    assert pieces(tokenizer, "John's key, (which)")[1:-1] == ["john", "'s", "key", ",", "(", "which", ")"]


def test_offsets_point_into_the_text_as_given(tokenizer):
    text = "The  key, to NNP"
    encoded = tokenizer(text, return_offsets_mapping=True)
    spans = [text[start:end] for start, end in encoded["offset_mapping"]]
    assert spans == ["", "The", "key", ",", "to", "NNP", ""]


def test_padding_is_masked(tokenizer):
    batch = tokenizer(["the key", "the key to cabinets"], padding=True)
    assert batch["attention_mask"][0] == [1, 1, 1, 1, 0, 0]
    assert batch["input_ids"][0][-1] == tokenizer.pad_token_id


def test_only_ids_and_mask_are_given_to_the_model(tokenizer):
    assert set(tokenizer("the key")) == {"input_ids", "attention_mask"}


def test_vocabulary_is_by_frequency_then_alphabet_and_leaves_tags_out():
    assert vocabulary(["b a NN", "b c"]) == ["b", "a", "c"]
    assert vocabulary(["b a NN", "b c"], size=1) == ["b"]
