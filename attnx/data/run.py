"""A finished run, or one on its way, read from its folder as it is needed: no more of it is held than one shard."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnx.arguments import PAGES, file_of, replacing
from attnx.data import manifest as manifests
from attnx.data.arrow import arrow
from attnx.data.cells import explanation_of
from attnx.data.layout import Layout
from attnx.data.lock import taken
from attnx.data.manifest import Manifest, Part
from attnx.data.part import read_part
from attnx.data.place import Place
from attnx.data.status import Failed, failed_rows, manifest_of
from attnx.data.summary import summarised
from attnx.errors import AttnxError, ChoiceError, InputError
from attnx.registry import quoted, unknown
from attnx.results.explanation import Explanation
from attnx.results.result import VIEWS
from attnx.results.run_summary import RunSummary

if TYPE_CHECKING:
    import pandas


class Run:
    """Explanations of a data set. `run[7]` is one, `for e in run` all, `run.failed` what could not be explained.

    >>> model, tokenizer = attnx.load_demo()
    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> texts = ["the keys to the cabinet", "the boy near the girls"]
    >>> run = explain_dataset(model, tokenizer, texts, output=folder, methods="rollout", progress=False)
    >>> print(run[1].prediction)
    singular (0.998)
    """

    def __init__(self, place: Place, manifest: Manifest) -> None:
        self.place, self.manifest = place, manifest
        self._last: tuple[str, Any] | None = None

    @classmethod
    def load(cls, folder: str | PathLike[str]) -> Run:
        """What `explain_dataset` or `attnx run` wrote there, as far as it got."""
        place = Place.of(folder)
        found = manifest_of(place)
        if found.question != "explanations":
            raise InputError(f"{place.name} holds a run of {found.question}; the same call gives its result again")
        return cls(place, found)

    @cached_property
    def layout(self) -> Layout:
        """Methods, references and layers, and what is true of all rows."""
        return Layout.from_dict(self.manifest.layout)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """The finished shards when they were first asked for."""
        return tuple(manifests.parts(self.place).values())

    @property
    def complete(self) -> bool:
        """Whether every row is there."""
        return manifests.is_complete(self.manifest, self.parts)

    @property
    def running(self) -> bool:
        """Whether a process is writing to it at this moment."""
        return taken(self.place)

    @property
    def columns(self) -> list[str]:
        names: list[str] = self.layout.schema().names
        return names

    def __len__(self) -> int:
        """Rows that are there, failed ones included."""
        return sum(one.rows for one in self.parts)

    def __getitem__(self, number: int) -> Explanation:
        """The explanation of the row of that number in the data; of a failed one the error is raised."""
        try:
            number = operator.index(number)
        except TypeError:
            raise ChoiceError(
                f"a row is named by its number in the data, an int from 0, found {quoted(number)}; the column 'id' has "
                "the names of rows"
            ) from None
        total = self.manifest.rows if self.manifest.rows is not None else len(self)
        place = number + total if number < 0 else number
        if not 0 <= place < total:
            raise IndexError(f"row {number} was requested, but the run has {total:,} rows")
        part = next((one for one in self.parts if one.number == place // self.manifest.shard_rows), None)
        rows = [] if part is None else self._table(part)["row"].to_pylist()
        if part is None or place not in rows:
            raise InputError(
                f"row {place} was not run yet: {len(self):,} of {total:,} rows are there; the same call resumes the run"
            )
        cells = self._table(part).slice(rows.index(place), 1).to_pylist()[0]
        if cells["error"] is not None:
            raise InputError(f"row {place} could not be explained: {cells['error']}")
        return explanation_of(cells, self.layout)

    def __iter__(self) -> Iterator[Explanation]:
        """Of all rows that could be explained, in their order."""
        for cells in self.rows():
            if cells["error"] is None:
                yield explanation_of(cells, self.layout)

    def rows(self, columns: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
        """Every row as a dictionary, all columns or these."""
        for part in self.parts:
            for batch in self._table(part, columns).to_batches(max_chunksize=256):
                yield from batch.to_pylist()

    @property
    def failed(self) -> list[Failed]:
        """Rows that could not be explained, and why."""
        return list(failed_rows(self.place, self.parts, self.manifest))

    def to_table(self, columns: Sequence[str] | None = None) -> Any:
        """A table of Arrow; `columns` keeps it small."""
        return arrow().concat_tables([self._table(part, columns) for part in self.parts])

    def to_frame(self, columns: Sequence[str] | None = None) -> pandas.DataFrame:
        """A table of pandas, a row for each text."""
        try:
            import pandas  # noqa: F401
        except ImportError as error:
            raise AttnxError("to_frame needs pandas: pip install pandas") from error
        frame: pandas.DataFrame = self.to_table(columns).to_pandas()
        return frame

    def to_dataset(self) -> Any:
        """A `datasets.Dataset` over the files themselves."""
        try:
            from datasets import Dataset
        except ImportError as error:
            raise AttnxError("to_dataset needs the datasets library: pip install datasets") from error
        if self.place.remote:
            return Dataset(self.to_table())
        return Dataset.from_parquet([str(Path(self.place.name) / part.name) for part in self.parts])

    def summary(self, method: str | None = None) -> RunSummary:
        """For each label which words and places carry most; where the data's label differs, what was looked at.

        By what is shown first, or by another of the run's methods and references.
        """
        known = (*self.layout.methods, *self.layout.references)
        if method is not None and method not in known:
            raise ChoiceError(unknown("method", method, known))
        return summarised(self.rows(), self.layout, len(self), method)

    def to_html(self, path: str | PathLike[str] | None = None, *, title: str | None = None) -> str | None:
        """A page to search, filter and sort, in one file under 3 MB; of a larger run it has a sample, and says so."""
        place = None if path is None else file_of(path, PAGES, "to_html")
        page: str = VIEWS[RunSummary.kind]().more["run_page"](self, title=title)
        if place is None:
            return page
        try:
            with replacing(place) as beside:
                Path(beside).write_text(page, encoding="utf-8", newline="\n")
        except OSError as error:
            raise AttnxError(f"cannot write {place}: {error.strerror or error}") from error
        return None

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        cell: str = VIEWS[RunSummary.kind]().more["run_cell"](self)
        return cell

    def __repr__(self) -> str:
        state = "complete" if self.complete else "running" if self.running else "stopped"
        total = "" if self.manifest.rows is None or self.complete else f" of {self.manifest.rows:,}"
        names = ", ".join((*self.layout.methods, *self.layout.references))
        return f"Run({self.place.name!r}, {len(self):,}{total} rows, {names}, {state})"

    def _table(self, part: Part, columns: Sequence[str] | None = None) -> Any:
        """The last one is kept: neighbours are asked for one after the other."""
        if self._last is not None and self._last[0] == part.name and columns is None:
            return self._last[1]
        if columns is not None:
            for name in columns:
                if name not in self.columns:
                    raise ChoiceError(unknown("column", name, self.columns))
        schema = self.layout.schema()
        table = read_part(self.place, part, self.manifest.shard_rows, schema=schema, columns=columns)
        if columns is None:
            self._last = (part.name, table)
        return table
