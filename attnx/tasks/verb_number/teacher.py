"""A larger pretrained model that teaches the small one: it lends its word vectors and its opinion.

The teacher is any Hugging Face encoder, fine-tuned on the task by the same training as the small model. It brings
what 10,000 natural sentences cannot: which words are nouns, and which nouns are plural.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken
from torch import Tensor
from transformers import AutoModel, AutoModelForSequenceClassification, AutoTokenizer

from attnx.errors import InputError
from attnx.tasks.verb_number.checkpoint import saved_model
from attnx.tasks.verb_number.config import LABELS
from attnx.tasks.verb_number.tokenizer import TAG_EXAMPLES


def from_body(body: Path) -> tuple[Any, Any]:
    """A classifier on a pretrained body, and its tokenizer with each POS tag as one token.

    A tag begins as a frequent word of its kind: NNS as "things".
    """
    tokenizer = AutoTokenizer.from_pretrained(saved_model(body))
    names = dict(enumerate(LABELS))
    model = AutoModelForSequenceClassification.from_pretrained(
        body, id2label=names, label2id={name: index for index, name in names.items()}
    ).float()
    tokenizer.add_tokens([AddedToken(tag, single_word=True, normalized=False) for tag in TAG_EXAMPLES])
    tokenizer.model_max_length = model.config.max_position_embeddings
    model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    vectors = model.get_input_embeddings().weight
    with torch.no_grad():
        for tag, example in TAG_EXAMPLES.items():
            vectors[tokenizer.convert_tokens_to_ids(tag)] = _mean_vector(example, tokenizer, vectors)
    return model, tokenizer


def word_vectors(directory: Path, words: Sequence[str], width: int) -> Tensor:
    """The words' vectors in a pretrained model, word × width: word pieces averaged, then reduced by PCA.

    The scale is one: the variance over all entries.
    """
    tokenizer = AutoTokenizer.from_pretrained(saved_model(directory))
    embedding: Tensor = AutoModel.from_pretrained(directory).float().get_input_embeddings().weight.detach()
    if width > embedding.shape[1]:
        raise InputError(f"the vectors in {directory} have {embedding.shape[1]} dimensions, the model asks for {width}")
    vectors = torch.stack([_mean_vector(word, tokenizer, embedding) for word in words]).double()
    centred = vectors - vectors.mean(0)
    directions = torch.linalg.svd(centred, full_matrices=False).Vh[:width]
    reduced: Tensor = centred @ directions.T
    return (reduced / reduced.std()).float()


def _mean_vector(word: str, tokenizer: Any, vectors: Tensor) -> Tensor:
    pieces = tokenizer(word, add_special_tokens=False)["input_ids"] or [tokenizer.unk_token_id]
    return vectors[pieces].mean(0)
