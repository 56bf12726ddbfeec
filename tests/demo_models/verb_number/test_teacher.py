from __future__ import annotations

import pytest
import torch

from attnx.errors import FileFormatError, InputError
from examples.training.verb_number import from_body, word_vectors


def test_a_tag_is_one_token_and_begins_as_its_example(body):
    model, tokenizer = from_body(body)
    assert tokenizer.tokenize("the NNS of") == ["the", "NNS", "of"]
    vectors = model.get_input_embeddings().weight
    tag, example = tokenizer.convert_tokens_to_ids(["NNS", "things"])
    assert torch.equal(vectors[tag], vectors[example])
    assert model.config.id2label == {0: "singular", 1: "plural"}


def test_reduced_vectors_keep_the_distances_that_fit(body):
    """With as many directions as the words span, PCA only turns the space: distances stay in proportion."""
    words = ["key", "keys", "door", "cabinet", "table"]
    model, tokenizer = from_body(body)
    full = model.get_input_embeddings().weight.detach()[tokenizer.convert_tokens_to_ids(words)]
    expected, found = torch.cdist(full, full), torch.cdist(*[word_vectors(body, words, 5)] * 2)
    torch.testing.assert_close(found / found.max(), expected / expected.max(), atol=1e-4, rtol=1e-4)


def test_more_dimensions_than_the_teacher_has_is_an_error(body):
    with pytest.raises(InputError, match="have 32 dimensions, the model asks for 64"):
        word_vectors(body, ["key"], 64)


def test_a_directory_without_a_model_is_an_error(tmp_path):
    with pytest.raises(FileFormatError, match="is not a directory of a saved model"):
        from_body(tmp_path)
