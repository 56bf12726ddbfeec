"""How often a model is right: in each file, and by the number of agreement attractors."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from attnx.errors import FileFormatError, InputError
from attnx.tasks.saved import saved_model
from attnx.tasks.verb_number import checkpoint, linzen
from attnx.tasks.verb_number.beginning import Beginning
from attnx.tasks.verb_number.config import LABELS, VerbNumberConfig
from attnx.tasks.verb_number.examples import padded, tokenize
from attnx.tasks.verb_number.linzen import Split, split_files
from attnx.tasks.verb_number.lstm import LstmConfig


@dataclass(frozen=True)
class Accuracy:
    """Right answers of so many, with the 95 % interval of the share (Wilson)."""

    of: str
    right: int
    total: int

    @property
    def share(self) -> float:
        return self.right / self.total

    @property
    def interval(self) -> tuple[float, float]:
        z, n, share = 1.96, self.total, self.share
        centre = (share + z * z / (2 * n)) / (1 + z * z / n)
        half = z / (1 + z * z / n) * (share * (1 - share) / n + z * z / (4 * n * n)) ** 0.5
        return centre - half, centre + half

    def __str__(self) -> str:
        low, high = self.interval
        return f"{self.of}: {self.share:.4f} ({self.right:,} of {self.total:,}; 95 % interval {low:.3f}–{high:.3f})"


def evaluate(
    model_directory: Path | None, data: Sequence[Path], *, seed: int = 0, whole: bool = False
) -> list[Accuracy]:
    """Accuracy on what `train` with the same files and seed held out; None is the model that ships with attnx.

    `whole` takes every line instead, for files that the model was never trained on.
    """
    with checkpoint.demo_directory() as demo:
        directory = model_directory or demo
        model, tokenizer = load_any(directory)
        if whole:
            files: Sequence[Sequence[Beginning]] = [list(linzen.read_file(path)) for path in data]
        else:
            split = split_files(data, seed=seed)
            require_same_split(directory, split)
            files = split.test
    return accuracies(model, tokenizer, files, [path.name for path in data])


def split_seed(directory: Path) -> int:
    """The seed that made the split of the model's training; where it has no record of its own, that of the training."""
    note = read_note(directory)
    return int(note.get("split_seed", note.get("recipe", {}).get("seed", 0)))


def read_note(directory: Path) -> dict[str, Any]:
    """What the model was trained with, as its training wrote it down; nothing where that is not on record."""
    note = directory / "training.json"
    if not note.is_file():
        return {}
    try:
        read = json.loads(note.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise FileFormatError(f"{note} is damaged ({type(error).__name__}); delete it, or train again") from error
    if not isinstance(read, dict) or not isinstance(read.get("recipe", {}), dict):
        raise FileFormatError(f"{note} is not what a training wrote: expected an object with a recipe")
    return read


def write_note(directory: Path, description: Mapping[str, Any]) -> None:
    """In one step: a run that is stopped meanwhile leaves the whole note, or none."""
    beside = directory / "training.json.part"
    beside.write_text(json.dumps(description, indent=2) + "\n", encoding="utf-8")
    beside.replace(directory / "training.json")


def require_same_split(directory: Path, split: Split) -> None:
    """An error unless the model was trained with this very split: it must not have seen what is tested."""
    if read_note(directory).get("data_sha256") != split.digest:
        raise InputError(
            f"the model in {directory} was not trained with these files, this order and this seed, so what it has seen "
            "of them is not known; repeat those of its training"
        )


def load_any(directory: Path) -> tuple[Any, Any]:
    """A verb-number model, or any other classifier that was trained on the task."""
    settings, _ = VerbNumberConfig.get_config_dict(saved_model(directory))
    ours = {VerbNumberConfig.model_type: checkpoint.load, LstmConfig.model_type: checkpoint.load_lstm}
    if settings.get("model_type") in ours:
        return ours[settings["model_type"]](directory)
    from transformers import AutoModelForSequenceClassification, AutoTokenizer  # the embedded model needs neither

    model = AutoModelForSequenceClassification.from_pretrained(directory).float().eval()
    if model.config.num_labels != len(LABELS):
        raise InputError(
            f"the model in {directory} has {model.config.num_labels} classes, expected {', '.join(LABELS)}"
        )
    return model, AutoTokenizer.from_pretrained(directory)


def accuracies(
    model: Any, tokenizer: Any, files: Sequence[Sequence[Beginning]], names: Sequence[str]
) -> list[Accuracy]:
    """One line per file that has lines. A file whose attractor counts are known and vary gets a line per count too."""
    found = []
    for name, beginnings in zip(names, files, strict=True):
        if not beginnings:
            continue
        plural = plural_probabilities(model, tokenizer, [one.text for one in beginnings]) > 0.5
        right = plural == torch.tensor([one.label == 1 for one in beginnings])
        found.append(Accuracy(name, int(right.sum()), len(beginnings)))
        counts = [one.attractor_count for one in beginnings]
        for count in sorted({count for count in counts if count is not None}) if len(set(counts)) > 1 else ():
            chosen = right[torch.tensor([one == count for one in counts])]
            found.append(Accuracy(f"{name}, {count} attractors", int(chosen.sum()), len(chosen)))
    return found


def plural_probabilities(
    model: Any, tokenizer: Any, texts: Sequence[str], *, batch: int = 128, progress: bool = False
) -> Tensor:
    """The probability of a plural verb after each text. The model is left in the mode it was in."""
    ids = tokenize(texts, tokenizer, model.config.max_position_embeddings)
    order = sorted(range(len(texts)), key=lambda index: len(ids[texts[index]]))
    answers = torch.zeros(len(texts))
    was_training = model.training
    model.eval()
    try:
        for start in tqdm(range(0, len(order), batch), "reading", unit="batch", disable=not progress):
            chosen = order[start : start + batch]
            tokens, mask = padded([ids[texts[index]] for index in chosen], tokenizer.pad_token_id)
            with torch.inference_mode():
                answers[chosen] = model(input_ids=tokens, attention_mask=mask).logits.softmax(-1)[:, 1]
    finally:
        model.train(was_training)
    return answers
