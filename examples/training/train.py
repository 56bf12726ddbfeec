"""Trains the models that ship with attnx, or others like them.

python -m examples.training.train recall --out mine
python -m examples.training.train verb-number --data numpred.val.tsv.gz --recipe plain --out plain-0
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from tqdm import tqdm

from attnx.errors import AttnxError, InputError
from examples.training import verb_number

TASKS = {
    "recall": 'A decoder that recalls: "k3 v7 k1 v2 k3" goes on with v7. Minutes on one core.',
    "dates": 'An encoder–decoder that rewrites dates: "the third of march 1998" becomes "1998 03 03". A minute.',
    "picture-question": 'A decoder of images and text: "which colour is the square at the top left ?". Some minutes.',
    "planted-tone": "A classifier of audio: the pitch of one of four tones is the class. Some minutes.",
    "planted-patch": "A classifier of images: one patch decides the class. Some minutes.",
}
"""Those that need no data."""


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m examples.training.train", description=(__doc__ or "").split("\n")[0]
    )
    tasks = parser.add_subparsers(dest="task", required=True)
    for name, text in TASKS.items():
        task = tasks.add_parser(name, help=text, description=text)
        task.add_argument("--steps", type=int, help="by default what the recipe says")
    task = tasks.add_parser("verb-number", help="The classifier of the paper, from files in Linzen's format.")
    task.add_argument("--data", action="append", type=Path, required=True, help="a file; may be repeated")
    task.add_argument(
        "--recipe",
        choices=list(verb_number.RECIPES),
        help="a whole recipe: ours (as the shipped model; needs --body), plain (labels, small dropout), paper (plain, "
        "with the paper's dropouts), authors (as paper, taught by an LSTM, padding not masked)",
    )
    task.add_argument("--epochs", type=int, help="by default what the recipe says")
    task.add_argument("--teacher", type=Path, help="learn from this teacher too: the --out of a run with --body")
    task.add_argument("--body", type=Path, help="train a teacher instead, from this pretrained encoder")
    task.add_argument("--start", type=Path, help="go on from the model of this finished run, with a new schedule")
    task.add_argument("--resume", action="store_true", help="continue the interrupted run in --out")
    for task in tasks.choices.values():
        task.add_argument("--out", type=Path, required=True, help="a new directory for the model")
        task.add_argument("--seed", type=int, default=0, help="the same seed gives the same weights")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    options = _arguments(arguments)
    try:
        if options.task == "verb-number":
            _train_verb_number(options)
        else:
            _train_small(options)
    except AttnxError as error:
        sys.exit(f"attnx: {error}")


def _train_verb_number(options: argparse.Namespace) -> None:
    """Print the accuracy on what was held out of each file."""
    settings: dict[str, Any] = {
        "seed": options.seed,
        "body": options.body,
        "resume": options.resume,
        "progress": sys.stderr.isatty(),
    }
    own = {"epochs": options.epochs, "teacher": options.teacher, "start": options.start}
    if options.recipe is not None and any(value is not None for value in own.values()):
        raise InputError("--recipe says all that --epochs, --teacher and --start would; leave them away")
    try:
        if options.recipe is None:
            accuracies = verb_number.train(options.data, options.out, **own, **settings)
        else:
            accuracies = verb_number.train_recipe(options.recipe, options.data, options.out, **settings)
    except KeyboardInterrupt:
        sys.exit(f"what was learned is in {options.out}; the same command with --resume goes on from there")
    for accuracy in accuracies:
        print(accuracy)
    if not accuracies:
        print("too few lines to hold any out, so the accuracy is not known", file=sys.stderr)


def _train_small(options: argparse.Namespace) -> None:
    if options.out.exists():
        raise InputError(f"{options.out} exists; choose another directory")
    module = options.task.replace("-", "_")
    training, model_files = (
        import_module(f"{package}.{module}") for package in ("examples.training", "attnx.demo_models")
    )
    recipe = training.Recipe(seed=options.seed, **({} if options.steps is None else {"steps": options.steps}))
    with tqdm(total=recipe.steps, unit="step", disable=None) as bar:

        def report(step: int, loss: float) -> None:
            bar.update()
            bar.set_postfix(loss=f"{loss:.3f}", refresh=False)

        model = training.train(recipe, report=report)
    model_files.save(model, options.out)
    print(f"right in {training.accuracy(model):.2%} of new inputs; written to {options.out}")


if __name__ == "__main__":
    main()
