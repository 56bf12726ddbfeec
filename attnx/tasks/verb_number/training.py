"""Trains a verb-number model on files of sentence beginnings, or fine-tunes a pretrained encoder as its teacher.

train(files, "teacher", body="a pretrained BERT")      first a teacher,
train(files, "model", teacher="teacher")               then the small model, which learns from it and from the files
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from tokenizers import AddedToken
from torch import Tensor
from transformers import AutoModel, AutoModelForSequenceClassification, AutoTokenizer

from attnx.errors import InputError
from attnx.tasks.verb_number import checkpoint
from attnx.tasks.verb_number import generator as lexicon
from attnx.tasks.verb_number import training as teachers
from attnx.tasks.verb_number.checkpoint import TAG_EXAMPLES, build_tokenizer, saved_model, vocabulary
from attnx.tasks.verb_number.config import ALONE, CONTINUED, LABELS, STUDENT, TEACHER, Recipe, VerbNumberConfig
from attnx.tasks.verb_number.evaluation import (
    Accuracy,
    accuracies,
    load_any,
    plural_probabilities,
    read_note,
    require_same_split,
    write_note,
)
from attnx.tasks.verb_number.examples import Example, Source, labelled_sources, noun_phrases, prefixes, tokenize
from attnx.tasks.verb_number.linzen import Split, split_files
from attnx.tasks.verb_number.loop import Lessons, fit, write_atomically
from attnx.tasks.verb_number.model import VerbNumberForSequenceClassification


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


_PRETRAINED_VECTOR_SCALE = 0.05


def train(
    data: Sequence[Path],
    out: Path,
    *,
    seed: int = 0,
    epochs: int | None = None,
    body: Path | None = None,
    teacher: Path | None = None,
    start: Path | None = None,
    recipe: Recipe | None = None,
    config: VerbNumberConfig | None = None,
    resume: bool = False,
    progress: bool = True,
) -> list[Accuracy]:
    """Train on the files, write the model to `out`, and return its accuracy on what was held out of each file.

    With a `teacher`, the `out` of an earlier run with `body`, the model starts from the teacher's word vectors and
    learns its opinions of shorter beginnings and of single words beside the labels. With a `body`, a directory of a
    pretrained encoder, that encoder is fine-tuned instead. With `start`, the `out` of a finished run, training goes on
    from its weights with a new schedule. `recipe` and `config` replace the numbers of the training and the shape of
    the model. `resume` continues a run that was interrupted, from its last save.
    """
    if body is not None and (teacher is not None or start is not None):
        raise InputError("give a body (to train a teacher) or a teacher or start (to learn from), not both")
    recipe = recipe or (TEACHER if body else CONTINUED if start else STUDENT if teacher else ALONE)
    recipe = replace(recipe, seed=seed, epochs=recipe.epochs if epochs is None else epochs)
    split = split_files(data, seed=seed)
    description = _description(recipe, split, body=body, teacher=teacher, start=start)
    _check_directory(out, resume, description)
    for earlier in filter(None, (teacher, start)):
        require_same_split(earlier, split)
    report = out / "evaluation.json"
    if not report.is_file():
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            if body is not None:
                model, tokenizer = teachers.from_body(body)
            elif start is not None:
                model, tokenizer = _go_on(start, recipe)
            else:
                model, tokenizer = _small_model(split, config, recipe, teacher)
            _learn(model, tokenizer, split, recipe, teacher, out, description, progress)
        checkpoint.save(model, tokenizer, out)
    # What is reported is the saved model, read back from its half precision.
    model, tokenizer = load_any(out)
    found = accuracies(model, tokenizer, split.test, [path.name for path in data])
    lines = [{"of": one.of, "right": one.right, "total": one.total, "accuracy": one.share} for one in found]
    report.write_text(json.dumps(lines, indent=2) + "\n", encoding="utf-8")
    for name in ("state.safetensors", "opinions.safetensors"):
        (out / name).unlink(missing_ok=True)
    return found


def _learn(
    model: Any,
    tokenizer: Any,
    split: Split,
    recipe: Recipe,
    teacher: Path | None,
    out: Path,
    description: dict[str, Any],
    progress: bool,
) -> None:
    """Bring the lessons together and run the loop. The directory is made once nothing in the data can be refused."""
    sources = labelled_sources(split, recipe)
    positions = model.config.max_position_embeddings
    everything = [line.text for part in (split.train, split.development, split.test) for file in part for line in file]
    ids = tokenize([*everything, *_texts(sources)], tokenizer, positions)
    out.mkdir(parents=True, exist_ok=True)
    write_note(out, description)
    if teacher is not None:
        words = [word for word in tokenizer.get_vocab() if word not in tokenizer.all_special_tokens]
        taught = _opinions(split, sorted(words), teacher, recipe, out / "opinions.safetensors", progress)
        sources += taught
        ids |= tokenize(_texts(taught), tokenizer, positions)
    lessons = Lessons(sources, ids, [line for file in split.development for line in file])
    fit(model, tokenizer, lessons, recipe, out / "state.safetensors", progress=progress)


def _small_model(
    split: Split, config: VerbNumberConfig | None, recipe: Recipe, teacher: Path | None
) -> tuple[Any, Any]:
    """A new model for the words of the training part and of the generator."""
    config = config or VerbNumberConfig()
    known = vocabulary(line.text for file in split.train for line in file)
    words = dict.fromkeys([*known, *(word for word in lexicon.words() if word not in TAG_EXAMPLES)])
    tokenizer = build_tokenizer(words, config.max_position_embeddings)
    config.vocab_size = len(tokenizer)
    config.pad_token_id = tokenizer.pad_token_id
    config.bos_token_id, config.eos_token_id = tokenizer.bos_token_id, tokenizer.eos_token_id
    config.embedding_dropout = config.attention_dropout = config.residual_dropout = recipe.dropout
    model: Any = VerbNumberForSequenceClassification(config)
    if teacher is not None:
        entries = [*TAG_EXAMPLES, *words]
        vectors = teachers.word_vectors(teacher, entries, config.hidden_size) * _PRETRAINED_VECTOR_SCALE
        model.get_input_embeddings().weight.data[tokenizer.convert_tokens_to_ids(entries)] = vectors
    return model, tokenizer


def _go_on(start: Path, recipe: Recipe) -> tuple[Any, Any]:
    """The model of a finished run, with the dropout of the new recipe."""
    model, tokenizer = checkpoint.load(start)
    config = model.config
    config.embedding_dropout = config.attention_dropout = config.residual_dropout = recipe.dropout
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = recipe.dropout
    return model, tokenizer


def _opinions(
    split: Split, words: Sequence[str], teacher: Path, recipe: Recipe, cache: Path, progress: bool
) -> list[Source]:
    """Shorter beginnings, and single words, with the teacher's opinion for a label; kept for a run that resumes."""
    cut = prefixes(split) if recipe.prefixes else []
    single = noun_phrases(words, split) if recipe.noun_phrases else []
    texts = [*cut, *single]
    if not cache.is_file():
        plural = plural_probabilities(*load_any(teacher), texts, progress=progress)
        write_atomically({"plural": plural}, cache, {})
    opinions = load_file(cache)["plural"].tolist()
    examples = [Example(text, plural) for text, plural in zip(texts, opinions, strict=True)]
    return [Source(examples[: len(cut)], recipe.prefixes), Source(examples[len(cut) :], recipe.noun_phrases)]


def _texts(sources: Sequence[Source]) -> list[str]:
    return [example.text for source in sources for example in source.examples]


def _description(recipe: Recipe, split: Split, **directories: Path | None) -> dict[str, Any]:
    """What a run depends on; two runs of the same description end with the same weights."""
    names = {role: directory and directory.name for role, directory in directories.items()}
    return {"recipe": recipe.as_dict(), **names, "data_sha256": split.digest}


def _check_directory(out: Path, resume: bool, description: dict[str, Any]) -> None:
    """A new run needs a new directory; one to resume must have been begun with the same data and recipe."""
    if not resume:
        if out.exists():
            raise InputError(f"{out} exists; choose another directory, or resume the run in it (resume)")
        return
    note = out / "training.json"
    if not note.is_file():
        raise InputError(f"{out} holds no run to resume (no training.json in it); start one without resume")
    begun = read_note(out)
    changed = [key for key in description if begun.get(key) != description[key]]
    if changed:
        raise InputError(
            f"the run in {out} was begun with other {', '.join(changed)}; repeat its settings, or start anew"
        )
