"""Reads a data set of masked pronouns: Winogender's templates, or a plain CSV file.

    occupation(0)<TAB>other-participant(1)<TAB>answer<TAB>sentence      Winogender, see winogender.py
    sentence,candidates,answer,pronouns,implies                         CSV; the last three columns may be missing

In a CSV file several things in one cell stand between bars: `author|Sara`, `his|her`, `his=author|her=Sara`. A sentence
that names no `pronouns` takes them from `implies`, or from a slot in Winogender's manner (`$POSS_PRONOUN`).
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from attnx.errors import InputError
from attnx.probes.pronouns import data_file as winogender
from attnx.probes.pronouns.mask import indexed
from attnx.probes.pronouns.sentence import Sentence

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
    if winogender.is_header(head):
        parse = winogender.parser(head)
    elif set(_NEEDED) <= set(head):
        parse = _parser(head)
    else:
        found = ", ".join(head[:6]) or "nothing"
        raise InputError(f"{path} begins with {found[:80]!r}, which are not the columns of a data set; {_HELP}")
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
    return tuple(one.strip() for one in cell.split("|")) if cell.strip() else ()


def mapping(cell: str) -> dict[str, str]:
    """`his=author|her=Sara` → {"his": "author", "her": "Sara"}."""
    pairs = [one.partition("=") for one in pieces(cell)]
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


def _parser(head: Fields) -> winogender.Parser:
    unknown = [name for name in head if name not in _KNOWN]
    if unknown:
        raise InputError(f"column {unknown[0]!r} is not known; there are: {', '.join(_KNOWN)}")
    if len(set(head)) != len(head):
        raise InputError(f"a column is named twice in the first line: {', '.join(head)}")
    return lambda row, place: _sentence(dict(zip(head, row, strict=True)), place)


def _sentence(cells: dict[str, str], place: str) -> Sentence:
    implies = mapping(cells.get("implies", ""))
    text, from_slot = winogender.without_slot(cells["sentence"])
    pronouns = pieces(cells.get("pronouns", "")) or tuple(implies) or from_slot
    if not text:
        raise InputError("the sentence is empty")
    if not pronouns:
        raise InputError("the sentence names no pronouns; add a column pronouns with, for example, his|her")
    return Sentence(text, pieces(cells["candidates"]), pronouns, implies, cells.get("answer") or None, place=place)
