"""What a small model learns from: a fine-tuned encoder's word vectors, and a teacher's opinions of sentences."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from tokenizers import AddedToken
from torch import Tensor
from transformers import AutoModel, AutoModelForSequenceClassification, AutoTokenizer

from attnx.errors import InputError
from attnx.tasks.saved import saved_model
from attnx.tasks.verb_number.checkpoint import TAG_EXAMPLES
from attnx.tasks.verb_number.config import LABELS, Recipe
from attnx.tasks.verb_number.evaluation import load_any, plural_probabilities
from attnx.tasks.verb_number.examples import Example, LessonSource, noun_phrases, prefixes
from attnx.tasks.verb_number.linzen import Split
from attnx.tasks.verb_number.loop import write_atomically


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


def taught(
    split: Split,
    labelled: Sequence[LessonSource],
    words: Sequence[str],
    teacher: Path,
    recipe: Recipe,
    cache: Path,
    progress: bool,
) -> list[LessonSource]:
    """The labelled sources, with the teacher's opinion for a label where the recipe says so; and what it alone labels.

    Those are shorter beginnings and single words. Its opinions are kept in `cache` for a run that resumes.
    """
    again = [example.text for source in labelled for example in source.examples] if recipe.soft_labels else []
    cut = prefixes(split) if recipe.prefixes else []
    single = noun_phrases(words, split) if recipe.noun_phrases else []
    texts = [*again, *cut, *single]
    if not cache.is_file():
        plural = plural_probabilities(*load_any(teacher), texts, progress=progress)
        write_atomically({"plural": plural}, cache, {})
    opinions = load_file(cache)["plural"].tolist()
    examples = iter([Example(text, plural) for text, plural in zip(texts, opinions, strict=True)])

    def next_of(count: int, per_epoch: int | None) -> LessonSource:
        return LessonSource(list(islice(examples, count)), per_epoch)

    kept = [next_of(len(one.examples), one.per_epoch) for one in labelled] if recipe.soft_labels else list(labelled)
    return [*kept, next_of(len(cut), recipe.prefixes), next_of(len(single), recipe.noun_phrases)]
