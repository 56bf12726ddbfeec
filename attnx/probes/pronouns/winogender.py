"""Winogender templates (Rudinger et al. 2018): an occupation, a participant, and a pronoun that belongs to one of them.

    technician<TAB>customer<TAB>1<TAB>The $OCCUPATION told the $PARTICIPANT that $NOM_PRONOUN could pay with cash.

The slot is masked, and the pronouns at the mask are the masculine and the feminine form of its case. The right referent
is what `answer` says, 0 for the occupation. Neither candidate has a gender, so a prediction of *she* implies none of
them. Only where the file has a column with the share of women in the occupation, under the data set's own name for it,
there is one: the pronoun of the majority speaks for the occupation and the other, by exclusion, for the participant.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from attnx.errors import InputError
from attnx.probes.pronouns.candidates import indexed
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
    return lambda row, place: _sentence(dict(zip(names, row, strict=True)), place)


def without_slot(template: str) -> tuple[str, tuple[str, ...]]:
    """The template with a mask in its pronoun slot, and the pronouns of the slot; as it was where it has none."""
    slots = _SLOT.findall(template)
    if len(slots) > 1:
        raise InputError(f"{len(slots)} pronoun slots in one sentence; leave one")
    return (_SLOT.sub("[MASK]", template), SLOTS[slots[0]]) if slots else (template, ())


def _sentence(cells: dict[str, str], place: str) -> Sentence:
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
