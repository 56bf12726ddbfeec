"""`attnx train`: the embedded model again, or another like it."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from attnx.cli.options import check_file
from attnx.errors import InputError

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Train the models of the tasks.")


class RecipeName(StrEnum):
    """The names of `RECIPES`, which are not imported for their help alone."""

    ours = "ours"
    plain = "plain"
    paper = "paper"
    authors = "authors"


@app.callback()
def tasks() -> None:
    """Train the models of the tasks."""


@app.command("verb-number")
def verb_number_command(
    data: Annotated[list[Path], typer.Option("--data", help="A file in Linzen's format; may be repeated.")],
    out: Annotated[Path, typer.Option("--out", help="A new directory for the model.")],
    recipe: Annotated[
        RecipeName | None,
        typer.Option(
            "--recipe",
            help="A whole recipe by name: ours (as the embedded model; needs --body), plain (labels, small dropout), "
            "paper (plain, with the paper's dropouts), authors (as paper, taught by an LSTM, padding not masked).",
        ),
    ] = None,
    epochs: Annotated[int | None, typer.Option("--epochs", min=0, help="By default what the recipe says.")] = None,
    seed: Annotated[
        int, typer.Option("--seed", min=0, max=2**31 - 1, help="The same seed gives the same weights.")
    ] = 0,
    teacher: Annotated[
        Path | None, typer.Option("--teacher", help="Learn from this teacher too: the --out of a run with --body.")
    ] = None,
    body: Annotated[
        Path | None, typer.Option("--body", help="Train a teacher instead, from this pretrained encoder.")
    ] = None,
    start: Annotated[
        Path | None, typer.Option("--start", help="Go on from the model of this finished run, with a new schedule.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the interrupted run in --out.")] = False,
) -> None:
    """Train on sentence beginnings; print the accuracy on what was held out of each file."""
    if recipe is not None and not (epochs is None and teacher is None and start is None):
        raise InputError("--recipe says all that --epochs, --teacher and --start would; leave them away")
    for path in data:
        check_file(path, "--data")
    from attnx.demo_models import train, train_recipe
    from attnx.pipeline import hush

    hush()
    how: dict[str, Any] = {"seed": seed, "body": body, "resume": resume, "progress": sys.stderr.isatty()}
    try:
        accuracies = (
            train(data, out, epochs=epochs, teacher=teacher, start=start, **how)
            if recipe is None
            else train_recipe(recipe.value, data, out, **how)
        )
    except KeyboardInterrupt:
        print(f"attnx: what was learned is in {out}; go on with the same command and --resume", file=sys.stderr)
        raise
    for accuracy in accuracies:
        print(accuracy)
    if not accuracies:
        print("attnx: too few lines to hold any out, so the accuracy is not known", file=sys.stderr)


NewDirectory = Annotated[Path, typer.Option("--out", help="A new directory for the model.")]
Seed = Annotated[int, typer.Option("--seed", min=0, max=2**31 - 1, help="The same seed gives the same weights.")]
Steps = Annotated[int | None, typer.Option("--steps", min=1, help="By default what the recipe says.")]


@app.command("recall")
def recall_command(out: NewDirectory, seed: Seed = 0, steps: Steps = None) -> None:
    """Train a decoder to recall: "k3 v7 k1 v2 k3" goes on with v7. Minutes on one core; no data is needed."""
    _check_new(out)
    from attnx.demo_models import recall as checkpoint
    from attnx.demo_models.training import recall as training

    _train_small(training, checkpoint, out, seed, steps)


@app.command("dates")
def dates_command(out: NewDirectory, seed: Seed = 0, steps: Steps = None) -> None:
    """Train an encoder–decoder to rewrite dates: "the third of march 1998" becomes "1998 03 03". A minute; no data."""
    _check_new(out)
    from attnx.demo_models import dates as checkpoint
    from attnx.demo_models.training import dates as training

    _train_small(training, checkpoint, out, seed, steps)


@app.command("picture-question")
def picture_question_command(out: NewDirectory, seed: Seed = 0, steps: Steps = None) -> None:
    """Train a decoder of pictures and text: "which colour is the square at the top left ?". Some minutes."""
    from attnx.demo_models import picture_question as checkpoint
    from attnx.demo_models.training import picture_question as training

    _train_small(training, checkpoint, out, seed, steps)


@app.command("planted-tone")
def planted_tone_command(out: NewDirectory, seed: Seed = 0, steps: Steps = None) -> None:
    """Train a classifier of sounds: the pitch of one of four tones is the class. Some minutes; no data is needed."""
    _check_new(out)
    from attnx.demo_models import planted_tone as checkpoint
    from attnx.demo_models.training import planted_tone as training

    _train_small(training, checkpoint, out, seed, steps)


def _check_new(out: Path) -> None:
    if out.exists():
        raise InputError(f"{out} exists; choose another directory")


def _train_small(training: Any, checkpoint: Any, out: Path, seed: int, steps: int | None) -> None:
    """By the recipe of a task's `training`, written by its `checkpoint`."""
    from tqdm import tqdm

    recipe = training.Recipe(seed=seed) if steps is None else training.Recipe(seed=seed, steps=steps)
    with tqdm(total=recipe.steps, unit="step", disable=None) as bar:

        def report(step: int, loss: float) -> None:
            bar.update()
            bar.set_postfix(loss=f"{loss:.3f}", refresh=False)

        model = training.train(recipe, report=report)
    checkpoint.save(model, out)
    print(f"right in {training.accuracy(model):.2%} of new texts; written to {out}")
