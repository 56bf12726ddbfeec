"""The verb-number models that `attnx reproduce` measures, one or many, and the sentences that it measures them on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnx.cli.checks import check_file
from attnx.cli.options import chosen_model, say
from attnx.errors import InputError
from attnx.tasks.saved import saved_model

if TYPE_CHECKING:
    from attnx.reproduce.sentences import Sentences
    from attnx.reproduce.trainings import Trained
    from attnx.results.result import Result
    from attnx.results.trainings import OverModels

SHIPPED = "verb-number"
_TABLE = ".json"

Model = Annotated[
    Path | None, typer.Option("--model", help="A directory with a verb-number model; by default the embedded one.")
]
Models = Annotated[
    list[Path] | None,
    typer.Option(
        "--models",
        metavar="DIR…",
        help=f"Several models in one table, by the recipes that trained them: directories, one after the other; "
        f"{SHIPPED} is the embedded one, and a .json file of such a table brings its models along.",
    ),
]
More = Annotated[list[Path] | None, typer.Argument(metavar="DIR", hidden=True, help="Further directories of --models.")]
Data = Annotated[
    list[Path] | None,
    typer.Option("--data", help="A file in Linzen's format; may be repeated. By default sentences are generated."),
]
HeldOut = Annotated[
    bool,
    typer.Option("--held-out", help="Only lines the model never trained on; --data names its training files in order."),
]
Samples = Annotated[int, typer.Option("--samples", help="How many sentences.")]
Seed = Annotated[
    int, typer.Option("--seed", min=0, max=2**31 - 1, help="Draws the sentences, unless --held-out, and the bootstrap.")
]
Plot = Annotated[
    Path | None,
    typer.Option("--plot", help="Also draw it: a .png, .svg or .pdf; without an ending, a .png and a .svg."),
]


@dataclass(frozen=True)
class AskedTrainings:
    """Which models, and which sentences of them."""

    model: Path | None
    models: list[Path] | None
    more: list[Path] | None
    data: list[Path] | None
    held_out: bool
    samples: int
    seed: int
    attractors: int | None = None
    with_subject: bool = False

    def __post_init__(self) -> None:
        if self.more and not self.models:
            raise InputError(f"{self.more[0]} is no option; directories of models stand after --models")
        if self.models and self.model is not None:
            raise InputError("give --model for one model or --models for many, not both")
        if self.held_out and not self.data:
            raise InputError("--held-out needs the files of the model's training: --data FILE --data FILE …")
        for one in self.data or ():
            check_file(one, "--data")
        for place in (self.model, *self.places):
            if place is not None:
                saved_model(place)

    @property
    def places(self) -> list[Path | None]:
        """The directories of several models; None is the embedded one."""
        return [None if str(one) == SHIPPED else one for one in self._several if one.suffix != _TABLE]

    @property
    def tables(self) -> list[Path]:
        """The tables among them that were saved."""
        return [one for one in self._several if one.suffix == _TABLE]

    @property
    def _several(self) -> tuple[Path, ...]:
        return (*(self.models or ()), *(self.more or ()))


def measured(
    measure: Callable[..., Any],
    over: Callable[..., OverModels[Any]],
    kind: type[OverModels[Any]],
    asked: AskedTrainings,
    options: dict[str, Any],
) -> Result:
    """The table of the model, or `over` all that were asked for, joined with tables of that kind that were saved."""
    table: Result
    if not asked.models:
        with chosen_model(asked.model) as (directory, loaded, tokenizer):
            table = measure(loaded, tokenizer, _sentences(asked, directory, loaded, tokenizer), **options)
        return table
    from attnx.inputs.files import lines_of

    saved = [kind.from_json("\n".join(lines_of(one))) for one in asked.tables]
    parts = [*saved, *([over(_trained(asked), **options)] if asked.places else [])]
    return parts[0] if len(parts) == 1 else kind.merge(parts)


def check_plot(plot: Path | None) -> None:
    """Before minutes of work, not after them."""
    from attnx.reproduce.picture_paths import picture_paths

    if plot is not None:
        picture_paths(plot)


def draw(table: Result, plot: Path | None) -> None:
    from attnx.reproduce.pictures import save_picture

    if plot is not None:
        say(f"drawn in {path}" for path in save_picture(table.plot(), plot))


def _trained(asked: AskedTrainings) -> Iterator[Trained]:
    """One model after the other."""
    from attnx.reproduce.trainings import Trained
    from attnx.results.trainings import UNNAMED
    from attnx.tasks.verb_number.evaluation import read_note

    for place in asked.places:
        with chosen_model(place) as (directory, model, tokenizer):
            name = SHIPPED if place is None else place.resolve().name
            recipe = read_note(directory).get("name") or UNNAMED
            say([f"{name} ({recipe})"])
            one = Trained(name, recipe, model, tokenizer, _sentences(asked, directory, model, tokenizer))
        yield one


def _sentences(asked: AskedTrainings, directory: Path, model: Any, tokenizer: Any) -> Sentences:
    from attnx.reproduce import sentences

    if not asked.data:
        chosen = sentences.generated(asked.samples, asked.seed, asked.attractors)
    elif asked.held_out:
        chosen = sentences.never_trained_on(directory, asked.data, asked.samples, with_subject=asked.with_subject)
    else:
        chosen = sentences.from_files(asked.data, asked.samples, asked.seed)
    ready = sentences.prepare(model, tokenizer, *chosen)
    say(ready.notes)
    return ready
