"""Trains a verb-number model, or fine-tunes a pretrained one as its teacher.

The same call with the same seed gives the same weights, bit for bit, whether it ran through or was interrupted and
resumed: the order of the data and all randomness of a step depend on the seed and the step's number alone.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from tqdm import tqdm

from attnx.errors import InputError
from attnx.tasks.verb_number import checkpoint, lexicon
from attnx.tasks.verb_number import teacher as teachers
from attnx.tasks.verb_number.batches import Batch, epoch_batches, tokenize
from attnx.tasks.verb_number.config import VerbNumberConfig
from attnx.tasks.verb_number.evaluation import Accuracy, accuracies, load_any
from attnx.tasks.verb_number.examples import Example, Source, labelled_sources, prefixes
from attnx.tasks.verb_number.model import VerbNumberForSequenceClassification
from attnx.tasks.verb_number.recipe import ALONE, STUDENT, TEACHER, Recipe
from attnx.tasks.verb_number.split import Split, split_files
from attnx.tasks.verb_number.state import TrainingState, write_atomically
from attnx.tasks.verb_number.tokenizer import TAG_EXAMPLES, build_tokenizer, vocabulary

STEPS_BETWEEN_SAVES = 200
_PRETRAINED_VECTOR_SCALE = 0.05


def train(
    data: Sequence[Path],
    out: Path,
    *,
    seed: int = 0,
    epochs: int | None = None,
    body: Path | None = None,
    teacher: Path | None = None,
    recipe: Recipe | None = None,
    config: VerbNumberConfig | None = None,
    resume: bool = False,
    progress: bool = True,
) -> list[Accuracy]:
    """Train on the files, write the model to `out`, and return its accuracy on what was held out of each file.

    With a `teacher`, a directory that an earlier run with `body` wrote, the model starts from the teacher's word
    vectors and learns its opinions beside the labels. With a `body`, a directory of a pretrained encoder, that
    encoder is fine-tuned instead. `recipe` and `config` replace the numbers of the training and the shape of the
    model. `resume` continues a run that was interrupted.
    """
    if body is not None and teacher is not None:
        raise InputError("give a body (to train a teacher) or a teacher (to learn from), not both")
    recipe = recipe or (TEACHER if body else STUDENT if teacher else ALONE)
    recipe = replace(recipe, seed=seed, epochs=recipe.epochs if epochs is None else epochs)
    split = split_files(data, seed=seed)
    description = _description(recipe, split, body, teacher)
    _check_directory(out, resume, description)
    if not (out / "model.safetensors").is_file():
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model, tokenizer = teachers.from_body(body) if body else _small_model(split, config, recipe, teacher)
            sources = labelled_sources(split, recipe)
            ids = tokenize(_texts(sources), tokenizer, model.config.max_position_embeddings)
            out.mkdir(parents=True, exist_ok=True)
            (out / "training.json").write_text(json.dumps(description, indent=2) + "\n", encoding="utf-8")
            if teacher is not None:
                sources = _taught(sources, split, recipe, teacher, out / "teacher.safetensors", progress)
                ids = tokenize(_texts(sources), tokenizer, model.config.max_position_embeddings)
            _fit(model, tokenizer, sources, ids, split, recipe, out / "state.safetensors", progress)
            checkpoint.save(model, tokenizer, out)
    # What is reported is the saved model, read back from its half precision.
    model, tokenizer = load_any(out)
    found = accuracies(model, tokenizer, split.test, [path.name for path in data])
    report = [{"of": one.of, "right": one.right, "total": one.total, "accuracy": one.share} for one in found]
    (out / "evaluation.json").write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    for name in ("state.safetensors", "teacher.safetensors"):
        (out / name).unlink(missing_ok=True)
    return found


def _fit(
    model: Any,
    tokenizer: Any,
    sources: Sequence[Source],
    ids: dict[str, list[int]],
    split: Split,
    recipe: Recipe,
    path: Path,
    progress: bool,
) -> None:
    """Run all steps that `path` does not hold yet; the model ends with its averaged weights."""
    per_epoch = len(epoch_batches(sources, ids, recipe, 0, tokenizer.pad_token_id))
    total = per_epoch * recipe.epochs
    state = TrainingState.begin(model, recipe.weight_decay)
    if path.is_file():
        state.load(path)
    model.train()
    with tqdm(total=total, initial=state.step, unit="step", disable=not progress) as bar:
        loss, accuracy = _RunningMean(), _RunningMean()
        for batch in _remaining(sources, ids, recipe, tokenizer.pad_token_id, state.step, per_epoch):
            step_loss, step_accuracy = _step(model, tokenizer, batch, state, recipe, total)
            bar.update()
            bar.set_postfix(loss=loss.add(step_loss), accuracy=accuracy.add(step_accuracy), refresh=False)
            if state.step % STEPS_BETWEEN_SAVES == 0:
                state.save(path)
            if progress and state.step % per_epoch == 0:
                bar.write(_development_line(model, tokenizer, split, state, state.step // per_epoch))
    state.use_average()
    model.eval()


def _step(
    model: Any, tokenizer: Any, batch: Batch, state: TrainingState, recipe: Recipe, total: int
) -> tuple[float, float]:
    """One step of AdamW on cross-entropy with soft targets; returns its loss and accuracy."""
    torch.manual_seed(recipe.seed * 1_000_003 + state.step)
    ids = batch.ids
    if recipe.word_dropout:
        special = torch.isin(ids, torch.tensor(tokenizer.all_special_ids))
        dropped = (torch.rand(ids.shape) < recipe.word_dropout) & ~special
        ids = ids.masked_fill(dropped, tokenizer.unk_token_id)
    logits = model(input_ids=ids, attention_mask=batch.mask).logits
    targets = torch.stack([1 - batch.plural, batch.plural], dim=-1)
    loss = F.cross_entropy(logits, targets)
    state.optimizer.zero_grad(set_to_none=False)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(state.parameters.values(), recipe.clip)
    for group in state.optimizer.param_groups:
        group["lr"] = learning_rate(recipe, state.step, total)
    state.optimizer.step()
    state.step += 1
    # A young mean forgets faster, or it would remember the random start for a thousand steps.
    decay = min(recipe.averaging, (state.step + 1) / (state.step + 10))
    for name, parameter in state.parameters.items():
        state.average[name].lerp_(parameter.detach(), 1 - decay)
    right = (logits.argmax(-1) == (batch.plural > 0.5)).float().mean()
    return loss.item(), right.item()


def learning_rate(recipe: Recipe, step: int, total: int) -> float:
    """Linear warm-up, then half a cosine down to 2 % of the peak."""
    warm = min(1.0, (step + 1) / recipe.warmup_steps)
    return recipe.learning_rate * warm * (0.51 + 0.49 * math.cos(math.pi * step / total))


def _remaining(
    sources: Sequence[Source], ids: dict[str, list[int]], recipe: Recipe, pad: int, done: int, per_epoch: int
) -> Iterator[Batch]:
    for epoch in range(done // per_epoch, recipe.epochs):
        yield from epoch_batches(sources, ids, recipe, epoch, pad)[max(0, done - epoch * per_epoch) :]


def _small_model(
    split: Split, config: VerbNumberConfig | None, recipe: Recipe, teacher: Path | None
) -> tuple[Any, Any]:
    """A new model for the words of the training part and of the generator."""
    config = config or VerbNumberConfig()
    known = vocabulary(line.text for file in split.train for line in file)
    words = dict.fromkeys([*known, *(word for word in lexicon.words() if word not in TAG_EXAMPLES)])
    tokenizer = build_tokenizer(words, config.max_position_embeddings)
    config.vocab_size = len(tokenizer)
    config.pad_token_id, config.bos_token_id, config.eos_token_id = (
        tokenizer.pad_token_id,
        tokenizer.bos_token_id,
        tokenizer.eos_token_id,
    )
    config.embedding_dropout = config.attention_dropout = config.residual_dropout = recipe.dropout
    model: Any = VerbNumberForSequenceClassification(config)
    if teacher is not None:
        entries = [*TAG_EXAMPLES, *words]
        vectors = teachers.word_vectors(teacher, entries, config.hidden_size) * _PRETRAINED_VECTOR_SCALE
        model.get_input_embeddings().weight.data[tokenizer.convert_tokens_to_ids(entries)] = vectors
    return model, tokenizer


def _taught(
    sources: Sequence[Source], split: Split, recipe: Recipe, teacher: Path, cache: Path, progress: bool
) -> list[Source]:
    """The sources with the teacher's opinion mixed into the labels, and the prefixes with nothing else.

    Generated sentences keep their labels: those are certain.
    """
    *natural, generated = sources
    cut = prefixes(split) if recipe.prefixes else []
    texts = list(dict.fromkeys([*(example.text for source in natural for example in source.examples), *cut]))
    if not cache.is_file():
        answers = teachers.plural_probabilities(teacher, texts, progress=progress)
        write_atomically({"plural": answers}, cache, {})
    opinion: dict[str, float] = dict(zip(texts, load_file(cache)["plural"].tolist(), strict=True))
    share = recipe.teacher_weight

    def mixed(example: Example) -> Example:
        return Example(example.text, share * opinion[example.text] + (1 - share) * example.plural)

    taught = [Source([mixed(example) for example in source.examples], source.per_epoch) for source in natural]
    return [*taught, generated, Source([Example(text, opinion[text]) for text in cut], recipe.prefixes)]


def _texts(sources: Sequence[Source]) -> list[str]:
    return [example.text for source in sources for example in source.examples]


def _description(recipe: Recipe, split: Split, body: Path | None, teacher: Path | None) -> dict[str, Any]:
    digest = hashlib.sha256()
    for part in (split.train, split.development, split.test):
        for line in (line for file in part for line in file):
            digest.update(f"{line.label}\t{line.text}\n".encode())
    names = {"body": body and body.name, "teacher": teacher and teacher.name}
    return {"recipe": recipe.as_dict(), **names, "data_sha256": digest.hexdigest()}


def _check_directory(out: Path, resume: bool, description: dict[str, Any]) -> None:
    """A new run needs a new directory; one to resume must have been begun with the same data and recipe."""
    if not resume:
        if out.exists():
            raise InputError(f"{out} exists; choose another directory, or resume the run in it (resume)")
        return
    note = out / "training.json"
    if not note.is_file():
        raise InputError(f"{out} holds no run to resume (no training.json in it); start one without resume")
    begun = json.loads(note.read_text(encoding="utf-8"))
    changed = [key for key in description if begun.get(key) != description[key]]
    if changed:
        raise InputError(
            f"the run in {out} was begun with other {', '.join(changed)}; repeat its settings, or start anew"
        )


def _development_line(model: Any, tokenizer: Any, split: Split, state: TrainingState, epoch: int) -> str:
    """Accuracy of the averaged weights on the development lines, natural and selected apart."""
    lines = [line for file in split.development for line in file]
    files = [[line for line in lines if line.natural], [line for line in lines if not line.natural]]
    current = {name: parameter.detach().clone() for name, parameter in state.parameters.items()}
    state.use_average()
    found = accuracies(model, tokenizer, files, ["natural", "with attractors"])
    for name, parameter in state.parameters.items():
        parameter.data.copy_(current[name])
    return f"epoch {epoch}, development: " + ", ".join(f"{one.of} {one.share:.4f}" for one in found)


@dataclass
class _RunningMean:
    """A mean that remembers about a hundred steps, for the progress bar only."""

    total: float = 0.0
    weight: float = 0.0

    def add(self, value: float) -> str:
        self.total, self.weight = 0.99 * self.total + value, 0.99 * self.weight + 1
        return f"{self.total / self.weight:.3f}"
