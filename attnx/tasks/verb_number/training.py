"""Trains a verb-number model on files of sentence beginnings, or fine-tunes a pretrained encoder as its teacher.

train(files, "teacher", body="a pretrained BERT")      first a teacher,
train(files, "model", teacher="teacher")               then the small model, which learns from it and from the files

Whole recipes of several runs have names: `recipes.py`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from attnx.errors import InputError
from attnx.tasks.verb_number import checkpoint
from attnx.tasks.verb_number import generator as lexicon
from attnx.tasks.verb_number.card import write_card
from attnx.tasks.verb_number.checkpoint import TAG_EXAMPLES, build_tokenizer, vocabulary
from attnx.tasks.verb_number.config import ALONE, CONTINUED, STUDENT, TEACHER, Recipe, VerbNumberConfig
from attnx.tasks.verb_number.evaluation import (
    Accuracy,
    accuracies,
    load_any,
    read_note,
    require_same_split,
    write_note,
)
from attnx.tasks.verb_number.examples import LessonSource, labelled_sources, tokenize
from attnx.tasks.verb_number.linzen import Split, split_files
from attnx.tasks.verb_number.loop import Lessons, fit
from attnx.tasks.verb_number.lstm import LstmConfig, LstmForSequenceClassification
from attnx.tasks.verb_number.model import VerbNumberForSequenceClassification
from attnx.tasks.verb_number.teacher import from_body, taught, word_vectors

_PRETRAINED_VECTOR_SCALE = 0.05


@dataclass(frozen=True)
class TrainingRun:
    """One run, and all that its weights depend on."""

    files: tuple[str, ...]
    split: Split
    split_seed: int
    recipe: Recipe
    out: Path
    name: str | None = None
    """Of the recipe that the run is a part of."""
    config: VerbNumberConfig | LstmConfig | None = None
    body: Path | None = None
    teacher: Path | None = None
    start: Path | None = None

    @property
    def description(self) -> dict[str, Any]:
        """What is written down of a run; two runs of the same description end with the same weights."""
        earlier = {"body": self.body, "teacher": self.teacher, "start": self.start}
        return {
            "name": self.name,
            "recipe": self.recipe.as_dict(),
            "split_seed": self.split_seed,
            **{role: directory and directory.name for role, directory in earlier.items()},
            "data_sha256": self.split.digest,
        }


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
    config: VerbNumberConfig | LstmConfig | None = None,
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
    job = TrainingRun(
        files=tuple(path.name for path in data),
        split=split_files(data, seed=seed),
        split_seed=seed,
        recipe=recipe,
        out=out,
        config=config,
        body=body,
        teacher=teacher,
        start=start,
    )
    if resume:
        check_begun(out)
    else:
        check_new(out)
    return carry_out(job, progress=progress)


def check_new(out: Path) -> None:
    if out.exists():
        raise InputError(f"{out} exists; choose another directory, or resume the run in it (resume)")


def check_begun(out: Path) -> None:
    if not (out / "training.json").is_file():
        raise InputError(f"{out} holds no run to resume (no training.json in it); start one without resume")


def carry_out(job: TrainingRun, *, progress: bool) -> list[Accuracy]:
    """From wherever the run stands to its end: a finished one is only evaluated."""
    _check_same_run(job)
    for earlier in filter(None, (job.teacher, job.start)):
        require_same_split(earlier, job.split)
    out, report = job.out, job.out / "evaluation.json"
    if not report.is_file():
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(job.recipe.seed)
            if job.body is not None:
                model, tokenizer = from_body(job.body)
            elif job.start is not None:
                model, tokenizer = _go_on(job.start, job.recipe)
            else:
                model, tokenizer = _new_model(job)
            _learn(model, tokenizer, job, progress)
        checkpoint.save(model, tokenizer, out)
    # What is reported is the saved model, read back from its half precision.
    model, tokenizer = load_any(out)
    found = accuracies(model, tokenizer, job.split.test, job.files)
    lines = [{"of": one.of, "right": one.right, "total": one.total, "accuracy": one.share} for one in found]
    write_card(out, job.description, found)
    report.write_text(json.dumps(lines, indent=2) + "\n", encoding="utf-8")
    for name in ("state.safetensors", "opinions.safetensors"):
        (out / name).unlink(missing_ok=True)
    return found


def _learn(model: Any, tokenizer: Any, job: TrainingRun, progress: bool) -> None:
    """Bring the lessons together and run the loop. The directory is made once nothing in the data can be refused."""
    split, recipe, out = job.split, job.recipe, job.out
    sources = labelled_sources(split, recipe)
    positions = model.config.max_position_embeddings
    everything = [line.text for part in (split.train, split.development, split.test) for file in part for line in file]
    ids = tokenize([*everything, *_texts(sources)], tokenizer, positions)
    out.mkdir(parents=True, exist_ok=True)
    write_note(out, job.description)
    if job.teacher is not None:
        words = sorted(word for word in tokenizer.get_vocab() if word not in tokenizer.all_special_tokens)
        sources = taught(split, sources, words, job.teacher, recipe, out / "opinions.safetensors", progress)
        ids |= tokenize([text for text in _texts(sources) if text not in ids], tokenizer, positions)
    lessons = Lessons(sources, ids, [line for file in split.development for line in file])
    fit(model, tokenizer, lessons, recipe, out / "state.safetensors", progress=progress)


def _new_model(job: TrainingRun) -> tuple[Any, Any]:
    """A new model for the words of the training part and of the generator."""
    config = job.config or VerbNumberConfig()
    known = vocabulary(line.text for file in job.split.train for line in file)
    words = dict.fromkeys([*known, *(word for word in lexicon.words() if word not in TAG_EXAMPLES)])
    tokenizer = build_tokenizer(words, config.max_position_embeddings)
    config.vocab_size = len(tokenizer)
    config.pad_token_id = tokenizer.pad_token_id
    config.bos_token_id, config.eos_token_id = tokenizer.bos_token_id, tokenizer.eos_token_id
    config.update(job.recipe.dropouts)
    if isinstance(config, LstmConfig):
        return LstmForSequenceClassification(config), tokenizer
    model: Any = VerbNumberForSequenceClassification(config)
    if job.teacher is not None and job.recipe.teachers_vectors:
        entries = [*TAG_EXAMPLES, *words]
        vectors = word_vectors(job.teacher, entries, config.hidden_size) * _PRETRAINED_VECTOR_SCALE
        model.get_input_embeddings().weight.data[tokenizer.convert_tokens_to_ids(entries)] = vectors
    return model, tokenizer


def _go_on(start: Path, recipe: Recipe) -> tuple[Any, Any]:
    """The model of a finished run, with the dropouts of the new recipe."""
    earlier, tokenizer = checkpoint.load(start)
    config: Any = earlier.config
    config.update(recipe.dropouts)
    model = VerbNumberForSequenceClassification(config)
    model.load_state_dict(earlier.state_dict())
    return model, tokenizer


def _texts(sources: Sequence[LessonSource]) -> list[str]:
    return [example.text for source in sources for example in source.examples]


def _check_same_run(job: TrainingRun) -> None:
    """What was begun in the directory must have been begun with the same data and recipe."""
    if not (job.out / "training.json").is_file():
        return
    begun, description = read_note(job.out), job.description
    changed = [key for key in description if begun.get(key) != description[key]]
    if changed:
        raise InputError(
            f"the run in {job.out} was begun with other {', '.join(changed)}; repeat its settings, or start anew"
        )
