"""The training loop: all steps of a run that are not on disk yet, one after the other.

The order of the data and all randomness of a step depend on the seed and the step's number alone, so a run that was
interrupted and resumed ends with the same weights, bit for bit, as one that ran through with as many threads.
"""

from __future__ import annotations

import math
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from tqdm import tqdm

from attnx.errors import FileFormatError
from attnx.tasks.verb_number.beginning import Beginning
from attnx.tasks.verb_number.config import Recipe
from attnx.tasks.verb_number.evaluation import accuracies
from attnx.tasks.verb_number.examples import LessonBatch, LessonSource, epoch_batches


@contextmanager
def interrupts_noted() -> Iterator[Callable[[], bool]]:
    """Inside the block the first Ctrl-C only makes the function that it gives return True; a second one stops at once.

    In a thread other than the main one, which Ctrl-C never reaches, nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    noted: list[int] = []

    def note(number: int, frame: Any) -> None:
        if noted:
            raise KeyboardInterrupt
        noted.append(number)

    previous = signal.signal(signal.SIGINT, note)
    try:
        yield lambda: bool(noted)
    finally:
        signal.signal(signal.SIGINT, previous)


@dataclass
class TrainingState:
    """The parameters in training, by name; `average` and the moments follow the same names."""

    parameters: dict[str, nn.Parameter]
    average: dict[str, Tensor]
    optimizer: torch.optim.AdamW
    step: int = 0

    @classmethod
    def begin(cls, model: nn.Module, weight_decay: float) -> TrainingState:
        """Step 0 of a model. Biases, LayerNorms and other vectors do not decay."""
        parameters = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
        matrices = [parameter for parameter in parameters.values() if parameter.dim() > 1]
        vectors = [parameter for parameter in parameters.values() if parameter.dim() <= 1]
        groups = [{"params": matrices, "weight_decay": weight_decay}, {"params": vectors, "weight_decay": 0.0}]
        average = {name: parameter.detach().clone() for name, parameter in parameters.items()}
        return cls(parameters, average, torch.optim.AdamW(groups, lr=0.0, betas=(0.9, 0.98), fused=True))

    def save(self, path: Path) -> None:
        tensors = {f"average.{name}": tensor for name, tensor in self.average.items()}
        for name, parameter in self.parameters.items():
            tensors[f"weight.{name}"] = parameter.detach()
            moments = self.optimizer.state[parameter]
            tensors[f"first.{name}"], tensors[f"second.{name}"] = moments["exp_avg"], moments["exp_avg_sq"]
        write_atomically(tensors, path, {"step": str(self.step)})

    def load(self, path: Path) -> None:
        try:
            with safe_open(path, "pt") as file:
                self.step = int(file.metadata()["step"])
                for name, parameter in self.parameters.items():
                    parameter.data.copy_(file.get_tensor(f"weight.{name}"))
                    self.average[name].copy_(file.get_tensor(f"average.{name}"))
                    self.optimizer.state[parameter] = {
                        "step": torch.tensor(float(self.step)),
                        "exp_avg": file.get_tensor(f"first.{name}"),
                        "exp_avg_sq": file.get_tensor(f"second.{name}"),
                    }
        except (SafetensorError, KeyError, TypeError, RuntimeError) as error:
            raise FileFormatError(
                f"{path} is not the state of this training: {error}; delete it to start anew"
            ) from error

    def use_average(self) -> None:
        """Replace the weights by their running mean: what is kept in the end."""
        for name, parameter in self.parameters.items():
            parameter.data.copy_(self.average[name])


def write_atomically(tensors: dict[str, Tensor], path: Path, metadata: dict[str, str]) -> None:
    """Written beside, flushed to the disk, then renamed: a reader never sees half a file."""
    beside = path.with_name(f"{path.name}.part")
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, beside, metadata=metadata)
    with beside.open("rb") as file:
        os.fsync(file.fileno())
    beside.replace(path)


STEPS_BETWEEN_SAVES = 200

TokenIds = Mapping[str, Sequence[int]]


@dataclass(frozen=True)
class Lessons:
    """What a run learns from, as token ids, and the development lines that it is watched on."""

    sources: Sequence[LessonSource]
    token_ids: TokenIds
    development: Sequence[Beginning]


def fit(model: Any, tokenizer: Any, lessons: Lessons, recipe: Recipe, path: Path, *, progress: bool) -> None:
    """Train until the recipe is done, from the state in `path` where there is one; the weights end as their mean."""
    pad = tokenizer.pad_token_id
    per_epoch = len(epoch_batches(lessons.sources, lessons.token_ids, recipe, 0, pad))
    total = per_epoch * recipe.epochs
    state = TrainingState.begin(model, recipe.weight_decay)
    if path.is_file():
        state.load(path)
    model.train()
    loss, accuracy = _RunningMean(), _RunningMean()
    with interrupts_noted() as interrupted, _bar(total, state.step, progress) as bar:
        for batch in _remaining(lessons, recipe, pad, state.step, per_epoch):
            step_loss, step_accuracy = _step(model, tokenizer, batch, state, recipe, total)
            bar.update()
            bar.set_postfix(loss=loss.add(step_loss), accuracy=accuracy.add(step_accuracy), refresh=False)
            if state.step % STEPS_BETWEEN_SAVES == 0 or interrupted():
                state.save(path)
            if interrupted():
                raise KeyboardInterrupt
            if progress and state.step % per_epoch == 0:
                bar.write(f"epoch {state.step // per_epoch}: {_on_development(model, tokenizer, lessons, state)}")
    state.use_average()
    model.eval()


def _bar(total: int, done: int, shown: bool) -> Any:
    return tqdm(total=total, initial=done, unit="step", disable=not shown)


def learning_rate(recipe: Recipe, step: int, total: int) -> float:
    """Linear warm-up, then half a cosine down to 2 % of the peak."""
    warm = min(1.0, (step + 1) / recipe.warmup_steps)
    return recipe.learning_rate * warm * (0.51 + 0.49 * math.cos(math.pi * step / total))


def _step(
    model: Any, tokenizer: Any, batch: LessonBatch, state: TrainingState, recipe: Recipe, total: int
) -> tuple[float, float]:
    """One step of AdamW on cross-entropy with soft targets; returns its loss and accuracy."""
    torch.manual_seed(recipe.seed * 1_000_003 + state.step)
    ids = batch.ids
    if recipe.word_dropout:
        special = torch.isin(ids, torch.tensor(tokenizer.all_special_ids))
        dropped = (torch.rand(ids.shape) < recipe.word_dropout) & ~special
        ids = ids.masked_fill(dropped, tokenizer.unk_token_id)
    mask = batch.mask if recipe.masks_padding else torch.ones_like(batch.mask)
    logits = model(input_ids=ids, attention_mask=mask).logits
    loss = F.cross_entropy(logits, torch.stack([1 - batch.plural, batch.plural], dim=-1))
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


def _remaining(lessons: Lessons, recipe: Recipe, pad: int, done: int, per_epoch: int) -> Iterator[LessonBatch]:
    for epoch in range(done // per_epoch, recipe.epochs):
        batches = epoch_batches(lessons.sources, lessons.token_ids, recipe, epoch, pad)
        yield from batches[max(0, done - epoch * per_epoch) :]


def _on_development(model: Any, tokenizer: Any, lessons: Lessons, state: TrainingState) -> str:
    """Accuracy of the averaged weights on the development lines, natural and selected ones apart."""
    files = [[line for line in lessons.development if line.natural is natural] for natural in (True, False)]
    current = {name: parameter.detach().clone() for name, parameter in state.parameters.items()}
    state.use_average()
    found = accuracies(model, tokenizer, files, ["natural", "selected"])
    for name, parameter in state.parameters.items():
        parameter.data.copy_(current[name])
    return "; ".join(f"{one.of} {one.share:.4f}" for one in found)


@dataclass
class _RunningMean:
    """A mean that remembers about a hundred steps, for the progress bar only."""

    total: float = 0.0
    weight: float = 0.0

    def add(self, value: float) -> str:
        self.total, self.weight = 0.99 * self.total + value, 0.99 * self.weight + 1
        return f"{self.total / self.weight:.3f}"
