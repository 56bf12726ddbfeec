"""Gendered names: in "The author talked to Sara about [MASK] book." what tells *her* from *his* is the name.

The paper's Figure 4 asks where a masked pronoun looks; here the answer is known. The other person of each sentence has
an occupation that is no one's gender, and the two change places, so that place does not give the name away.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import product

from attnx.errors import InputError
from attnx.explaining.seam import Request
from attnx.probes.pronouns.mask import find, masked
from attnx.truth.by_rank import by_rank
from attnx.truth.suite import Known, Suite, Trial

WOMEN = ("Mary", "Sara", "Anna", "Emma", "Linda", "Julia", "Laura", "Alice")
MEN = ("John", "David", "Peter", "Robert", "James", "Michael", "Thomas", "Daniel")
OCCUPATIONS = ("author", "student", "writer", "artist", "customer", "neighbour", "visitor", "journalist")
TEMPLATES = (
    "{} talked to {} about [MASK] book.",
    "{} wrote to {} about [MASK] plans.",
    "{} met {} in front of [MASK] house.",
    "{} asked {} about [MASK] work.",
)
HER, HIS = "her", "his"


def sentences(seed: int = 0) -> list[tuple[str, str, bool]]:
    """Every sentence with its name, and whether it is a woman's; mixed by the seed, two orders of the same in a row."""
    every = list(product((*WOMEN, *MEN), OCCUPATIONS, TEMPLATES))
    random.Random(seed).shuffle(every)
    return [
        (_begun(template.format(*order)), name, name in WOMEN)
        for name, occupation, template in every
        for order in ((f"the {occupation}", name), (name, f"the {occupation}"))
    ]


def questions(given: Trial) -> Iterator[Known]:
    """A question for each sentence; a name that the tokenizer takes apart is one word all the same."""
    for text, name, woman in sentences(given.seed):
        sentence = masked(given.model, given.processor, text, (HER, HIS))
        (candidate,) = find([name], sentence)
        words = sentence.prepared.words
        right = tuple(place for place, word in enumerate(words) if set(word.positions) & set(candidate.positions))
        if len(right) != 1:
            raise InputError(f"the tokenizer does not set {name!r} apart from the words around it in {text!r}")
        target = sentence.token_ids if woman else sentence.token_ids[::-1]
        units = tuple(word.positions for word in words)
        yield Known(Request(sentence.prepared, sentence.position, target), units, right)


def _begun(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]


NAMES = Suite(
    name="names",
    title="the name that tells her from his",
    right="the name: the occupation and all other words say nothing of the pronoun",
    source="generated sentences, and the user's masked language model",
    measure=by_rank,
    questions=questions,
    heads=("ForMaskedLM", "WithLMHeadModel"),
    fits_data=lambda data: data is None,
    rows=100,
)
