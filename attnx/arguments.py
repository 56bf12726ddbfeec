"""Where a figure is written, known before it is drawn."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from inspect import Parameter, signature
from numbers import Real
from os import PathLike, fsencode, fspath
from os.path import realpath
from pathlib import Path, PurePath
from secrets import token_hex
from shutil import copymode
from typing import Any, ParamSpec, TypeVar

from attnx.errors import ArgumentError, InputError
from attnx.registry import quoted, unknown

P = ParamSpec("P")
R = TypeVar("R")


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """The same function; arguments that it does not have, or of the wrong kind, are an `ArgumentError`."""
    parameters = signature(function)
    options = next(
        (parameter.name for parameter in parameters.parameters.values() if parameter.kind is Parameter.VAR_KEYWORD),
        None,
    )

    @wraps(function)
    def call(*given: P.args, **named: P.kwargs) -> R:
        try:
            bound = parameters.bind(*given, **named).arguments
        except TypeError as error:
            raise ArgumentError(_meant(function, list(parameters.parameters), named, error)) from None
        check_kinds({**bound, **bound.get(options or "", {})})
        return function(*given, **named)

    return call


def check_kinds(named: Mapping[str, Any]) -> None:
    """That each value is of the kind that its name takes everywhere."""
    for name, value in named.items():
        fits, kind = _KINDS.get(name, (_anything, ""))
        if not fits(value):
            raise ArgumentError(f"{name} must be {kind}, found {quoted(value)}")
        if isinstance(value, int) and value.bit_length() > 63:
            raise ArgumentError(f"{name} is a number of {value.bit_length()} bits, more than there is of anything")


def path_of(given: str | PathLike[str], noun: str = "path") -> str:
    """The name of a file; not None, and not one that no file can have."""
    try:
        name = fspath(given)
    except TypeError:
        raise ArgumentError(f"a {noun} is a text or a Path, found {quoted(given)}") from None
    if not isinstance(name, str) or "\0" in name or not _can_be_encoded(name):
        raise ArgumentError(f"{quoted(name)} is no name that a file can have")
    return name


SAVED, PAGES, FIGURES = (".safetensors",), (".html", ".htm"), (".png", ".svg", ".pdf")
"""How the names of saved results, of pages and of figures end."""


def file_of(given: str | PathLike[str], suffixes: Sequence[str], asked: str) -> str:
    """The name of a file to write. Its end says the format, in Python as on the command line; `asked` is what takes it.

    >>> file_of("x.JSON", (".json",), "--output")
    'x.JSON'
    """
    name = path_of(given)
    if PurePath(name).suffix.lower() not in suffixes:
        known = " or ".join([", ".join(suffixes[:-1]), suffixes[-1]][len(suffixes) == 1 :])
        raise InputError(f"{asked} takes a file that ends in {known}, found {quoted(PurePath(name).name)}")
    return name


@contextmanager
def replacing(name: str) -> Iterator[str]:
    """A file beside the one to write, which takes its place when the block ends; after an error all is as it was.

    So a full disk leaves no empty or half-written file. What is not a regular file, as a pipe, is written to directly.
    """
    place = Path(realpath(name))
    if place.exists() and not place.is_file():
        yield name
        return
    beside = place.with_name(f".{place.name[:100]}.{token_hex(4)}{place.suffix}")
    try:
        yield str(beside)
        if place.exists():
            copymode(place, beside)
        beside.replace(place)
    finally:
        beside.unlink(missing_ok=True)


def _can_be_encoded(name: str) -> bool:
    try:
        fsencode(name)
    except UnicodeEncodeError:  # half a character
        return False
    return True


def _meant(function: Callable[..., Any], known: list[str], named: dict[str, Any], error: TypeError) -> str:
    strange = [name for name in named if name not in known]
    if strange:
        return unknown(f"argument of {function.__name__}", strange[0], known)
    return f"{function.__name__}: {error}; it takes {', '.join(known)}"


def _anything(value: Any) -> bool:
    return True


def _text(value: Any) -> bool:
    return value is None or isinstance(value, str)


def _names(value: Any) -> bool:
    several = isinstance(value, Iterable) and not isinstance(value, bytes) and getattr(value, "ndim", 1) == 1
    return value is None or isinstance(value, str) or several


def _number(value: Any) -> bool:
    return value is None or (isinstance(value, Real) and not isinstance(value, bool))


def _numbers(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(one is not None and _number(one) for one in value)


def _blank(value: Any) -> bool:
    return _text(value) or _whole(value)


def _one(value: Any) -> bool:
    return getattr(value, "ndim", 0) == 0


def _whole(value: Any) -> bool:
    try:
        operator.index(value)
    except TypeError:
        return False
    return not isinstance(value, bool)


def _whole_or_none(value: Any) -> bool:
    return value is None or _whole(value)


def _flag(value: Any) -> bool:
    return type(value).__name__ in ("bool", "bool_") or (_whole(value) and value in (0, 1))  # numpy's are called so


_KINDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    **dict.fromkeys(("methods", "references", "extras", "suites"), (_names, "a name, or several in a list")),
    **dict.fromkeys(("method", "measure", "normalize", "score", "backend"), (_text, "a name")),
    **dict.fromkeys(("seed", "steps", "samples"), (_whole, "a whole number")),
    **dict.fromkeys(("batch_size", "random"), (_whole_or_none, "a whole number")),
    **dict.fromkeys(
        (
            "drop_sink",
            "truncate",
            "all_queries",
            "do_sample",
            "interpolate",
            "progress",
            "graph",
            "gradients",
            "held",
            "contrast",
        ),
        (_flag, "True or False"),
    ),
    **dict.fromkeys(
        ("layer", "head", "target", "discard_ratio", "residual"), (_one, "one value, and no array of several")
    ),
    "limit": (_number, "a number"),
    "baseline": (_blank, "a token or its id"),
    "shares": (_numbers, "numbers in a list"),
    "continuation": (_text, "a text"),
}
"""What an argument of this name takes in every function that is `checked`."""


def picture_paths(path: Path) -> tuple[Path, ...]:
    """The files that a figure of this name is written to: what its end says, or without one a .png and a .svg."""
    paths = (path,) if path.suffix else tuple(path.with_name(path.name + suffix) for suffix in (".png", ".svg"))
    for one in paths:
        file_of(one, FIGURES, "a figure")
        if not one.parent.is_dir():
            raise InputError(f"there is no directory {one.parent}; make it first")
        if one.is_dir():
            raise InputError(f"{one} is a directory; give the name of a file in it")
    return paths
