"""Reads sentence beginnings in the layouts that Linzen et al. (2016) and those after them published.

Plain or gzipped, the layout is told from the first line:

    VBZ<TAB>the words before the verb              no header; `numpred.test.3.tsv` has 3 attractors in every line
    label<TAB>subject<TAB>beginning                with the subject's word index, from 0
    sentence<TAB>…<TAB>verb_pos<TAB>verb_index<TAB>…   agr_50_mostcommon_10K.tsv, whole sentences, indices from 1
"""

from __future__ import annotations

import gzip
import hashlib
import random
import re
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from attnx.demo_models.verb_number import TAGS, Beginning
from attnx.errors import InputError


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
        raise InputError(f"{attractors} attractors were requested, but the generator makes 0 to {MOST_ATTRACTORS}")
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
            self.say(self.rng.choice(OPENINGS))
        kind = self.noun_phrase(self.number)
        subject = len(self.words) - 1
        numbers = self.modifier_numbers(attractors)
        for index, number in enumerate(numbers, start=1):
            kind = self.modifier(kind, number, is_last=index == len(numbers))
        if self.rng.random() < 0.1:
            self.say(self.rng.choice(ADVERBS))
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
            self.say(self.rng.choice(PARTICIPLES))
            return self.noun_phrase(number, "person")
        if way == "subject relative" and is_person:
            # The past tense says nothing of the number; a present verb would have to agree with its own host.
            self.say(self.rng.choice(("who", "that")), self.rng.choice(PAST))
            return self.noun_phrase(number)
        if way == "object relative" and is_last:
            self.say("that")
            self.noun_phrase(number, "person")
            self.say(self.rng.choice(TRANSITIVE[number]))
            return host
        kind = self.rng.choice(list(NOUNS))
        self.say(self.rng.choice(PREPOSITIONS[kind]))
        return self.noun_phrase(number, kind)

    def noun_phrase(self, number: int, kind: str | None = None) -> str:
        """Says a noun phrase, notes an attractor, and returns the kind of its noun."""
        kind = kind or self.rng.choice(list(NOUNS))
        determiner = self.rng.choice(DETERMINERS[number])
        adjective = self.rng.choice(ADJECTIVES) if self.rng.random() < 0.3 else ""
        noun = self.rng.choice(NOUNS[kind])[number]
        if determiner == "a" and (adjective or noun)[0] in "aeio":
            determiner = "an"
        self.say(determiner, adjective, noun)
        if number != self.number:
            self.attractors.append(len(self.words) - 1)
        return kind

    def say(self, *phrases: str) -> None:
        self.words += [word for phrase in phrases for word in phrase.split()]


Fields = list[str]
Parser = Callable[[Fields], Beginning]

_ORIGINAL = ("sentence", "verb_pos", "subj_index", "verb_index", "n_diff_intervening")
_WITH_SUBJECT = ("label", "subject", "beginning")
_LONGEST_LINE = 100_000
"""A small gzip file may hold a line of terabytes."""


def read(paths: Iterable[Path]) -> list[Beginning]:
    """All beginnings of the files, in order. A line that is not one is an error with the file and the line number."""
    return [beginning for path in paths for beginning in read_file(path)]


def read_file(path: Path) -> Iterator[Beginning]:
    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path} is not a file; give a file of sentence beginnings, plain or .gz")
    empty = True
    parse: Parser | None = None
    for number, line in enumerate(_lines(path), start=1):
        row = line.rstrip("\r\n").split("\t")
        if parse is None:
            parse, is_header = _layout(path, row)
            if is_header:
                continue
        try:
            yield parse(row)
        except (ValueError, IndexError) as error:
            raise InputError(f"{path}, line {number}: {error}; mend or delete the line") from None
        empty = False
    if empty:
        raise InputError(f"{path} has no sentences; each line is VBZ or VBP, a tab, and the words before the verb")


def _lines(path: Path) -> Iterator[str]:
    try:
        with (
            gzip.open(path, "rt", encoding="utf-8-sig")
            if path.suffix == ".gz"
            else path.open(encoding="utf-8-sig") as file
        ):
            while line := file.readline(_LONGEST_LINE):
                if len(line) == _LONGEST_LINE:
                    raise InputError(
                        f"{path} has a line of more than {_LONGEST_LINE:,} characters: no sentence is as long"
                    )
                yield line
    except (UnicodeDecodeError, EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InputError(
            f"{path} cannot be read as UTF-8 text: {error}; was it cut off, or is it another format?"
        ) from None


def _layout(path: Path, first: Fields) -> tuple[Parser, bool]:
    """How to read the rows of a file, and whether its first row is a header."""
    if set(_ORIGINAL) <= set(first):
        columns = [first.index(name) for name in _ORIGINAL]
        return lambda row: _original(*(row[column] for column in columns)), True
    if first == list(_WITH_SUBJECT):
        return _with_subject, True
    named = re.fullmatch(r"numpred\.test\.(\d)\.tsv(\.gz)?", path.name)
    count = int(named[1]) if named else None
    return lambda row: _two_columns(row, count), False


def _two_columns(row: Fields, attractor_count: int | None) -> Beginning:
    if len(row) != 2:
        raise ValueError(f"expected a label, a tab and words, found {len(row)} columns")
    return Beginning(_text(row[1]), _label(row[0]), attractor_count=attractor_count, natural=attractor_count is None)


def _with_subject(row: Fields) -> Beginning:
    if len(row) != 3:
        raise ValueError(f"expected label, subject and beginning, found {len(row)} columns")
    text = _text(row[2])
    return Beginning(text, _label(row[0]), subject=_number("subject", row[1], 0, len(text.split()) - 1))


def _original(sentence: str, verb_pos: str, subj_index: str, verb_index: str, n_diff_intervening: str) -> Beginning:
    words = sentence.split()
    verb = _number("verb_index", verb_index, 1, len(words))
    subject = _number("subj_index", subj_index, 1, len(words))
    return Beginning(
        _text(" ".join(words[: verb - 1])),
        _label(verb_pos),
        # In "here is the key" the subject comes behind the verb, and is no word of the beginning.
        subject=subject - 1 if subject < verb else None,
        attractor_count=_number("n_diff_intervening", n_diff_intervening, 0, len(words)),
    )


def _number(column: str, text: str, least: int, most: int) -> int:
    if not text.strip().isdecimal() or not least <= int(text) <= most:
        raise ValueError(f"{column} is {text!r}, expected a number from {least} to {most}")
    return int(text)


def _label(name: str) -> int:
    if name not in TAGS:
        raise ValueError(f"the label is {name!r}, expected {' or '.join(TAGS)}")
    return TAGS.index(name)


def _text(text: str) -> str:
    if not text.strip():
        raise ValueError("there are no words before the verb")
    return text


MOST_TESTED, MOST_IN_DEVELOPMENT = 2000, 750


@dataclass(frozen=True)
class Split:
    """Three parts of each file, in the order of the files: to learn from, to choose a recipe by, to report."""

    train: tuple[tuple[Beginning, ...], ...]
    development: tuple[tuple[Beginning, ...], ...]
    test: tuple[tuple[Beginning, ...], ...]

    @property
    def held_out(self) -> frozenset[str]:
        """The sentences that nothing may be trained on: no line, no part of a longer line, no generated sentence."""
        return _texts((*self.test, *self.development))

    @property
    def digest(self) -> str:
        """A fingerprint of all lines and where they went; a model is tested only on the split it was trained with."""
        digest = hashlib.sha256()
        for part in (self.train, self.development, self.test):
            for line in (line for file in part for line in file):
                digest.update(f"{line.label}\t{line.text}\n".encode())
        return digest.hexdigest()


def split_files(paths: Sequence[Path], *, seed: int = 0) -> Split:
    """The split of these files: the same for the same files, in the same order, and the same seed."""
    return split([list(read_file(path)) for path in paths], seed=seed)


def split(files: Sequence[Sequence[Beginning]], *, seed: int = 0) -> Split:
    """A quarter of each file, at most 2,000 lines, is tested; a sixteenth, at most 750, is for development.

    Lines are drawn as they come, repeats included, so a natural file stays natural. Every other line with the same
    words, in any of the files, is then dropped from the parts that are learned from or chosen by.
    """
    shuffled = [_shuffled(file, f"split {seed} {index}") for index, file in enumerate(files)]
    tested = [min(len(lines) // 4, MOST_TESTED) for lines in shuffled]
    test = [lines[:count] for lines, count in zip(shuffled, tested, strict=True)]
    rest = [without(lines[count:], _texts(test)) for lines, count in zip(shuffled, tested, strict=True)]
    developed = [min(len(lines) // 16, MOST_IN_DEVELOPMENT) for lines in shuffled]
    development = [lines[:count] for lines, count in zip(rest, developed, strict=True)]
    train = [without(lines[count:], _texts(development)) for lines, count in zip(rest, developed, strict=True)]
    return Split(*(tuple(map(tuple, part)) for part in (train, development, test)))


def without(beginnings: Iterable[Beginning], texts: Collection[str]) -> list[Beginning]:
    """The beginnings whose words are none of the texts."""
    return [beginning for beginning in beginnings if beginning.text not in texts]


def _texts(files: Iterable[Iterable[Beginning]]) -> frozenset[str]:
    return frozenset(beginning.text for file in files for beginning in file)


def _shuffled(file: Iterable[Beginning], seed: str) -> list[Beginning]:
    lines = list(file)
    random.Random(seed).shuffle(lines)
    return lines
