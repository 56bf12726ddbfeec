"""The verb's subject: in "the key to the cabinets" the number of the verb to come hangs on *key*.

Sentences come from the grammar of the verb-number task, which knows the subject. All have an attractor, a noun of the
other number between subject and verb. Nothing but the subject shows its number: sentences with "a", "these", "each" and
the like before it are left out. Subjects stand at all places equally often, as far as the grammar goes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import count
from typing import Any

from attnx.explaining.seam import Request
from attnx.inputs.families import adapter_for
from attnx.tasks.verb_number import generator
from attnx.tasks.verb_number.beginning import Beginning
from attnx.tasks.verb_number.config import LABELS
from attnx.truth.answers import check_labels
from attnx.truth.by_rank import by_rank
from attnx.truth.suite import Known, Suite, Trial

_POOL = 600
"""Sentences that are drawn at once, to take the same number of each place from."""
_SHOWS_NUMBER = frozenset(generator.DETERMINERS[0]) ^ frozenset(generator.DETERMINERS[1]) | {"an"}
_REACH = 2
"""A determiner stands right before its noun, or before the adjective there."""


def questions(given: Trial) -> Iterator[Known]:
    """Sentences without end."""
    check_labels(given.model, LABELS, "subject")
    prepare = adapter_for(given.model).prepare
    for part in count():
        for one in sentences(given.seed * 1_000_003 + part):
            prepared = prepare(given.model, given.processor, one.text)
            if len(prepared.words) == len(one.words) and one.subject is not None:
                units = tuple(word.positions for word in prepared.words)
                yield Known(Request(prepared, target=one.label), units, (one.subject,))


def sentences(seed: int) -> list[Beginning]:
    """Different sentences with one or two attractors, taken from each place of the subject in turn."""
    by_place: dict[int | None, list[Beginning]] = defaultdict(list)
    one, two = (generator.generate(_POOL // 2, seed=seed, attractors=attractors) for attractors in (1, 2))
    for sentence in (each for pair in zip(one, two, strict=True) for each in pair):
        if not set(sentence.words[: sentence.subject][-_REACH:]) & _SHOWS_NUMBER:
            by_place[sentence.subject].append(sentence)
    turns = list(by_place.values())
    longest = max(map(len, turns))
    return [several[turn] for turn in range(longest) for several in turns if turn < len(several)]


def _embedded() -> tuple[Any, Any]:
    from attnx.tasks.verb_number.checkpoint import load_demo

    return load_demo()


SUBJECT = Suite(
    name="subject",
    title="the subject of the verb",
    right="the subject: the one word that shows the number of the verb to come",
    source="generated sentences with attractors, and the embedded verb-number model",
    measure=by_rank,
    questions=questions,
    embedded=_embedded,
    heads=("ForSequenceClassification",),
    rows=60,
)
