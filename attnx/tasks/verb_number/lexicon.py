"""The words of the sentence generator: nouns in both numbers by kind, and what may stand around them."""

from __future__ import annotations


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
