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

from attnx.errors import AttentionError, FileFormatError
from attnx.results.schema import LARGEST, one_line, read_value, step

Rule: TypeAlias = Callable[[Any, "_Result"], str | None]
"""(what is there, the result) → what was expected, or None where it is so."""
Rules: TypeAlias = Mapping[str, Rule]
MOST_PIXELS = 178_956_970
"""What Pillow opens before it takes a picture for an attack."""


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
                size > 0 if (known := result.size(axis)) is None else size == known
                for axis, size in zip(axes, shape, strict=True)
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
    """One or more members of an object that have the same names in them."""

    def __call__(self, found: Any, result: _Result) -> str | None:
        names = [set(one) for one in found.values()]
        fits = names and all(one and one == names[0] for one in names)
        return None if fits else "the same names in each, and at least one"


class Named:
    """An object, whose members have names."""

    def __call__(self, found: Any, result: _Result) -> str | None:
        return None if isinstance(found, Mapping) else "an object"


@dataclass(frozen=True)
class OfType:
    """A value of this type, as annotations of fields have it: for what is typed nowhere else."""

    kind: Any
    words: str

    def __call__(self, found: Any, result: _Result) -> str | None:
        try:
            read_value(self.kind, found)
        except FileFormatError:
            return self.words
        return None


class Facts:
    """What a method tells of its scores: numbers, where a remark is made of them."""

    def __call__(self, found: Any, result: _Result) -> str | None:
        fits = isinstance(found, Mapping) and all(self._number(found.get(name, 0)) for name in ("biases", "value"))
        fits = fits and ("value" in found or "biases" not in found)
        return None if fits else "an object, whose biases and value are finite numbers"

    @staticmethod
    def _number(value: Any) -> bool:
        return isinstance(value, (int, float)) and abs(value) <= LARGEST


class Levels:
    """The kind of each level, for all layers of the result."""

    def __call__(self, found: Any, result: _Result) -> str | None:
        layers = getattr(result.whole, "layers", None) or (0,)
        fits = isinstance(found, (list, tuple)) and all(isinstance(one, str) for one in found)
        return None if fits and len(found) >= max(layers) else f"a list of {max(layers)} or more texts, one a level"


class Lengths:
    """How many positions two sequences have, which are named in pairs: source and output, or text and picture."""

    def __call__(self, found: Any, result: _Result) -> str | None:
        total = result.size("positions")
        known = not found or set(found) in ({"source", "output"}, {"text", "picture"})
        fits = known and (not found or (min(found.values()) >= 0 and sum(found.values()) == total))
        return None if fits else f"the lengths of source and output, or of text and picture, {total} in all"


class Segment:
    """The number of a text: 0, or of a pair 1."""

    def __call__(self, found: Any, result: _Result) -> str | None:
        last = 0 if isinstance(result.whole.text, str) else 1
        return None if 0 <= found <= last else f"the number of a text (0 to {last})"


class Box:
    """Left, top, right and bottom of a rectangle that has an area."""

    def __call__(self, found: Any, result: _Result) -> str | None:
        left, top, right, bottom = found
        fits = left < right and top < bottom and 0 < (right - left) * (bottom - top) <= LARGEST
        return None if fits else "left, top, right and bottom of a rectangle with an area"


class Picture:
    """Width and height of a picture that Pillow would open."""

    def __call__(self, found: Any, result: _Result) -> str | None:
        fits = min(found) >= 1 and found[0] * found[1] <= MOST_PIXELS
        return None if fits else f"a width and a height from 1, with {MOST_PIXELS:,} pixels at most"


class Answer:
    """An answer with a number for each label; its own label is among them where they are those of all classes."""

    def __call__(self, found: Any, result: _Result) -> str | None:
        if len(found.labels) != len(found.logits):
            return "with labels and logits of one length"
        inside = found.kind not in ("class", "value") or 0 <= found.index < len(found.labels)
        return None if inside else "with an index in its labels"


@dataclass(frozen=True)
class Together:
    """All of these fields have a value, or none has."""

    names: tuple[str, ...]

    def __call__(self, found: Any, result: _Result) -> str | None:
        missing = [getattr(found, name) is None for name in self.names]
        return f"with all of {', '.join(self.names)}, or none" if len(set(missing)) > 1 else None


SUMMARY = Together(("mean", "deviation", "low", "high"))
ANSWER = Answer()
TEXT: Rules = {
    "positions": Numbered(),
    "positions.*.segment": Segment(),
    "positions.*.box": Box(),
    "positions.*.word": Below("words"),
    "words": Numbered(),
    "words.*.positions": Filled(),
    "words.*.positions.*": Below("positions"),
    "words.*.segment": Segment(),
    "digits.*": Between(0, 17),
    "image_size": Picture(),
    "streams": Lengths(),
}
"""Of what has positions, words, methods that are exact to some digits, and perhaps a picture or two sequences."""
PROVENANCE: Rules = {
    "provenance.settings": Named(),
    "provenance.settings.residual": Named(),
    "provenance.settings.levels": Levels(),
    "provenance.methods": Named(),
    "provenance.methods.*": Facts(),
    "provenance.references": Named(),
    "provenance.references.*": Facts(),
    "provenance.input": Named(),
    "provenance.input.sinks": SinksTold(),
    "provenance.input.cut": OfType(tuple[int, int], "a list of two whole numbers"),
    "provenance.input.unknown": OfType(tuple[str, ...], "a list of texts"),
    "provenance.input.first_token": OfType(str, "a text"),
    "provenance.input.parts": OfType(tuple[tuple[str, int, int], ...], "a list of [role, first position, end]"),
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
