"""Checks of arguments that users give: names, types, and the files to write."""

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
    """The same function; arguments that it does not have, or of the wrong type, are an `ArgumentError`."""
    parameters = signature(function)
    names = list(parameters.parameters)
    options = [name for name, parameter in parameters.parameters.items() if parameter.kind is Parameter.VAR_KEYWORD]

    @wraps(function)
    def call(*positional: P.args, **named: P.kwargs) -> R:
        try:
            bound = parameters.bind(*positional, **named).arguments
        except TypeError as error:
            strange = [name for name in named if name not in names]
            message = f"{function.__name__}: {error}; it takes {', '.join(names)}"
            if strange:
                message = unknown(f"argument of {function.__name__}", strange[0], names)
            raise ArgumentError(message) from None
        check_kinds({**bound, **bound.get("".join(options), {})})
        return function(*positional, **named)

    return call


def check_kinds(named: Mapping[str, Any]) -> None:
    """Check that each value is of the type that an argument of its name takes everywhere."""
    for name, value in named.items():
        fits, kind = _KINDS.get(name, (None, ""))
        if fits is not None and not fits(value):
            raise ArgumentError(f"{name} must be {kind}, found {quoted(value)}")
        if isinstance(value, int) and value.bit_length() > 63:
            raise ArgumentError(f"{name} is a number of {value.bit_length()} bits, which is too large")


def path_of(path: str | PathLike[str], noun: str = "path") -> str:
    """The name of a file as a string; an error if no file can have it."""
    try:
        name = fspath(path)
    except TypeError:
        raise ArgumentError(f"a {noun} must be a str or a Path, found {quoted(path)}") from None
    try:
        if isinstance(name, str) and "\0" not in name and fsencode(name):
            return name
    except UnicodeEncodeError:  # half a character
        pass
    raise ArgumentError(f"{quoted(name)} is not a possible name of a file")


SAVED, PAGES, FIGURES = (".safetensors",), (".html", ".htm"), (".png", ".svg", ".pdf")
"""Suffixes of saved results, pages and figures."""


def file_of(path: str | PathLike[str], suffixes: Sequence[str], parameter: str) -> str:
    """The name of a file to write, whose suffix decides the format, in Python as on the command line.

    >>> file_of("x.JSON", (".json",), "--output")
    'x.JSON'
    """
    name = path_of(path)
    if PurePath(name).suffix.lower() not in suffixes:
        known = " or ".join([", ".join(suffixes[:-1]), suffixes[-1]][len(suffixes) == 1 :])
        raise InputError(f"{parameter} takes a file that ends in {known}, found {quoted(PurePath(name).name)}")
    return name


@contextmanager
def replacing(name: str) -> Iterator[str]:
    """A temporary file that replaces the file when the block ends without an error.

    So a full disk leaves no empty or half-written file. Pipes and other special files are written directly.
    """
    path = Path(realpath(name))
    if path.exists() and not path.is_file():
        yield name
        return
    temporary = path.with_name(f".{path.name[:100]}.{token_hex(4)}{path.suffix}")
    try:
        yield str(temporary)
        if path.exists():
            copymode(path, temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _is_names(value: Any) -> bool:
    several = isinstance(value, Iterable) and not isinstance(value, bytes) and getattr(value, "ndim", 1) == 1
    return value is None or isinstance(value, str) or several


def _is_text(value: Any) -> bool:
    return value is None or isinstance(value, str)


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _is_integer(value: Any) -> bool:
    try:
        operator.index(value)
    except TypeError:
        return False
    return not isinstance(value, bool)


def _is_flag(value: Any) -> bool:
    return type(value).__name__ in ("bool", "bool_") or (_is_integer(value) and value in (0, 1))  # numpy's are bool_


_FLAGS = "drop_sink truncate all_queries do_sample interpolate progress graph gradients held contrast"
_KINDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    **dict.fromkeys(["methods", "references", "extras", "suites"], (_is_names, "a name, or several in a list")),
    **dict.fromkeys(
        ["method", "measure", "normalize", "score", "backend"],
        (lambda value: value is None or isinstance(value, str), "a name"),
    ),
    **dict.fromkeys(["seed", "steps", "samples"], (_is_integer, "a whole number")),
    **dict.fromkeys(["batch_size", "random"], (lambda value: value is None or _is_integer(value), "a whole number")),
    **dict.fromkeys(_FLAGS.split(), (_is_flag, "True or False")),
    **dict.fromkeys(
        ["layer", "head", "target", "discard_ratio", "residual"],
        (lambda value: getattr(value, "ndim", 0) == 0, "one value, and no array of several"),
    ),
    "limit": (lambda value: value is None or _is_number(value), "a number"),
    "baseline": (lambda value: _is_text(value) or _is_integer(value), "a token or its id"),
    "shares": (lambda value: isinstance(value, (list, tuple)) and all(map(_is_number, value)), "numbers in a list"),
    "continuation": (_is_text, "a text"),
}
"""What an argument of this name takes in every `checked` function."""


def picture_paths(path: Path) -> tuple[Path, ...]:
    """The files that a figure is written to: the one that its suffix names, or without a suffix a .png and a .svg."""
    paths = (path,) if path.suffix else tuple(path.with_name(path.name + suffix) for suffix in (".png", ".svg"))
    for file in paths:
        check_file_to_write(file, FIGURES, "a figure")
    return paths


def check_file_to_write(path: Path, suffixes: Sequence[str], parameter: str) -> None:
    """Check it before minutes of work, not after them."""
    if path.is_dir():
        raise InputError(f"{path} is a directory; give the name of a file in it")
    file_of(path, suffixes, parameter)
    if not path.parent.is_dir():
        raise InputError(f"there is no directory {path.parent}; create it first")
