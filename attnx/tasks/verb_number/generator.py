"""Sentence beginnings from a small grammar: no data needed, and the subject and the attractors are known.

    beginning → [opening] subject modifier* [adverb]
    modifier  → preposition noun-phrase | participle noun-phrase | who/that verb noun-phrase | that noun-phrase verb

Each modifier brings one noun between the subject and the verb. Where its number is not the subject's, it is an
agreement attractor: "the key to the *cabinets* (is)".
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from attnx.errors import InputError
from attnx.tasks.verb_number import lexicon
from attnx.tasks.verb_number.beginning import Beginning

MOST_ATTRACTORS = 5
_MODIFIERS_WEIGHTS = (30, 40, 20, 10)


def generate(count: int, *, seed: int = 0, attractors: int | None = None) -> list[Beginning]:
    """`count` different beginnings, about half of them plural; with exactly `attractors` of them when given.

    >>> generate(2, seed=1, attractors=1)[0].attractor_count
    1
    """
    if attractors is not None and not 0 <= attractors <= MOST_ATTRACTORS:
        raise InputError(f"{attractors} attractors asked; the generator makes 0 to {MOST_ATTRACTORS}")
    made: dict[str, Beginning] = {}
    for beginning in _endless(random.Random(f"verb-number {seed} {attractors}"), attractors):
        if len(made) >= count:
            break
        made.setdefault(beginning.text, beginning)
    return list(made.values())


def _endless(rng: random.Random, attractors: int | None) -> Iterator[Beginning]:
    while True:
        for number in (0, 1):
            yield _Draft(rng, number).beginning(attractors)


class _Draft:
    """One beginning while it is being written: the words so far, and where the nouns fell."""

    def __init__(self, rng: random.Random, number: int) -> None:
        self.rng, self.number = rng, number
        self.words: list[str] = []
        self.attractors: list[int] = []

    def beginning(self, attractors: int | None) -> Beginning:
        if self.rng.random() < 0.25:
            self.say(self.rng.choice(lexicon.OPENINGS))
        kind = self.noun_phrase(self.number)
        subject = len(self.words) - 1
        numbers = self.modifier_numbers(attractors)
        for place, number in enumerate(numbers, start=1):
            kind = self.modifier(kind, number, is_last=place == len(numbers))
        if self.rng.random() < 0.1:
            self.say(self.rng.choice(lexicon.ADVERBS))
        return Beginning(
            " ".join(self.words),
            self.number,
            subject=subject,
            attractors=tuple(self.attractors),
            attractor_count=len(self.attractors),
        )

    def modifier_numbers(self, attractors: int | None) -> list[int]:
        """The number of each modifier's noun; those of the other number than the subject's are the attractors."""
        other = 1 - self.number
        count = self.rng.choices(range(len(_MODIFIERS_WEIGHTS)), _MODIFIERS_WEIGHTS)[0]
        if attractors is None:
            return self.rng.choices((0, 1), k=count)
        numbers = [other] * attractors + [self.number] * max(0, count - attractors)
        self.rng.shuffle(numbers)
        return numbers

    def modifier(self, host: str, number: int, is_last: bool) -> str:
        """A modifier of a noun of kind `host`; returns the kind of its own noun, which the next may hang on."""
        is_person = host == "person"
        way = self.rng.choices(("preposition", "participle", "subject relative", "object relative"), (60, 10, 15, 15))[
            0
        ]
        if way == "participle" and not is_person:
            self.say(self.rng.choice(lexicon.PARTICIPLES))
            return self.noun_phrase(number, "person")
        if way == "subject relative" and is_person:
            # The past tense says nothing of the number; a present verb would have to agree with its own host.
            self.say(self.rng.choice(("who", "that")), self.rng.choice(lexicon.PAST))
            return self.noun_phrase(number)
        if way == "object relative" and is_last:
            self.say("that")
            self.noun_phrase(number, "person")
            self.say(self.rng.choice(lexicon.TRANSITIVE[number]))
            return host
        kind = self.rng.choice(list(lexicon.NOUNS))
        self.say(self.rng.choice(lexicon.PREPOSITIONS[kind]))
        return self.noun_phrase(number, kind)

    def noun_phrase(self, number: int, kind: str | None = None) -> str:
        """Says a noun phrase, notes an attractor, and returns the kind of its noun."""
        kind = kind or self.rng.choice(list(lexicon.NOUNS))
        determiner = self.rng.choice(lexicon.DETERMINERS[number])
        adjective = self.rng.choice(lexicon.ADJECTIVES) if self.rng.random() < 0.3 else ""
        noun = self.rng.choice(lexicon.NOUNS[kind])[number]
        if determiner == "a" and (adjective or noun)[0] in "aeio":
            determiner = "an"
        self.say(determiner, adjective, noun)
        if number != self.number:
            self.attractors.append(len(self.words) - 1)
        return kind

    def say(self, *phrases: str) -> None:
        self.words += [word for phrase in phrases for word in phrase.split()]
