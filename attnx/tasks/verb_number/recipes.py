"""Ways to train the model of the paper, by name: what differs between them is what a table may depend on.

`plain`, `paper` and `authors` are a ladder: each is the one before it and one thing more. All of them, and all seeds,
hold out the same lines, so that their models are compared on the same sentences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from attnx.errors import InputError
from attnx.registry import quoted
from attnx.tasks.verb_number.config import ALONE, CONTINUED, STUDENT, TEACHER, Recipe
from attnx.tasks.verb_number.evaluation import Accuracy
from attnx.tasks.verb_number.linzen import split_files
from attnx.tasks.verb_number.lstm import LstmConfig
from attnx.tasks.verb_number.training import TrainingRun, carry_out, check_new

SPLIT_SEED = 0
"""Of all named recipes, as of the model that ships with attnx."""

PLAIN = replace(ALONE, epochs=8, word_dropout=0.0, attractor_lines=6_000, generated=0, joined=0)
"""Cross-entropy on the labels of the files' own lines, and small dropouts."""

PAPER = replace(PLAIN, epochs=6, dropout=0.4, embedding_dropout=0.2, attention_dropout=0.6)
"""With the dropouts of the authors' run."""

LSTM = PLAIN
"""For the teacher of the authors' student."""

AUTHORS = replace(PAPER, soft_labels=True, teachers_vectors=False, masks_padding=False, sorted_batches=1)
"""The student learns the teacher's probabilities alone, in shuffled batches, and takes their padding for words.

Two thirds of such a batch are padding, so an epoch costs three times as much as one of `PAPER`.
"""


@dataclass(frozen=True)
class Stage:
    """One run of a recipe. The model of the last is the recipe's; earlier ones lie in folders of their name in it."""

    recipe: Recipe
    name: str = ""
    model: str = "attention"
    """What learns: the paper's `attention` model, an `lstm`, or a pretrained `body` that the caller brings."""
    teacher: str | None = None
    start: str | None = None
    """Earlier runs, by name."""


RECIPES: Mapping[str, tuple[Stage, ...]] = {
    "ours": (
        Stage(TEACHER, "teacher", model="body"),
        Stage(STUDENT, "student", teacher="teacher"),
        Stage(CONTINUED, teacher="teacher", start="student"),
    ),
    "plain": (Stage(PLAIN),),
    "paper": (Stage(PAPER),),
    "authors": (Stage(LSTM, "teacher", model="lstm"), Stage(AUTHORS, teacher="teacher")),
}


def train_recipe(
    name: str,
    data: Sequence[Path],
    out: Path,
    *,
    seed: int = 0,
    body: Path | None = None,
    resume: bool = False,
    progress: bool = True,
) -> list[Accuracy]:
    """Train by a recipe of `RECIPES`, write the model to `out`, and return its accuracy on what was held out.

    `body` is the pretrained encoder that `ours` makes its teacher of. The same files, seed and recipe give the same
    weights; `resume` goes on where the recipe was interrupted, in whichever run.
    """
    runs = _runs(name, body)
    if not resume:
        check_new(out)
    elif not out.is_dir():
        raise InputError(f"there is no {out} to resume a run in; start one without resume")
    split = split_files(data, seed=SPLIT_SEED)
    found: list[Accuracy] = []
    for run in runs:
        job = TrainingRun(
            files=tuple(path.name for path in data),
            split=split,
            split_seed=SPLIT_SEED,
            recipe=replace(run.recipe, seed=seed),
            out=out / run.name,
            name=name,
            config=LstmConfig() if run.model == "lstm" else None,
            body=body if run.model == "body" else None,
            teacher=out / run.teacher if run.teacher else None,
            start=out / run.start if run.start else None,
        )
        found = carry_out(job, progress=progress)
    return found


def _runs(name: str, body: Path | None) -> tuple[Stage, ...]:
    if name not in RECIPES:
        raise InputError(f"there is no recipe {quoted(name)}; there are {', '.join(RECIPES)}")
    runs = RECIPES[name]
    needs_body = any(run.model == "body" for run in runs)
    if needs_body and body is None:
        raise InputError(
            f"the recipe {name} makes a teacher of a pretrained encoder: give its directory (body), of "
            "all-MiniLM-L6-v2 for the model that ships with attnx"
        )
    if body is not None and not needs_body:
        raise InputError(f"the recipe {name} takes no pretrained encoder (body): it learns from the files alone")
    return runs
