"""What fits together in a result, as a table of its kind: where → what must be true there.

    rules = {"layers": Rising(), "relevance.*": Shape("layers positions"), "words.*.positions.*": Below("positions")}

A path leads through fields, and by `*` to every member of a list or an object; where there is nothing (None) nothing is
asked. Files are checked by it when they are loaded, so that nothing that was loaded fails later in a view.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from attnx.errors import AttentionError
from attnx.results.schema import LARGEST, one_line, step

Rule: TypeAlias = Callable[[Any, "_Result"], str | None]
"""(what is there, the result) → what was expected, or None where it is so."""
Rules: TypeAlias = Mapping[str, Rule]


def check(result: Any) -> None:
    """Raise an `AttentionError` that names the first place that does not fit."""
    whole = _Result(result)
    for path, rule in result.rules.items():
        for number, found in enumerate(_found(result, path)):
            expected = rule(found, whole)
            if expected is not None:
                raise AttentionError(f"{_where(result, path, number)} must be {expected}, found {one_line(found)}")


class _Result:
    """A result with the sizes of its axes."""

    def __init__(self, whole: Any) -> None:
        self.whole = whole
        self._sizes: dict[str, int | None] = {}
        self._met: dict[str, int] = {}

    def size(self, axis: str) -> int | None:
        """Of a field its length, of a number itself; of any other axis what was met first, None before."""
        if axis not in self._sizes:
            found = getattr(self.whole, axis, None)
            self._sizes[axis] = int(axis) if axis.isdigit() else len(found) if isinstance(found, Sized) else None
        size = self._sizes[axis]
        return self._met.get(axis) if size is None else size

    def meet(self, axes: Sequence[str], shape: Sequence[int]) -> None:
        self._met.update(zip(axes, shape, strict=True))


class Shape:
    """Finite numbers along these axes, or along others: each is a field's length, a number, or the same everywhere."""

    def __init__(self, *either: str, undefined: bool = False) -> None:
        self._either = [one.split() for one in either]
        self._undefined = undefined

    def __call__(self, found: Any, result: _Result) -> str | None:
        shape = np.shape(found)
        for axes in self._either:
            if len(axes) == len(shape) and all(
                result.size(axis) in (None, size) for axis, size in zip(axes, shape, strict=True)
            ):
                result.meet(axes, shape)
                return self._numbers(np.asarray(found))
        axes = next((one for one in self._either if len(one) == len(shape)), self._either[0])
        return f"numbers for {' × '.join(self._said(axis, result) for axis in axes)}"

    def _said(self, axis: str, result: _Result) -> str:
        size = result.size(axis)
        return axis if axis.isdigit() or size is None else f"{size} {axis}"

    def _numbers(self, found: Any) -> str | None:
        sizes = np.abs(found)
        fits = sizes <= LARGEST if not self._undefined else (sizes <= LARGEST) | np.isnan(sizes)
        return None if fits.all() else "finite numbers, and some of it are not finite"


@dataclass(frozen=True)
class Filled:
    """At least so many members, and those that are named among them."""

    least: int = 1
    named: Collection[str] = ()

    def __call__(self, found: Any, result: _Result) -> str | None:
        missing = [name for name in self.named if name not in found]
        if missing:
            return f"an object with {missing[0]}"
        return f"{self.least} or more" if len(found) < self.least else None


@dataclass(frozen=True)
class Between:
    """A number in a range, both ends included."""

    low: float
    high: float = float("inf")

    def __call__(self, found: Any, result: _Result) -> str | None:
        if self.low <= found <= self.high:
            return None
        return f"{self.low:g} " + ("or more" if self.high == float("inf") else f"to {self.high:g}")


@dataclass(frozen=True)
class Below:
    """A place in a field, counted from 0."""

    field: str

    def __call__(self, found: Any, result: _Result) -> str | None:
        size = result.size(self.field) or 0
        return None if 0 <= found < size else f"a place in {self.field} (0 to {size - 1})"


@dataclass(frozen=True)
class Among:
    """The name of a member of a field."""

    field: str

    def __call__(self, found: Any, result: _Result) -> str | None:
        known = [getattr(one, "name", one) for one in getattr(result.whole, self.field)]
        return None if found in known else f"among {self.field} ({', '.join(map(one_line, known))})"


@dataclass(frozen=True)
class NamedAs:
    """An object with the same names as another field."""

    field: str

    def __call__(self, found: Any, result: _Result) -> str | None:
        known = getattr(result.whole, self.field)
        return None if set(found) == set(known) else f"an object with {', '.join(map(one_line, known))}"


class Rising:
    """Whole numbers from 1, each greater than the one before."""

    def __call__(self, found: Any, result: _Result) -> str | None:
        fits = found and found[0] >= 1 and all(one < other for one, other in pairwise(found))
        return None if fits else "whole numbers from 1 that rise"


class Numbered:
    """Each member has its place for an index."""

    def __call__(self, found: Any, result: _Result) -> str | None:
        return None if [one.index for one in found] == list(range(len(found))) else "in the order of their indices"


class SinksTold:
    """Patches that are sinks, as remarks read them."""

    def __call__(self, found: Any, result: _Result) -> str | None:
        fits = isinstance(found, list) and all(map(self._fits, found))
        return None if fits else "a list of patches with their layer, share and times"

    @staticmethod
    def _fits(one: Any) -> bool:
        numbers = ("layer", "share", "times")
        return (
            isinstance(one, Mapping)
            and isinstance(one.get("patch"), str)
            and all(isinstance(one.get(name), (int, float)) for name in numbers)
        )


class SameNames:
    """Members of an object that have the same names in them."""

    def __call__(self, found: Any, result: _Result) -> str | None:
        names = [set(one) for one in found.values()]
        return None if all(one and one == names[0] for one in names) else "the same names in each, and at least one"


class Named:
    """An object, whose members have names."""

    def __call__(self, found: Any, result: _Result) -> str | None:
        return None if isinstance(found, Mapping) else "an object"


@dataclass(frozen=True)
class Together:
    """All of these fields have a value, or none has."""

    names: tuple[str, ...]

    def __call__(self, found: Any, result: _Result) -> str | None:
        missing = [getattr(found, name) is None for name in self.names]
        return f"with all of {', '.join(self.names)}, or none" if len(set(missing)) > 1 else None


@dataclass(frozen=True)
class AsLong:
    """These fields are of one length."""

    names: tuple[str, ...]

    def __call__(self, found: Any, result: _Result) -> str | None:
        lengths = {len(getattr(found, name)) for name in self.names}
        return f"with {' and '.join(self.names)} of one length" if len(lengths) > 1 else None


SUMMARY = Together(("mean", "deviation", "low", "high"))
ANSWER = AsLong(("labels", "logits"))
TEXT: Rules = {
    "positions": Numbered(),
    "positions.*.segment": Between(0, 1),
    "positions.*.word": Below("words"),
    "words": Numbered(),
    "words.*.positions": Filled(),
    "words.*.positions.*": Below("positions"),
    "words.*.segment": Between(0, 1),
    "digits.*": Between(0, 17),
}
"""Of what has positions, words, and methods that are exact to some digits."""
PROVENANCE: Rules = {
    "provenance.settings": Named(),
    "provenance.references": Named(),
    "provenance.references.*": Named(),
    "provenance.input": Named(),
    "provenance.input.sinks": SinksTold(),
}
"""As far as anything is read of it."""


def _found(result: Any, path: str) -> list[Any]:
    """All that is at the end of a path."""
    found = [result]
    for name in path.split("."):
        found = [one for several in found for _, one in _members(several, name) if one is not None]
    return found


def _where(result: Any, path: str, number: int) -> str:
    """The place of one of these in words; only one that does not fit needs them."""
    found = [("", result)]
    for name in path.split("."):
        said = step if name == "*" else _field
        found = [
            (said(where, member), one)
            for where, several in found
            for member, one in _members(several, name)
            if one is not None
        ]
    return found[number][0]


def _members(found: Any, name: str) -> Iterable[tuple[Any, Any]]:
    """One step of a path: the field of that name, or by `*` every member."""
    named = isinstance(found, (dict, Mapping))  # the first is found at once, the second by asking around
    if name == "*":
        return found.items() if named else enumerate(found)
    return ((name, found.get(name) if named else getattr(found, name)),)


def _field(where: str, name: object) -> str:
    return f"{where}.{name}".lstrip(".")
