"""Holds sentences out of the training: no sentence that is tested occurs in what is learned from."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from attnx.tasks.verb_number import linzen
from attnx.tasks.verb_number.beginning import Beginning

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
    return split([list(linzen.read_file(path)) for path in paths], seed=seed)


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
