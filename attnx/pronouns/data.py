"""Figure 4 a thousand times: a data set through the probe, in memory, or in a folder where a stopped run goes on."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar

from torch import nn

from attnx.adapters import adapter_for
from attnx.attribution import AskedReferences, asked_references
from attnx.errors import InputError
from attnx.evaluation import CollectedRows, facts
from attnx.methods import METHODS, PAPER_METHODS
from attnx.pipeline import given_model
from attnx.progress import progress_bar
from attnx.pronouns.mask import indexed
from attnx.pronouns.probe import Ready, Sentence, Span, ask, prepare
from attnx.pronouns.report import PronounReport
from attnx.pronouns.result import Probe
from attnx.results import provenance
from attnx.runs import FACTS, Cells, DatasetTask, OutputOptions, RowCallback, as_setting

SLOTS = {"$NOM_PRONOUN": ("he", "she"), "$POSS_PRONOUN": ("his", "her"), "$ACC_PRONOUN": ("him", "her")}
"""Slot → the masculine and the feminine pronoun. "her" is both a possessive and an accusative."""

STATISTICS = ("bls_pct_female", "bergsma_pct_female")
"""The columns of Winogender's occupations-stats.tsv: percent of women, of the US statistics and of a text corpus."""

Parser = Callable[[Sequence[str], str], Sentence]

_SLOT = re.compile("|".join(map(re.escape, SLOTS)))
_COLUMNS = ("occupation", "participant", "answer", "sentence")
_NAMES = {"occupation(0)": "occupation", "other-participant(1)": "participant", "other-participant": "participant"}


def is_header(head: Sequence[str]) -> bool:
    return set(_COLUMNS) <= {_NAMES.get(name, name) for name in head}


def parser(head: Sequence[str]) -> Parser:
    """How to read a row (and its place, for messages) of a file that begins with `head`."""
    names = [_NAMES.get(name, name) for name in head]
    return lambda row, place: _from_template(dict(zip(names, row, strict=True)), place)


def without_slot(template: str) -> tuple[str, tuple[str, ...]]:
    """The template with a mask in its pronoun slot, and the pronouns of the slot; as it was where it has none."""
    slots = _SLOT.findall(template)
    if len(slots) > 1:
        raise InputError(f"{len(slots)} pronoun slots in one sentence; leave one")
    return (_SLOT.sub("[MASK]", template), SLOTS[slots[0]]) if slots else (template, ())


def _from_template(cells: dict[str, str], place: str) -> Sentence:
    if cells["answer"] not in ("0", "1"):
        raise InputError(f"the answer is {cells['answer']!r}, expected 0 (occupation) or 1 (participant)")
    text, pronouns = without_slot(cells["sentence"])
    if not pronouns:
        raise InputError(f"no pronoun slot in the sentence; write one of {', '.join(SLOTS)}")
    words = {f"${name.upper()}": cells[name] for name in _COLUMNS[:2]}
    for slot, word in words.items():
        if text.count(slot) != 1:
            raise InputError(f"{slot} stands {text.count(slot)} times in the sentence, expected once")
        if not word:
            raise InputError(f"there is no word for {slot}")
    starts = {}
    for slot in sorted(words, key=text.index):
        starts[slot] = text.index(slot)
        text = text.replace(slot, words[slot])
    occupation, participant = (indexed(words[slot], text, starts[slot]) for slot in words)
    return Sentence(
        text,
        (occupation, participant),
        pronouns,
        _implied(cells, pronouns, occupation, participant),
        (occupation, participant)[int(cells["answer"])],
        place=place,
    )


def _implied(cells: dict[str, str], pronouns: tuple[str, ...], occupation: str, participant: str) -> dict[str, str]:
    column = next((name for name in STATISTICS if name in cells), None)
    if column is None or not cells[column]:
        return {}
    try:
        women = float(cells[column])
    except ValueError:
        women = -1.0
    if not 0 <= women <= 100:
        raise InputError(f"{column} is {cells[column]!r}, expected a percentage from 0 to 100, or nothing")
    if women == 50:
        return {}
    he, she = pronouns
    return {she: occupation, he: participant} if women > 50 else {he: occupation, she: participant}


_NEEDED = ("sentence", "candidates")
_KNOWN = (*_NEEDED, "answer", "pronouns", "implies")
_HELP = "give Winogender's templates.tsv, or a CSV file with the columns sentence, candidates, answer"

Fields = Sequence[str]


def read(path: str | Path) -> list[Sentence]:
    """All sentences of the file, in order. A line that is not one is an error with the file and the line number."""
    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path} is not a file; {_HELP}")
    rows = _rows(path)
    _, head = next(rows, (0, []))
    if is_header(head):
        parse = parser(head)
    elif set(_NEEDED) <= set(head):
        parse = _parser(head)
    else:
        name = ", ".join(head[:6]) or "nothing"
        raise InputError(f"{path} begins with {name[:80]!r}, which are not the columns of a data set; {_HELP}")
    sentences = []
    for number, row in rows:
        place = f"{path.name}, line {number}"
        try:
            if len(row) != len(head):
                raise InputError(f"{len(row)} columns, where the first line has {len(head)}")
            sentences.append(parse(row, place))
        except InputError as error:
            raise InputError(f"{place}: {error}; mend or delete the line") from error
    if not sentences:
        raise InputError(f"{path} has no sentences under its first line")
    return sentences


def pieces(cell: str) -> tuple[str, ...]:
    """`author|Sara` → ("author", "Sara").

    >>> pieces("author | Sara")
    ('author', 'Sara')
    """
    return tuple(name.strip() for name in cell.split("|")) if cell.strip() else ()


def mapping(cell: str) -> dict[str, str]:
    """`his=author|her=Sara` → {"his": "author", "her": "Sara"}."""
    pairs = [piece.partition("=") for piece in pieces(cell)]
    for key, sign, value in pairs:
        if not (key.strip() and sign and value.strip()):
            raise InputError(f"implies is {cell!r}, expected pronoun=candidate between bars: his=author|her=Sara")
    return {key.strip(): value.strip() for key, _, value in pairs}


def _rows(path: Path) -> Iterator[tuple[int, Fields]]:
    """(line number, cells) of all lines that are not blank. Tabs part the cells where the first line has one."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            tabbed = "\t" in file.readline()
            file.seek(0)
            # In Winogender's files a quotation mark is a quotation mark.
            reader = (
                csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE) if tabbed else csv.reader(file, strict=True)
            )
            for row in reader:
                if any(cell.strip() for cell in row):
                    yield reader.line_num, [cell.strip() for cell in row]
    except UnicodeDecodeError as error:
        raise InputError(f"{path} cannot be read as UTF-8 text: {error}; is it another format?") from None
    except csv.Error as error:
        raise InputError(f"{path.name}, line {reader.line_num}: {error}; mend or delete the line") from None


def _parser(head: Fields) -> Parser:
    unknown = [name for name in head if name not in _KNOWN]
    if unknown:
        raise InputError(f"column {unknown[0]!r} is not known; there are: {', '.join(_KNOWN)}")
    if len(set(head)) != len(head):
        raise InputError(f"a column is named twice in the first line: {', '.join(head)}")
    return lambda row, place: _sentence(dict(zip(head, row, strict=True)), place)


def _sentence(cells: dict[str, str], place: str) -> Sentence:
    implies = mapping(cells.get("implies", ""))
    text, from_slot = without_slot(cells["sentence"])
    pronouns = pieces(cells.get("pronouns", "")) or tuple(implies) or from_slot
    if not text:
        raise InputError("the sentence is empty")
    if not pronouns:
        raise InputError("the sentence names no pronouns; add a column pronouns with, for example, his|her")
    return Sentence(text, pieces(cells["candidates"]), pronouns, implies, cells.get("answer") or None, place=place)


_SHARD = 64
"""Sentences of one part: each is asked much, and what a stopped run loses is the part that it was at."""


def run(
    model: nn.Module,
    tokenizer: Any,
    sentences: Sequence[Sentence],
    *,
    source: str = "a list",
    run_dir: str | PathLike[str] | None = None,
    methods: Sequence[str] | str = PAPER_METHODS,
    references: AskedReferences | None = None,
    span: Span = "sum",
    batch_size: int = 8,
    seed: int = 0,
    progress: bool = False,
    **options: Any,
) -> PronounReport:
    """How often the mask draws most from the right referent, and from the candidate that the prediction implies.

    With a folder as `run_dir` the probes are kept there, and the same call goes on where a stopped or killed one was; a
    folder of another model, data set or choice of methods is an error. `options` are then those of `explain_dataset`:
    `shard_rows`, `engine`, `workers`, `num_gpus`. A sentence that cannot be asked is left out, and the notes say why;
    without a folder it is an error. `seed` is that of the bootstrap.
    """
    methods = (methods,) if isinstance(methods, str) else tuple(dict.fromkeys(methods))
    if not sentences or not methods or batch_size < 1:
        raise InputError("a run needs at least one sentence, one method, and a batch_size of 1 or more")
    for name in methods:
        METHODS[name]
    output_options, unknown = OutputOptions.taken(run_dir, {"shard_rows": _SHARD, **options})
    if unknown:
        raise InputError(f"{next(iter(unknown))} is no option of a run over pronouns")
    requested = None if references is None else asked_references(references)
    task = PronounTask(methods, requested, span, batch_size, source, seed)
    report: PronounReport = output_options.result(
        task, given_model(model, tokenizer), list(sentences), progress=progress
    )
    return report


@dataclass(frozen=True)
class PronounTask(DatasetTask[Ready]):
    """The measurement: a probe of each sentence."""

    name: ClassVar[str] = "pronouns"
    methods: tuple[str, ...]
    references: Mapping[str, Mapping[str, Any]] | None
    span: Span
    batch_size: int
    source: str
    """For the report, as is the seed: no probe depends on them."""
    seed: int

    def settings(self) -> dict[str, Any]:
        chosen = {"methods": self.methods, "references": self.references, "span": self.span, "batch": self.batch_size}
        return {name: as_setting(value) for name, value in chosen.items() if value is not None}

    def read(self, model: Any, processor: Any, data: Any) -> Sequence[Ready]:
        return prepare(model, processor, [data] if isinstance(data, Sentence) else data)

    def cells(
        self, model: Any, processor: Any, things: Sequence[Ready], tick: RowCallback, progress: bool
    ) -> Sequence[Cells]:
        """From short sentences to long ones, batch by batch."""
        record = provenance(model, adapter_for(model).name, methods=list(self.methods), span=self.span)
        order = sorted(range(len(things)), key=lambda number: len(things[number].shown.positions))
        result: dict[int, Cells] = {}
        options: dict[str, Any] = {"methods": self.methods, "references": self.references, "span": self.span}
        with progress_bar(self.name, len(things), progress, unit=" sentences") as bar:
            for start in range(0, len(order), self.batch_size):
                numbers = order[start : start + self.batch_size]
                batch = [things[number] for number in numbers]
                probes = ask(model, processor, batch, batch_size=self.batch_size, **options)
                for number, probe in zip(numbers, probes, strict=True):
                    result[number] = _cells(things[number].sentence, probe, record)
                    bar.update(1)
                    tick()
        return [result[number] for number in range(len(things))]

    def result(self, cells: Iterable[Cells], left_out: Mapping[str, int]) -> PronounReport:
        rows = CollectedRows.of(cells, left_out)
        report = PronounReport.of(
            [answer or None for answer in rows.columns["answer"]],
            [Probe.from_dict({**probe, "provenance": {}}) for probe in rows.columns["probe"]],
            source=self.source,
            seed=self.seed,
            provenance={**rows.provenance, "settings": {**rows.provenance["settings"], "seed": self.seed}},
        )
        return replace(report, notes=rows.notes)


def _cells(sentence: Sentence, probe: Probe, record: Mapping[str, Any]) -> Cells:
    """The probe; its provenance is the same for all."""
    return {
        "probe": {name: value for name, value in probe.to_dict().items() if name != "provenance"},
        "answer": sentence.answer or "",
        FACTS: facts(provenance=record, notes=probe.notes),
    }
