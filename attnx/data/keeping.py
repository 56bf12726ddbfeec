"""Where the rows of a question are kept, and who measures them: here and in memory, or in a folder, by any engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from os import PathLike, fspath
from typing import Any

from attnx.data.columns import Column, Columns
from attnx.data.engine import Engine
from attnx.data.engines import engine_of
from attnx.data.measurement import Measurement, MeasurementQuestion, in_memory
from attnx.data.place import Place
from attnx.data.road import SHORT, Travel
from attnx.data.row import MOST_ROWS
from attnx.data.source import source_of
from attnx.errors import AttnxError, ChoiceError, InputError, whole_number
from attnx.running.given_model import GivenModel


@dataclass(frozen=True)
class Keeping:
    """The options that a question shares with `explain_dataset`."""

    output: str | PathLike[str] | None = None
    """The folder of the run; None for inputs that are held in memory, whose rows nobody keeps."""
    column: Column = None
    shard_rows: int | None = None
    engine: str | Engine | None = None
    workers: int | None = None
    num_gpus: float = 0

    @classmethod
    def taken(cls, output: Any, options: Mapping[str, Any]) -> tuple[Keeping, dict[str, Any]]:
        """These among the further options of a question, and the others."""
        names = {one.name for one in fields(cls)} - {"output"}
        own = {name: value for name, value in options.items() if name in names}
        rest = {name: value for name, value in options.items() if name not in names}
        idle = [name for name in own if name != "shard_rows"]
        if output is None and idle:
            raise ChoiceError(f"{idle[0]} is for a run in a folder: give output='run/', too")
        if output is not None:
            for name in ("position", "target"):
                if isinstance(options.get(name), list):
                    raise ChoiceError(f"{name} is one for all rows of a data set, found a list")
        made = cls(output, **own)
        if made.shard_rows is not None and whole_number("shard_rows", made.shard_rows) < 1:
            raise InputError(f"shard_rows must be at least 1, found {made.shard_rows}")
        return made, rest

    def inside(self, name: str) -> Keeping:
        """The same, in a folder of this name in the folder, for one of several measurements."""
        return self if self.output is None else replace(self, output=f"{fspath(self.output).rstrip('/')}/{name}")

    def options(self) -> dict[str, Any]:
        """As arguments of a question that is asked by its name."""
        only_here = {"shard_rows": self.shard_rows}
        return only_here if self.output is None else {one.name: getattr(self, one.name) for one in fields(self)}

    def result(self, measurement: Measurement[Any], given: GivenModel, data: Any, *, progress: bool) -> Any:
        """What the measurement says of the data: what is held, or with a folder all that `explain_dataset` takes."""
        if self.output is None:
            size = self.shard_rows or MOST_ROWS
            return in_memory(measurement, given.model, given.processor, data, shard_rows=size, progress=progress)
        measurement.check(given.model)
        question, place = MeasurementQuestion(measurement), Place.of(self.output)
        engine = engine_of(self.engine, self.workers, self.num_gpus)
        source = source_of(data, Columns(self.column))
        travel = Travel(question, given, source, place, engine, self.shard_rows, bool(progress))
        if not travel.run().complete:
            raise AttnxError(f"there is no result yet: {SHORT}")
        return question.result(place)
