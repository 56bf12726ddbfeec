"""What is asked: a sentence with a mask, who could be meant, and which pronouns could stand there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from attnx.errors import InputError
from attnx.registry import unknown


@dataclass(frozen=True)
class Sentence:
    """A sentence with one masked pronoun. A candidate that occurs twice is told apart by index: "author[1]"."""

    text: str
    candidates: tuple[str, ...]
    pronouns: tuple[str, ...]
    implies: Mapping[str, str] = field(default_factory=dict)
    """Pronoun → the candidate that it speaks for. A pronoun that is left out speaks for nobody."""
    answer: str | None = None
    """The right referent, where there is one."""
    written: str | None = None
    """A pronoun to be written in the mask's place: followed is then what it draws from, and not the mask."""
    place: str = field(default="", repr=False)
    """Where it was read, for messages: the file and the line."""

    def __post_init__(self) -> None:
        _check_list("candidate", self.candidates, "author and Sara")
        _check_list("pronoun", self.pronouns, "his and her")
        for pronoun, candidate in self.implies.items():
            if pronoun not in self.pronouns:
                raise InputError(unknown("pronoun", pronoun, self.pronouns) + "; implies maps a pronoun to a candidate")
            if candidate not in self.candidates:
                raise InputError(unknown("candidate", candidate, self.candidates) + "; write it as in candidates")
        if self.answer is not None and self.answer not in self.candidates:
            raise InputError(unknown("answer", self.answer, self.candidates) + "; write it as in candidates")
        if self.written is not None and self.written not in self.pronouns:
            raise InputError(unknown("pronoun", self.written, self.pronouns) + "; one of them can be written")


def written_out(sentences: Iterable[Sentence]) -> list[Sentence]:
    """Every sentence once with each of its pronouns in place of the mask.

    Where no answer was given, a written pronoun has one: the candidate that it speaks for.
    """
    return [
        replace(one, written=pronoun, answer=one.answer or one.implies.get(pronoun))
        for one in sentences
        for pronoun in one.pronouns
    ]


def _check_list(noun: str, names: Sequence[str], example: str) -> None:
    if isinstance(names, str):
        raise InputError(f"{noun}s must be a list, found the text {names!r}; give at least two, such as {example}")
    if len(names) < 2:
        raise InputError(f"a probe compares {noun}s and needs two, found {len(names)}; give, for example, {example}")
    for name in names:
        if not isinstance(name, str) or not name.strip():
            raise InputError(f"{name!r} is no {noun}; give a word, such as {example}")
        if names.count(name) > 1:
            raise InputError(f"{noun} {name!r} is given twice; {_TWICE[noun]}")


_TWICE = {
    "candidate": "where it occurs twice in the sentence, say which by index: 'author[0]', 'author[1]'",
    "pronoun": "give each once",
}
