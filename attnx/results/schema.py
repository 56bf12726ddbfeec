"""What a file must say to become a result: read off the annotations of its dataclass, for all kinds alike.

The type of a field is what the file must hold there, down to the last number; every field must be there, and no other.
What fits together beyond types, such as the length of one field and the axes of another, is said by `fit`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from types import NoneType, SimpleNamespace, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import numpy as np

from attnx.errors import FileFormatError
from attnx.registry import quoted

T = TypeVar("T")

LATER: Mapping[str, Any] = {"later": True}
"""Metadata of a field that files of this format, written before it came, may lack: `field(default=…, metadata=LATER)`.
"""

LARGEST = 1e100
"""No number of a model is as large, and sums and squares of smaller ones are still numbers."""
_DEEPEST = 50
_SAID = {str: "a text", int: "a whole number", float: "a number", bool: "true or false", NoneType: "null"}


def read(cls: type[T], data: Any, *, older: bool = False) -> T:
    """The dataclass that `data` tells, made of what JSON has and of arrays; a `FileFormatError` names the field.

    An `older` format has not all fields that have a default.
    """
    return _Reader(older).record(cls, data, "")


def read_value(kind: Any, given: Any) -> Any:
    """A value of a type as fields are annotated with it, made of what JSON has."""
    return _Reader(older=False).value(kind, given, "")


def one_line(found: object) -> str:
    """What was found, as a message quotes it."""
    if isinstance(found, np.ndarray):
        return f"{' × '.join(map(str, found.shape)) or 'one'} numbers"
    return " ".join(quoted(found).split())


class _Reader:
    def __init__(self, older: bool) -> None:
        self._older = older

    def record(self, cls: type[T], given: Any, where: str) -> T:
        known = _annotated(cast(Any, cls))
        if not isinstance(given, Mapping):
            raise _unfit(where or "the whole", f"an object with {', '.join(known)}", given)
        inside = f"{where}." if where else ""
        for name in given:
            if name not in known:
                raise FileFormatError(f"{inside}{one_line(name)[1:-1]} is no field that this attnx knows")
        values = {}
        for name, (kind, one) in known.items():
            if name in given:
                values[name] = self.value(kind, given[name], f"{inside}{name}")
            elif not _may_be_missing(one, self._older):
                raise FileFormatError(f"{inside}{name} is missing")
        return cls(**values)

    def value(self, kind: Any, given: Any, where: str) -> Any:
        if kind in _LEAVES:
            return _LEAVES[kind](given, where)
        if is_dataclass(kind) and isinstance(kind, type):
            return self.record(kind, given, where)
        if hasattr(kind, "__orig_bases__"):  # a tuple with a name
            return kind(self.value(kind.__orig_bases__[0], given, where))
        origin = get_origin(kind)
        if origin in (Union, UnionType):
            return self._either(get_args(kind), given, where)
        if origin is Annotated:
            return self._array(get_args(kind)[1:], given, where)
        return _SHAPES[origin](self, get_args(kind), given, where)

    def _either(self, kinds: tuple[Any, ...], given: Any, where: str) -> Any:
        if given is None and NoneType in kinds:
            return None
        others = [kind for kind in kinds if kind is not NoneType]
        if len(others) == 1:
            return self.value(others[0], given, where)
        for kind in others:
            with suppress(FileFormatError):
                return self.value(kind, given, where)
        raise _unfit(where, " or ".join(_SAID.get(kind, "a list of as many as it has") for kind in kinds), given)

    def _tuple(self, kinds: tuple[Any, ...], given: Any, where: str) -> tuple[Any, ...]:
        if not isinstance(given, (list, tuple)):
            raise _unfit(where, "a list", given)
        each = [kinds[0]] * len(given) if kinds[-1] is Ellipsis else kinds
        if len(each) != len(given):
            raise _unfit(where, f"a list of {len(each)}", given)
        return tuple(self.value(kind, one, f"{where}[{place}]") for place, (kind, one) in enumerate(zip(each, given)))  # noqa: B905

    def _set(self, kinds: tuple[Any, ...], given: Any, where: str) -> frozenset[Any]:
        # As fields have it, or in a file its members in a list.
        return frozenset(self._tuple((kinds[0], ...), sorted(given) if isinstance(given, frozenset) else given, where))

    def _mapping(self, kinds: tuple[Any, ...], given: Any, where: str) -> dict[str, Any]:
        if not isinstance(given, Mapping):
            raise _unfit(where, "an object", given)
        return {_text(name, where): self.value(kinds[1], one, step(where, name)) for name, one in given.items()}

    def _literal(self, allowed: tuple[Any, ...], given: Any, where: str) -> Any:
        if not isinstance(given, str) or given not in allowed:
            raise _unfit(where, " or ".join(map(repr, allowed)), given)
        return given

    def _array(self, kinds: tuple[Any, ...], given: Any, where: str) -> Any:
        dtype = kinds[0] if kinds[0] is np.float32 else np.float64
        if isinstance(given, np.ndarray):
            if given.dtype not in (np.float32, np.float64):
                raise _unfit(where, "floating numbers", given)
            return given.astype(dtype)
        if not isinstance(given, (list, tuple)):
            raise _unfit(where, "numbers in a list", given)
        try:
            each = np.array(given, dtype=object)
            if all(type(one) in (int, float, NoneType) for one in each.flat):
                return each.astype(dtype)
        except (ValueError, TypeError, OverflowError):
            pass  # lists too deep, or numbers too large
        raise _unfit(where, "numbers in lists of one length", given)


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
def _annotated(cls: type) -> dict[str, tuple[Any, Field[Any]]]:
    """Name → type and field, of all that is saved. Others may be of types that are imported for type checkers alone."""
    saved = [one for one in fields(cls) if one.compare]
    module = vars(sys.modules[cls.__module__])
    own = SimpleNamespace(__annotations__={one.name: one.type for one in saved})
    kinds = get_type_hints(own, globalns=module, include_extras=True)
    return {one.name: (kinds[one.name], one) for one in saved}


def _may_be_missing(one: Field[Any], older: bool) -> bool:
    has_default = one.default is not MISSING or one.default_factory is not MISSING
    return has_default and (older or "later" in one.metadata)


def _text(given: Any, where: str) -> str:
    if not isinstance(given, str):
        raise _unfit(where, _SAID[str], given)
    try:
        given.encode()
    except UnicodeEncodeError:
        raise _unfit(where, "a text of whole characters", given) from None
    return given


def _whole(given: Any, where: str) -> int:
    if type(given) is not int or given.bit_length() > 63:
        raise _unfit(where, _SAID[int], given)
    return given


def _number(given: Any, where: str) -> float:
    if type(given) not in (int, float) or not abs(given) <= LARGEST:
        raise _unfit(where, _SAID[float], given)
    return float(given)


def _flag(given: Any, where: str) -> bool:
    if type(given) is not bool:
        raise _unfit(where, _SAID[bool], given)
    return given


def _anything(given: Any, where: str, depth: int = 0) -> Any:
    """What JSON has, with texts and numbers that can be written again."""
    if depth > _DEEPEST:
        raise FileFormatError(f"{where} is nested more than {_DEEPEST} times")
    if isinstance(given, Mapping):
        return {_text(name, where): _anything(one, step(where, name), depth + 1) for name, one in given.items()}
    if isinstance(given, (list, tuple)):
        return [_anything(one, f"{where}[{place}]", depth + 1) for place, one in enumerate(given)]
    leaf = _LEAVES.get(type(given))
    if leaf is None:
        raise _unfit(where, "what JSON has", given)
    return leaf(given, where)


_LEAVES: dict[Any, Callable[[Any, str], Any]] = {
    str: _text,
    int: _whole,
    float: _number,
    bool: _flag,
    NoneType: lambda given, where: given,
    Any: _anything,
}


def _unfit(where: str, expected: str, found: object) -> FileFormatError:
    return FileFormatError(f"{where} must be {expected}, found {one_line(found)}")
