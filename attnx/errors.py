"""Errors. Each message says what was expected, what was found, and what to change."""

from __future__ import annotations

import operator
from typing import Any

_MAX_LENGTH = 600
"""Characters. Messages quote what was found, which may be a whole file."""


LINE_BREAK = "⏎"
"""Stands for a line break in every view that shows a text on one line."""


class AttnxError(Exception):
    """The base of every error that attnx raises on purpose; the command line prints it in one line.

    >>> try:
    ...     attnx.explain(*attnx.load_demo(), "the keys", layer=7)
    ... except AttnxError as error:
    ...     print(error)
    layer 7 was requested, but the model has 6 layers (1 is closest to the input)
    """

    def __init__(self, message: str = "", *rest: object) -> None:
        if len(message) > _MAX_LENGTH:  # the end says what to change
            message = f"{message[: _MAX_LENGTH // 2]} … {message[-_MAX_LENGTH // 2 :]}"
        super().__init__(message, *rest)


class ArgumentError(AttnxError, TypeError):
    """An argument does not exist, or is of the wrong type."""


class InputError(AttnxError):
    """The text, image or tokenized input cannot be explained as it is."""


class ChoiceError(AttnxError, LookupError):
    """A layer, head, position, target or name does not exist."""


class CaptureError(AttnxError):
    """The model's attention could not be captured, or is not a layer × head × n × n tensor."""


class AttentionError(AttnxError, ValueError):
    """An array is not attention: wrong shape, negative, NaN, or rows that sum to more than 1."""


class CostError(AttnxError):
    """The computation would take more time or memory than is reasonable."""


class RegistryError(AttnxError):
    """An adapter or method was registered twice, or a plug-in could not be loaded."""


class FileFormatError(AttnxError, ValueError):
    """A file was not written by attnx, or by a version that this one cannot read."""


_NO_MEMORY = ("can't allocate memory", "cannot allocate memory", "defaultcpuallocator", "out of memory", "bad_alloc")
"""In the `RuntimeError` of torch and the `OSError` of the system."""


def out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out: of Python, of torch on any device, or in the cause of this error.

    Such an error says nothing about the input, which may run alone, later, or on another machine.
    """
    message = str(error).casefold()
    return (
        isinstance(error, MemoryError)
        or type(error).__name__ == "OutOfMemoryError"
        or (isinstance(error, (RuntimeError, OSError)) and any(words in message for words in _NO_MEMORY))
        or (error.__cause__ is not None and out_of_memory(error.__cause__))
    )


def first_line(error: BaseException) -> str:
    """The first line of an error's message, or its type if it has none."""
    return escaped(str(error).strip().split("\n")[0]) or type(error).__name__


def escaped(text: str) -> str:
    """The text with escapes for what UTF-8 cannot encode, such as bytes that were decoded wrongly."""
    return text.encode("utf-8", "backslashreplace").decode()


def in_a_line(error: BaseException) -> str:
    """An error in one line, with its type unless it is attnx's own."""
    line, kind = first_line(error), type(error).__name__
    return line if isinstance(error, AttnxError) or line == kind else f"{kind}: {line}"


def whole_number(name: str, value: Any, minimum: int | None = None) -> int:
    """A plain int of any whole number, numpy's too."""
    try:
        number = int(operator.index(value)) if not isinstance(value, bool) else int("")
    except (TypeError, ValueError):
        raise ChoiceError(f"{name} must be a whole number, found {value!r}") from None
    if minimum is not None and number < minimum:
        raise ChoiceError(f"{name} must be {minimum} or more, found {value!r}")
    return number


def how_many(count: Any) -> int:
    """The number of items that a list is cut to."""
    return whole_number("count", count, minimum=0)


def duration(seconds: float) -> str:
    """Seconds in words."""
    for size, name in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {name}"
    return f"{seconds:.0f} seconds"
