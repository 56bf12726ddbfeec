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
from attnx.tasks.verb_number import generator as lexicon
from attnx.tasks.verb_number.beginning import Beginning


def _pairs(words: str) -> tuple[tuple[str, str], ...]:
    """ "key man/men" → (("key", "keys"), ("man", "men")): the plural is spelled out only where it is not plus s."""
    split = (word.partition("/") for word in words.split())
    return tuple((singular, plural or f"{singular}s") for singular, _, plural in split)


def _words(words: str) -> tuple[str, ...]:
    return tuple(words.split())


NOUNS = {
    "person": _pairs(
        "author teacher student player writer doctor lawyer soldier king queen artist actor director singer professor "
        "scientist engineer farmer officer member friend girl boy man/men woman/women child/children person/people "
        "guard driver pilot critic editor leader user worker president minister judge candidate parent brother sister"
    ),
    "thing": _pairs(
        "key cabinet box/boxes door window table car ship boat train engine machine tree flower stone bridge road wall "
        "picture painting statue coin gun tool computer camera phone ball horse dog cat bird fish/fishes plane "
        "bus/buses wheel chair building house tower gate clock ring map"
    ),
    "text": _pairs(
        "article book letter story/stories song album film paper page report poem novel magazine newspaper list note "
        "title chapter word name source image section link template episode script law rule theory/theories "
        "study/studies"
    ),
    "place": _pairs(
        "city/cities village town country/countries river lake island mountain park school church/churches museum "
        "hospital station garden street valley forest farm castle university/universities library/libraries market "
        "hotel"
    ),
    "group": _pairs(
        "team band company/companies government party/parties family/families club group army/armies committee council "
        "agency/agencies union department organization community/communities league"
    ),
}

PREPOSITIONS = {
    "person": ("of", "from", "with", "near", "behind", "for", "by"),
    "thing": ("of", "with", "near", "behind", "to", "on", "in", "under", "for"),
    "text": ("of", "in", "about", "from", "on", "for"),
    "place": ("in", "near", "of", "from", "around", "outside"),
    "group": ("of", "from", "in", "for", "with", "against"),
}

ADJECTIVES = _words(
    "old new young small large big great famous important local national public early late good bad long short high "
    "low main major red white black green dark french german american english british chinese modern ancient popular"
)

DETERMINERS = (
    ("the", "the", "the", "a", "this", "that", "each", "every", "his", "her", "its", "their", "another", "my", "our"),
    ("the", "the", "the", "these", "those", "some", "many", "all", "his", "her", "its", "their", "several", "most", ""),
)
"""Singular and plural; a word stands twice where it is likelier."""

TRANSITIVE = (
    ("likes", "knows", "sees", "wants", "loves", "uses", "needs", "finds", "helps", "follows", "leaves", "supports"),
    ("like", "know", "see", "want", "love", "use", "need", "find", "help", "follow", "leave", "support"),
)
PAST = ("liked", "saw", "found", "loved", "followed", "used", "left", "knew", "wanted", "supported")
PARTICIPLES = ("owned by", "made by", "found by", "known to", "built for", "loved by", "used by", "sent to")

OPENINGS = (
    "however ,", "in addition ,", "for example ,", "today ,", "if", "when", "although", "because", "according to NNP ,",
    "it is clear that", "we know that", "he said that", "they say that", "i think that", "as a result ,",
    "NNP says that",
)  # fmt: skip
ADVERBS = ("also", "often", "usually", "still", "never", "now", "always", "however ,")


def words() -> list[str]:
    """Every word that the generator can say, by the alphabet."""
    nouns = (word for kind in NOUNS.values() for pair in kind for word in pair)
    phrases = (*PARTICIPLES, *OPENINGS, *ADVERBS, *(p for kind in PREPOSITIONS.values() for p in kind))
    rest = (*ADJECTIVES, *DETERMINERS[0], *DETERMINERS[1], *TRANSITIVE[0], *TRANSITIVE[1], *PAST, "an", "who", "that")
    return sorted({*nouns, *rest, *(word for phrase in phrases for word in phrase.split())} - {""})


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
