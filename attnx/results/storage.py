"""What fits together in a result, as a table of its kind: where → what must be true there.

    rules = {"layers": Rising(), "relevance.*": Shape("layers positions"), "words.*.positions.*": Below("positions")}

A path leads through fields, and by `*` to every member of a list or an object; where there is nothing (None) nothing is
asked. Files are checked by it when they are loaded, so that nothing that was loaded fails later in a view.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Sized
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from itertools import pairwise
from os import PathLike
from types import NoneType, SimpleNamespace, UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    Protocol,
    Self,
    TypeAlias,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np

from attnx.arguments import SAVED, file_of, path_of, replacing
from attnx.errors import AttentionError, AttnxError, FileFormatError
from attnx.registry import quoted

T = TypeVar("T")

LARGEST = 1e100
"""No number of a model is as large, and sums and squares of smaller ones are still numbers."""
_DEEPEST = 50
_SAID = {str: "a text", int: "a whole number", float: "a number", bool: "true or false", NoneType: "null"}


def read(cls: type[T], data: Any) -> T:
    """The dataclass that `data` tells, made of what JSON has and of arrays; a `FileFormatError` names the field."""
    return _Reader().record(cls, data, "")


def read_value(kind: Any, value: Any) -> Any:
    """A value of a type as fields are annotated with it, made of what JSON has."""
    return _Reader().value(kind, value, "")


def one_line(value: object) -> str:
    """What was found, as a message quotes it."""
    if isinstance(value, np.ndarray):
        return f"{' × '.join(map(str, value.shape)) or 'one'} numbers"
    return " ".join(quoted(value).split())


class _Reader:
    def record(self, cls: type[T], value: Any, where: str) -> T:
        known = _annotated(cast(Any, cls))
        if not isinstance(value, Mapping):
            raise _unfit(where or "the whole", f"an object with {', '.join(known)}", value)
        inside = f"{where}." if where else ""
        for name in value:
            if name not in known:
                raise FileFormatError(f"{inside}{one_line(name)[1:-1]} is no field that this attnx knows")
        values = {}
        for name, kind in known.items():
            if name not in value:
                raise FileFormatError(f"{inside}{name} is missing")
            values[name] = self.value(kind, value[name], f"{inside}{name}")
        return cls(**values)

    def value(self, kind: Any, value: Any, where: str) -> Any:
        if kind in _LEAVES:
            return _LEAVES[kind](value, where)
        if is_dataclass(kind) and isinstance(kind, type):
            return self.record(kind, value, where)
        if hasattr(kind, "__orig_bases__"):  # a tuple with a name
            return kind(self.value(kind.__orig_bases__[0], value, where))
        origin = get_origin(kind)
        if origin in (Union, UnionType):
            return self._either(get_args(kind), value, where)
        if origin is Annotated:
            return self._array(get_args(kind)[1:], value, where)
        return _SHAPES[origin](self, get_args(kind), value, where)

    def _either(self, kinds: tuple[Any, ...], value: Any, where: str) -> Any:
        if value is None and NoneType in kinds:
            return None
        others = [kind for kind in kinds if kind is not NoneType]
        if len(others) == 1:
            return self.value(others[0], value, where)
        for kind in others:
            with suppress(FileFormatError):
                return self.value(kind, value, where)
        raise _unfit(where, " or ".join(_SAID.get(kind, "a list of as many as it has") for kind in kinds), value)

    def _tuple(self, kinds: tuple[Any, ...], value: Any, where: str) -> tuple[Any, ...]:
        if not isinstance(value, (list, tuple)):
            raise _unfit(where, "a list", value)
        each = [kinds[0]] * len(value) if kinds[-1] is Ellipsis else kinds
        if len(each) != len(value):
            raise _unfit(where, f"a list of {len(each)}", value)
        return tuple(self.value(kind, item, f"{where}[{place}]") for place, (kind, item) in enumerate(zip(each, value)))  # noqa: B905

    def _set(self, kinds: tuple[Any, ...], value: Any, where: str) -> frozenset[Any]:
        # As fields have it, or in a file its members in a list.
        return frozenset(self._tuple((kinds[0], ...), sorted(value) if isinstance(value, frozenset) else value, where))

    def _mapping(self, kinds: tuple[Any, ...], value: Any, where: str) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise _unfit(where, "an object", value)
        return {_text(name, where): self.value(kinds[1], item, step(where, name)) for name, item in value.items()}

    def _literal(self, allowed: tuple[Any, ...], value: Any, where: str) -> Any:
        if not isinstance(value, str) or value not in allowed:
            raise _unfit(where, " or ".join(map(repr, allowed)), value)
        return value

    def _array(self, kinds: tuple[Any, ...], value: Any, where: str) -> Any:
        dtype = kinds[0] if kinds[0] is np.float32 else np.float64
        if isinstance(value, np.ndarray):
            if value.dtype not in (np.float32, np.float64):
                raise _unfit(where, "floating numbers", value)
            return value.astype(dtype)
        if not isinstance(value, (list, tuple)):
            raise _unfit(where, "numbers in a list", value)
        try:
            each = np.array(value, dtype=object)
            if all(type(item) in (int, float, NoneType) for item in each.flat):
                return each.astype(dtype)
        except (ValueError, TypeError, OverflowError):
            pass  # lists too deep, or numbers too large
        raise _unfit(where, "numbers in lists of one length", value)


_SHAPES: Mapping[Any, Callable[[_Reader, tuple[Any, ...], Any, str], Any]] = {
    tuple: _Reader._tuple,
    frozenset: _Reader._set,
    Mapping: _Reader._mapping,
    Literal: _Reader._literal,
    np.ndarray: _Reader._array,
}


def step(where: str, name: object) -> str:
    """The place of a member, as Python would write it."""
    return f"{where}[{one_line(name)}]"


@cache
def _annotated(cls: type) -> dict[str, Any]:
    """Name → type, of all that is saved. Others may be of types that are imported for type checkers alone."""
    saved = [field for field in fields(cls) if field.compare]
    module = {name: value for base in cls.__mro__[::-1] for name, value in vars(sys.modules[base.__module__]).items()}
    simple_namespace = SimpleNamespace(__annotations__={field.name: field.type for field in saved})
    kinds = get_type_hints(simple_namespace, globalns=module, include_extras=True)
    return {field.name: kinds[field.name] for field in saved}


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise _unfit(where, _SAID[str], value)
    try:
        value.encode()
    except UnicodeEncodeError:
        raise _unfit(where, "a text of whole characters", value) from None
    return value


def _whole(value: Any, where: str) -> int:
    if type(value) is not int or value.bit_length() > 63:
        raise _unfit(where, _SAID[int], value)
    return value


def _number(value: Any, where: str) -> float:
    if type(value) not in (int, float) or not abs(value) <= LARGEST:
        raise _unfit(where, _SAID[float], value)
    return float(value)


def _flag(value: Any, where: str) -> bool:
    if type(value) is not bool:
        raise _unfit(where, _SAID[bool], value)
    return value


def _anything(value: Any, where: str, depth: int = 0) -> Any:
    """What JSON has, with texts and numbers that can be written again."""
    if depth > _DEEPEST:
        raise FileFormatError(f"{where} is nested more than {_DEEPEST} times")
    if isinstance(value, Mapping):
        return {_text(name, where): _anything(item, step(where, name), depth + 1) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_anything(item, f"{where}[{place}]", depth + 1) for place, item in enumerate(value)]
    leaf = _LEAVES.get(type(value))
    if leaf is None:
        raise _unfit(where, "what JSON has", value)
    return leaf(value, where)


_LEAVES: dict[Any, Callable[[Any, str], Any]] = {
    str: _text,
    int: _whole,
    float: _number,
    bool: _flag,
    NoneType: lambda value, where: value,
    Any: _anything,
}


def _unfit(where: str, expected: str, value: object) -> FileFormatError:
    return FileFormatError(f"{where} must be {expected}, found {one_line(value)}")


FORMAT = 3
_KEY = "attnx"
_TENSOR = "attnx.tensor"
_CHECKSUM = "attnx.sha256"


class Stored(Protocol):
    """What a kind of result tells of itself."""

    kind: ClassVar[str]

    def _saved(self) -> dict[str, Any]: ...

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self: ...


S = TypeVar("S", bound=Stored)


def to_json(result: Stored, indent: int | None = None) -> str:
    """Everything, all digits, undefined as null."""
    written = {"kind": result.kind, "format": FORMAT, **plain(result._saved())}
    return json.dumps(written, ensure_ascii=False, allow_nan=False, indent=indent)


def from_json(cls: type[S], text: str) -> S:
    """Read what `to_json` wrote."""
    what = f"not {_a(cls.kind)} that"
    try:
        data = json.loads(text, parse_constant=_no_number)
    except Exception as error:  # whatever a text that was tampered with can lead to
        raise FileFormatError(f"{what} attnx wrote: {one_line(error)}") from error
    if isinstance(data, dict):
        _check(cls.kind, data, f"{what} this attnx reads")
    try:
        return cls.from_dict(data)
    except FileFormatError as error:
        raise FileFormatError(f"{what} attnx wrote: {error}") from error


def save(result: Stored, path: str | PathLike[str]) -> None:
    """Write a safetensors file that `load` reads."""
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    place = file_of(path, SAVED, "save")
    tensors: dict[str, Any] = {}
    try:
        header = {"kind": result.kind, "format": FORMAT, **plain(_taken_out(result._saved(), tensors))}
        name = json.dumps(header, allow_nan=False)
        with replacing(place) as beside:
            save_file(tensors, beside, metadata={_KEY: name, _CHECKSUM: _checksum(name, tensors)})
    except (SafetensorError, OSError, ValueError, TypeError) as error:
        raise AttnxError(f"cannot write {place}: {one_line(str(error))[1:-1]}") from error


def load(cls: type[S], path: str | PathLike[str]) -> S:
    """Read what `save` wrote. All of it is checked: its types, what must fit together, and its checksum."""
    from safetensors import SafetensorError, safe_open

    place = path_of(path)
    try:
        with safe_open(place, framework="numpy") as file:
            metadata = file.metadata() or {}
            if _KEY not in metadata:
                raise FileFormatError(f"{place} holds no {cls.kind}; give a file that save() wrote")
            header = json.loads(metadata[_KEY], parse_constant=_no_number)
            _check(cls.kind, header, f"{place} holds no {cls.kind} that this attnx reads")
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (it is no dictionary)
    except FileFormatError:
        raise
    except (SafetensorError, OSError) as error:
        raise FileFormatError(f"{place} is no {cls.kind}: {one_line(str(error))[1:-1]}") from error
    except Exception as error:  # whatever a header that was tampered with can lead to
        raise FileFormatError(f"{place} is a damaged {cls.kind}: {one_line(error)}; save it again") from error
    try:
        made = cls.from_dict(_put_back(header, tensors))
        if metadata.get(_CHECKSUM) != _checksum(metadata.get(_KEY, ""), tensors):
            raise FileFormatError("its checksum is that of other content, so something in it has changed")
    except FileFormatError as error:
        raise FileFormatError(f"{place} is a damaged {cls.kind}: {error}; save it again") from error
    return made


def _checksum(header: str, tensors: Mapping[str, Any]) -> str:
    """Over the header and all numbers: a flipped bit is noticed."""
    value = hashlib.sha256(header.encode())
    for name, numbers in sorted(tensors.items()):
        value.update(json.dumps([name, numbers.dtype.str, numbers.shape]).encode())
        value.update(np.ascontiguousarray(numbers).tobytes())
    return value.hexdigest()


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


def plain(value: Any) -> Any:
    """Lists, dictionaries, numbers and strings alone, ready for JSON; NaN is None.

    >>> plain({"scores": np.array([0.5, np.nan]), "layers": (1, 2)})
    {'scores': [0.5, None], 'layers': [1, 2]}
    """
    if isinstance(value, (str, int, type(None))):
        return value
    if isinstance(value, np.ndarray):
        return value.tolist() if not np.isnan(value).any() else plain(value.tolist())
    if isinstance(value, (float, np.generic)):
        number = value.item() if isinstance(value, np.generic) else value
        return None if number != number else number
    if isinstance(value, Mapping):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, frozenset):
        return sorted(value)
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    return [plain(item) for item in value]


def _taken_out(value: Any, tensors: dict[str, Any], path: str = "") -> Any:
    """The same with each array in `tensors`, and its name there in its place."""
    if isinstance(value, np.ndarray):
        tensors[path] = np.ascontiguousarray(value)
        return {_TENSOR: path}
    if isinstance(value, Mapping):
        # Names may have slashes; as in a JSON pointer they are told apart from those of the path.
        steps = {name: f"{path}/{name.replace('~', '~0').replace('/', '~1')}".lstrip("/") for name in value}
        return {name: _taken_out(item, tensors, steps[name]) for name, item in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return _taken_out({field.name: getattr(value, field.name) for field in fields(value)}, tensors, path)
    return value


def _put_back(header: dict[str, Any], tensors: Mapping[str, Any]) -> Any:
    """The header with each array in its place; all of them must have one."""
    used = set()

    def filled(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        if set(value) != {_TENSOR}:
            return {name: filled(item) for name, item in value.items()}
        name = value[_TENSOR]
        used.add(str(name))
        return _tensor(tensors, name)

    whole = filled(header)
    left = sorted(set(tensors) - used)
    if left:
        raise FileFormatError(f"the numbers {one_line(left[0])} belong to nothing")
    return whole


def _tensor(tensors: Mapping[str, Any], name: Any) -> Any:
    if not isinstance(name, str) or name not in tensors:
        raise FileFormatError(f"the numbers {one_line(name)} are missing")
    return tensors[name]


def _check(kind: str, header: dict[str, Any], what: str) -> None:
    """That it is of this kind, and of the format that is read."""
    version, name = header.get("format"), header.get("kind", kind)
    if type(version) is not int or version != FORMAT:
        raise FileFormatError(
            f"{what}: expected format {FORMAT}, found {one_line(version)}; read it with the attnx that wrote it"
        )
    if name != kind:
        raise FileFormatError(f"{what}: it is {_a(name) if isinstance(name, str) else one_line(name)}")


def _a(kind: str) -> str:
    named = kind if kind.isprintable() and len(kind) < 80 else one_line(kind)
    return f"{'an' if kind[:1] in 'aeiou' else 'a'} {named}"


Rule: TypeAlias = Callable[[Any, "_Result"], str | None]
"""(what is there, the result) → what was expected, or None where it is so."""
Rules: TypeAlias = Mapping[str, Rule]
MOST_PIXELS = 178_956_970
"""What Pillow opens before it takes a picture for an attack."""


def check(result: Any) -> None:
    """Raise an `AttentionError` that names the first place that does not fit."""
    whole = _Result(result)
    for path, rule in result.rules.items():
        for number, value in enumerate(_found(result, path)):
            expected = rule(value, whole)
            if expected is not None:
                raise AttentionError(f"{_where(result, path, number)} must be {expected}, found {one_line(value)}")


class _Result:
    """A result with the sizes of its axes."""

    def __init__(self, whole: Any) -> None:
        self.whole = whole
        self._sizes: dict[str, int | None] = {}
        self._met: dict[str, int] = {}

    def size(self, axis: str) -> int | None:
        """Of a field its length, of a number itself; of any other axis what was met first, None before."""
        if axis not in self._sizes:
            sized = getattr(self.whole, axis, None)
            self._sizes[axis] = int(axis) if axis.isdigit() else len(sized) if isinstance(sized, Sized) else None
        size = self._sizes[axis]
        return self._met.get(axis) if size is None else size

    def meet(self, axes: Sequence[str], shape: Sequence[int]) -> None:
        self._met.update(zip(axes, shape, strict=True))


class Shape:
    """Finite numbers along these axes, or along others: each is a field's length, a number, or the same everywhere."""

    def __init__(self, *either: str, undefined: bool = False) -> None:
        self._either = [name.split() for name in either]
        self._undefined = undefined

    def __call__(self, value: Any, result: _Result) -> str | None:
        shape = np.shape(value)
        for axes in self._either:
            if len(axes) == len(shape) and all(
                size > 0 if (known := result.size(axis)) is None else size == known
                for axis, size in zip(axes, shape, strict=True)
            ):
                result.meet(axes, shape)
                return self._numbers(np.asarray(value))
        axes = next((names for names in self._either if len(names) == len(shape)), self._either[0])
        return f"numbers for {' × '.join(self._said(axis, result) for axis in axes)}"

    def _said(self, axis: str, result: _Result) -> str:
        size = result.size(axis)
        return axis if axis.isdigit() or size is None else f"{size} {axis}"

    def _numbers(self, value: Any) -> str | None:
        sizes = np.abs(value)
        fits = sizes <= LARGEST if not self._undefined else (sizes <= LARGEST) | np.isnan(sizes)
        return None if fits.all() else "finite numbers, and some of it are not finite"


@dataclass(frozen=True)
class Filled:
    """At least so many members, and those that are named among them."""

    least: int = 1
    named: Collection[str] = ()

    def __call__(self, value: Any, result: _Result) -> str | None:
        missing = [name for name in self.named if name not in value]
        if missing:
            return f"an object with {missing[0]}"
        return f"{self.least} or more" if len(value) < self.least else None


@dataclass(frozen=True)
class Between:
    """A number in a range, both ends included."""

    low: float
    high: float = float("inf")

    def __call__(self, value: Any, result: _Result) -> str | None:
        if self.low <= value <= self.high:
            return None
        return f"{self.low:g} " + ("or more" if self.high == float("inf") else f"to {self.high:g}")


@dataclass(frozen=True)
class Below:
    """A place in a field, counted from 0."""

    field: str

    def __call__(self, value: Any, result: _Result) -> str | None:
        size = result.size(self.field) or 0
        return None if 0 <= value < size else f"a place in {self.field} (0 to {size - 1})"


@dataclass(frozen=True)
class Among:
    """The name of a member of a field."""

    field: str

    def __call__(self, value: Any, result: _Result) -> str | None:
        known = [getattr(item, "name", item) for item in getattr(result.whole, self.field)]
        return None if value in known else f"among {self.field} ({', '.join(map(one_line, known))})"


@dataclass(frozen=True)
class NamedAs:
    """An object with the same names as another field."""

    field: str

    def __call__(self, value: Any, result: _Result) -> str | None:
        known = getattr(result.whole, self.field)
        return None if set(value) == set(known) else f"an object with {', '.join(map(one_line, known))}"


class Rising:
    """Whole numbers from 1, each greater than the one before."""

    def __call__(self, value: Any, result: _Result) -> str | None:
        fits = value and value[0] >= 1 and all(item < other for item, other in pairwise(value))
        return None if fits else "whole numbers from 1 that rise"


class Numbered:
    """Each member has its place for an index."""

    def __call__(self, value: Any, result: _Result) -> str | None:
        return None if [item.index for item in value] == list(range(len(value))) else "in the order of their indices"


class SinksTold:
    """Patches that are sinks, as remarks read them."""

    def __call__(self, value: Any, result: _Result) -> str | None:
        fits = isinstance(value, list) and all(map(self._fits, value))
        return None if fits else "a list of patches with their layer, share and times"

    @staticmethod
    def _fits(item: Any) -> bool:
        numbers = ("layer", "share", "times")
        return (
            isinstance(item, Mapping)
            and isinstance(item.get("patch"), str)
            and all(isinstance(item.get(name), (int, float)) for name in numbers)
        )


class Named:
    """An object, whose members have names."""

    def __call__(self, value: Any, result: _Result) -> str | None:
        return None if isinstance(value, Mapping) else "an object"


@dataclass(frozen=True)
class OfType:
    """A value of this type, as annotations of fields have it: for what is typed nowhere else."""

    kind: Any
    words: str

    def __call__(self, value: Any, result: _Result) -> str | None:
        try:
            read_value(self.kind, value)
        except FileFormatError:
            return self.words
        return None


class Facts:
    """What a method tells of its scores: numbers, where a remark is made of them."""

    def __call__(self, value: Any, result: _Result) -> str | None:
        if not isinstance(value, Mapping) or not all(self._number(value.get(name, 0)) for name in ("biases", "value")):
            return "an object, whose biases and value are finite numbers"
        if "biases" in value and "value" not in value:
            return "an object, whose biases and value are finite numbers"
        fits = all(self._share(share) for name in ("saturation", "tied") for share in _each(value.get(name, 0)))
        return None if fits else "an object, whose saturation and tied are numbers from 0 to 1"

    @staticmethod
    def _number(value: Any) -> bool:
        return isinstance(value, (int, float)) and abs(value) <= LARGEST

    @staticmethod
    def _share(value: Any) -> bool:
        return isinstance(value, (int, float)) and 0 <= value <= 1


def _each(value: Any) -> Sequence[Any]:
    """The values of all layers, or the one of all."""
    return value if isinstance(value, (list, tuple)) else (value,)


class OwnName:
    """An attribution under the name of its own method."""

    def __call__(self, value: Any, result: _Result) -> str | None:
        known = result.whole.attributions.get(value.method)
        return None if known is value else "under the name of its method"


class Levels:
    """The kind of each level, for all layers of the result."""

    def __call__(self, value: Any, result: _Result) -> str | None:
        layers = getattr(result.whole, "layers", None) or (0,)
        fits = isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value)
        return None if fits and len(value) >= max(layers) else f"a list of {max(layers)} or more texts, one a level"


class Lengths:
    """How many positions two sequences have, which are named in pairs: source and output, or text and picture."""

    def __call__(self, value: Any, result: _Result) -> str | None:
        total = result.size("positions")
        known = not value or set(value) in ({"source", "output"}, {"text", "picture"})
        fits = known and (not value or (min(value.values()) >= 0 and sum(value.values()) == total))
        return None if fits else f"the lengths of source and output, or of text and picture, {total} in all"


class Segment:
    """The number of a text: 0, or of a pair 1."""

    def __call__(self, value: Any, result: _Result) -> str | None:
        last = 0 if isinstance(result.whole.text, str) else 1
        return None if 0 <= value <= last else f"the number of a text (0 to {last})"


class Box:
    """Left, top, right and bottom of a rectangle that has an area."""

    def __call__(self, value: Any, result: _Result) -> str | None:
        left, top, right, bottom = value
        fits = left < right and top < bottom and 0 < (right - left) * (bottom - top) <= LARGEST
        return None if fits else "left, top, right and bottom of a rectangle with an area"


class Picture:
    """Width and height of a picture that Pillow would open."""

    def __call__(self, value: Any, result: _Result) -> str | None:
        fits = min(value) >= 1 and value[0] * value[1] <= MOST_PIXELS
        return None if fits else f"a width and a height from 1, with {MOST_PIXELS:,} pixels at most"


class Answer:
    """An answer with a number for each label; its own label is among them where they are those of all classes."""

    def __call__(self, value: Any, result: _Result) -> str | None:
        if len(value.labels) != len(value.logits):
            return "with labels and logits of one length"
        inside = value.kind not in ("class", "value") or 0 <= value.index < len(value.labels)
        return None if inside else "with an index in its labels"


@dataclass(frozen=True)
class Together:
    """All of these fields have a value, or none has."""

    names: tuple[str, ...]

    def __call__(self, value: Any, result: _Result) -> str | None:
        missing = [getattr(value, name) is None for name in self.names]
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
    "image_size": Picture(),
    "sequences": Lengths(),
}
"""Of what has positions, words, methods that are exact to some digits, and perhaps a picture or two sequences."""
PROVENANCE: Rules = {
    "provenance.settings": Named(),
    "provenance.settings.residual": Named(),
    "provenance.settings.layer_kinds": Levels(),
    "provenance.methods": Named(),
    "provenance.methods.*": Named(),
    "provenance.input": Named(),
    "provenance.input.sinks": SinksTold(),
    "provenance.input.cut": OfType(tuple[int, int], "a list of two whole numbers"),
    "provenance.input.unknown": OfType(tuple[str, ...], "a list of texts"),
    "provenance.input.prepend_token": OfType(str, "a text"),
    "provenance.input.parts": OfType(tuple[tuple[str, int, int], ...], "a list of [role, first position, end]"),
}
"""As far as anything is read of it."""


def _found(result: Any, path: str) -> list[Any]:
    """All that is at the end of a path."""
    value = [result]
    for name in path.split("."):
        value = [item for several in value for _, item in _members(several, name) if item is not None]
    return value


def _where(result: Any, path: str, number: int) -> str:
    """The place of one of these in words; only one that does not fit needs them."""
    value = [("", result)]
    for name in path.split("."):
        said = step if name == "*" else _field
        value = [
            (said(where, member), item)
            for where, several in value
            for member, item in _members(several, name)
            if item is not None
        ]
    return value[number][0]


def _members(value: Any, name: str) -> Iterable[tuple[Any, Any]]:
    """One step of a path: the field of that name, or by `*` every member."""
    named = isinstance(value, (dict, Mapping))  # the first is found at once, the second by asking around
    if name == "*":
        return value.items() if named else enumerate(value)
    return ((name, value.get(name) if named else getattr(value, name)),)


def _field(where: str, name: object) -> str:
    return f"{where}.{name}".lstrip(".")
