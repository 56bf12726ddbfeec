"""Cue files: beginnings of which it is known which word decides how they go on.

    prefix<TAB>good<TAB>bad<TAB>cue
    The key to the cabinets	is	are	key
    The key to the cabinets	is	are	4:7

A decoder that has read `prefix` must prefer `good` to `bad`. The cue is the word that decides, or where it begins and
ends in the prefix, in characters. Explained is the logit of the first token of `good` against that of `bad`.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnx.adapters import PreparedInput, adapter_for
from attnx.arguments import path_of
from attnx.benchmarks.benchmark import Known, Suite, Trial
from attnx.benchmarks.ranking import by_rank
from attnx.errors import FileFormatError, InputError
from attnx.pipeline import Request

COLUMNS = ("prefix", "good", "bad", "cue")
_SPAN = re.compile(r"(\d+):(\d+)")


@dataclass(frozen=True)
class Cue:
    """A row of a cue file."""

    prefix: str
    good: str
    bad: str
    start: int
    end: int
    line: str = ""
    """Where it stands, for messages."""


def read_cues(path: str | Path) -> list[Cue]:
    """The rows of a cue file; one that cannot be used is an error that names its line."""
    path = Path(path_of(path))
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            table = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
            missing = [name for name in COLUMNS if name not in (table.fieldnames or ())]
            if missing:
                raise FileFormatError(
                    f"{path.name} lacks the column {', '.join(missing)}: a cue file has the tab-separated columns "
                    f"{', '.join(COLUMNS)}; found {', '.join(table.fieldnames or ()) or 'an empty file'}"
                )
            cues = [_cue(row, f"{path.name}, line {table.line_num}") for row in table]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise FileFormatError(f"cannot read {path}: {error!s:.200}") from error
    if not cues:
        raise InputError(f"{path.name} has a heading and no rows; write at least one")
    return cues


def is_cue_file(data: Any) -> bool:
    """Whether the user's data has the columns of one."""
    try:
        with Path(path_of(data)).open(encoding="utf-8-sig") as file:
            return COLUMNS[0] in file.readline().rstrip("\r\n").split("\t")
    except (OSError, UnicodeDecodeError, TypeError):
        return False


def questions(trial: Trial) -> Iterator[Known]:
    """A question for each row, in the order of the file."""
    for cue in read_cues(trial.data):
        yield _known(trial, cue)


def _known(trial: Trial, cue: Cue) -> Known:
    prepared = adapter_for(trial.model).prepare(trial.model, trial.processor, cue.prefix)
    good, bad = (_first_token(trial, prepared, cue, word) for word in (cue.good, cue.bad))
    if good == bad:
        token = trial.processor.convert_ids_to_tokens(good)
        raise InputError(
            f"{cue.line}: {cue.good!r} and {cue.bad!r} begin with the same token ({token}), so their first tokens "
            "cannot be set against each other; leave the row out"
        )
    spans = [match.span() for match in re.finditer(r"[^ ]+", cue.prefix)]
    right = tuple(place for place, (start, end) in enumerate(spans) if start < cue.end and cue.start < end)
    return Known(Request(prepared, target=(good, bad)), _units(prepared, spans, cue), right)


def _first_token(trial: Trial, prepared: PreparedInput, cue: Cue, word: str) -> int:
    """The token that follows the prefix where `word` does: tokens are looked up in the text, not by themselves."""
    whole = adapter_for(trial.model).prepare(trial.model, trial.processor, f"{cue.prefix} {word}")
    before, after = (one.inputs["input_ids"].tolist() for one in (prepared, whole))
    if after[: len(before)] != before or len(after) == len(before):
        raise InputError(
            f"{cue.line}: the tokenizer reads the prefix otherwise where {word!r} follows it, so what is predicted "
            "there is not the beginning of it; leave the row out"
        )
    return int(after[len(before)])


def _units(prepared: PreparedInput, spans: list[tuple[int, int]], cue: Cue) -> tuple[tuple[int, ...], ...]:
    """The tokens that end in each word: a space in front belongs to what follows, by itself as well."""
    units: list[list[int]] = [[] for _ in spans]
    for position in prepared.positions:
        if position.start is not None and position.end is not None:
            piece = cue.prefix[position.start : position.end]
            last = position.start + len(piece.rstrip()) if piece.strip() else position.end
            place = next((place for place, (start, end) in enumerate(spans) if start <= last <= end), None)
            if place is not None:
                units[place].append(position.index)
    if not all(units):
        raise InputError(
            f"{cue.line}: the tokenizer does not tell where its tokens stand in the text, so words cannot be found; "
            "use a fast tokenizer"
        )
    return tuple(map(tuple, units))


def _cue(row: dict[str, Any], line: str) -> Cue:
    empty = [name for name in COLUMNS if not (row[name] or "").strip()]
    if empty:
        raise FileFormatError(f"{line}: the column {', '.join(empty)} is empty; fill it in")
    prefix = row["prefix"].rstrip(" ")  # behind a space no word is predicted, but the rest of one
    good, bad, cue = (row[name].strip() for name in COLUMNS[1:])
    span = _SPAN.fullmatch(cue)
    if span:
        start, end = int(span[1]), int(span[2])
        if not 0 <= start < end <= len(prefix) or not prefix[start:end].strip():
            raise FileFormatError(f"{line}: the cue {cue} is no span of characters of {prefix!r}")
        return Cue(prefix, good, bad, start, end, line)
    places = [match.span() for match in re.finditer(rf"(?<!\w){re.escape(cue)}(?!\w)", prefix)]
    if len(places) != 1:
        found = "is not in" if not places else f"occurs {len(places)} times in"
        raise FileFormatError(f"{line}: the cue {cue!r} {found} {prefix!r}; give where it stands, as start:end")
    return Cue(prefix, good, bad, *places[0], line)


CUES = Suite(
    name="cues",
    title="the word that decides how a text goes on",
    right="the cue of each row of the file",
    source="the user's cue file and decoder",
    measure=by_rank,
    questions=questions,
    heads=("ForCausalLM", "LMHeadModel"),
    takes_data=f"a cue file with the tab-separated columns {', '.join(COLUMNS)}",
    fits_data=is_cue_file,
    rows=200,
)
