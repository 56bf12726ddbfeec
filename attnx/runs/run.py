"""A finished run, or one on its way, read from its folder as it is needed: no more of it is held than one shard."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from attnx.arguments import PAGES, file_of, replacing
from attnx.errors import AttnxError, ChoiceError, InputError
from attnx.registry import quoted, unknown
from attnx.results import VIEWS, Explanation
from attnx.runs import folder as manifests
from attnx.runs.folder import Manifest, Part, Place, taken
from attnx.runs.sources import arrow
from attnx.runs.summary import CarryingWord, Group, RunSummary
from attnx.runs.table import Layout, explanation_of, read_part

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class Failed:
    """A row that could not be explained."""

    row: int
    id: str
    error: str


@dataclass(frozen=True)
class Status:
    """Of one folder."""

    manifest: Manifest
    rows: int
    """Those that are there, failed ones included."""
    parts: int
    complete: bool
    running: bool
    """Whether a process is writing to it at this moment."""
    failed: list[Failed]


def status_of(folder: str | PathLike[str]) -> Status:
    """How far the run in a folder is."""
    place = Place.of(folder)
    manifest = manifest_of(place)
    parts = list(manifests.parts(place).values())
    failed = list(failed_rows(place, parts, manifest))
    rows, complete = sum(part.rows for part in parts), manifests.is_complete(manifest, parts)
    return Status(manifest, rows, len(parts), complete, taken(place), failed)


def manifest_of(place: Place) -> Manifest:
    """What a folder says of the run in it; one without is an error."""
    manifest = manifests.read(place)
    if manifest is None:
        raise InputError(f"there is no run in {place.name}; attnx.explain_dataset(…, output=…) makes one")
    return manifest


def failed_rows(place: Place, parts: Iterable[Part], manifest: Manifest) -> Iterator[Failed]:
    """Rows that have no answer, and why."""
    for part in parts:
        for one in read_part(place, part, manifest.shard_rows, columns=("row", "id", "error")).to_pylist():
            if one["error"] is not None:
                yield Failed(one["row"], one["id"], one["error"])


WORDS = 10
_EXAMPLES = 3
_REASONS = 5
_FIFTHS = 5
_NO_LABEL = "(no answer)"


@dataclass
class _Word:
    first: int = 0
    rows: int = 0
    share: float = 0.0
    examples: list[int] = field(default_factory=list)


@dataclass
class _Sums:
    """Of one group of rows."""

    rows: int = 0
    right: int = 0
    wrong: int = 0
    probabilities: float = 0.0
    with_probability: int = 0
    words: dict[str, _Word] = field(default_factory=dict)
    places: Any = field(default_factory=lambda: np.zeros(_FIFTHS + 1))

    def add(self, number: int, cells: Mapping[str, Any], carried: Mapping[str, float], places: Any) -> None:
        self.rows += 1
        self.right += cells["right"] is True
        self.wrong += cells["right"] is False
        if cells["probability"] is not None:
            self.probabilities += cells["probability"]
            self.with_probability += 1
        self.places += places
        most = max(carried, key=lambda word: carried[word], default=None)
        for text, share in carried.items():
            word = self.words.setdefault(text, _Word())
            word.rows += 1
            word.share += share
            if text == most:
                word.first += 1
                if len(word.examples) < _EXAMPLES:
                    word.examples.append(number)

    def group(self, label: str, gold: str | None) -> Group:
        best = sorted(self.words.items(), key=lambda one: (-one[1].first, -one[1].share, one[0]))[:WORDS]
        return Group(
            label,
            gold,
            self.rows,
            self.right,
            self.wrong,
            self.probabilities / self.with_probability if self.with_probability else None,
            tuple(
                CarryingWord(text, word.first, word.rows, word.share / word.rows, tuple(word.examples))
                for text, word in best
            ),
            tuple(float(one) for one in self.places / max(1, self.rows)),
        )


def summarised(rows: Iterable[dict[str, Any]], layout: Layout, count: int, method: str | None) -> RunSummary:
    """One pass over `count` rows."""
    labels: dict[str, _Sums] = {}
    apart: dict[tuple[str, str], _Sums] = {}
    errors: Counter[str] = Counter()
    for cells, explanation in _explained(rows, layout, errors):
        carried, places = carried_by(explanation, method)
        prediction = explanation.prediction
        label = _NO_LABEL if prediction is None else prediction.predicted
        cells = {**cells, "probability": None if prediction is None else prediction.certainty}
        labels.setdefault(label, _Sums()).add(cells["row"], cells, carried, places)
        if cells["right"] is False:
            apart.setdefault((label, cells["gold"]), _Sums()).add(cells["row"], cells, carried, places)
    return RunSummary(
        explainer=method or layout.first or _default(layout),
        rows=count,
        failed=sum(errors.values()),
        groups=tuple(sums.group(label, None) for label, sums in sorted(labels.items(), key=lambda one: -one[1].rows)),
        disagreements=tuple(
            sums.group(label, gold) for (label, gold), sums in sorted(apart.items(), key=lambda one: -one[1].rows)
        ),
        errors=dict(errors.most_common(_REASONS)),
        provenance=layout.provenance,
    )


def carried_by(explanation: Explanation, method: str | None) -> tuple[dict[str, float], Any]:
    """The share of each word without punctuation, in lower case, and of each fifth of the text, by size of score.

    Special tokens come last among the places; words share what is left of them.
    """
    scores = np.abs(explanation.scores(method))
    total = float(scores.sum()) or 1.0
    places = np.zeros(_FIFTHS + 1)
    places[-1] = scores[explanation.positions.special].sum() / total
    words = explanation.content_words
    sizes = [float(scores[list(word.positions)].sum()) for word in words]
    inside = sum(sizes) or 1.0
    carried: dict[str, float] = {}
    for number, (word, size) in enumerate(zip(words, sizes, strict=True)):
        name = word.text.casefold()
        carried[name] = carried.get(name, 0.0) + size / inside
        places[number * _FIFTHS // len(words)] += size / inside * (1 - places[-1])
    return carried, places


def _explained(
    rows: Iterable[dict[str, Any]], layout: Layout, errors: Counter[str]
) -> Iterator[tuple[dict[str, Any], Explanation]]:
    for cells in rows:
        if cells["error"] is not None:
            errors[cells["error"]] += 1
        else:
            yield cells, explanation_of(cells, layout)


def _default(layout: Layout) -> str:
    return "rollout" if "rollout" in layout.methods else layout.methods[0]


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
        manifest = manifest_of(place)
        if manifest.question != "explanations":
            raise InputError(f"{place.name} holds a run of {manifest.question}; the same call gives its result again")
        return cls(place, manifest)

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
        return sum(part.rows for part in self.parts)

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
        part = next((part for part in self.parts if part.number == place // self.manifest.shard_rows), None)
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
