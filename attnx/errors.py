"""What attnx raises. Each message says what was expected, what was found, and what to change."""

from __future__ import annotations

import operator
from typing import Any

_LONGEST = 600
"""Characters. Messages quote what was found, and that may be a whole file."""


class AttnxError(Exception):
    """The base of every error that attnx raises on purpose; the command line prints it in one line.

    >>> try:
    ...     attnx.explain(*attnx.load_demo(), "the keys", layer=7)
    ... except AttnxError as error:
    ...     print(error)
    layer 7 asked, model has 6 (1 is next to the input)
    """

    def __init__(self, message: str = "", *rest: object) -> None:
        if len(message) > _LONGEST:  # the end says what to change
            message = f"{message[: _LONGEST // 2]} … {message[-_LONGEST // 2 :]}"
        super().__init__(message, *rest)


class ArgumentError(AttnxError, TypeError):
    """An argument that does not exist was given, or one of another kind."""


class InputError(AttnxError):
    """The text, image or tokenised input cannot be explained as it is."""


class ChoiceError(AttnxError, LookupError):
    """A layer, head, position, target or name was asked for that does not exist."""


class CaptureError(AttnxError):
    """The model's attention could not be seen, or what was seen is not a layer × head × n × n tensor."""


class AttentionError(AttnxError, ValueError):
    """An array is not attention: wrong shape, negative, NaN, or rows that sum to more than 1."""


class CostError(AttnxError):
    """What was asked would take longer, or more memory, than anyone waits for."""


class RegistryError(AttnxError):
    """An adapter or method was registered twice, or a plug-in could not be loaded."""


class FileFormatError(AttnxError, ValueError):
    """A file is not what attnx wrote, or is of a version that this attnx does not read."""


_NO_MEMORY = (
    "can't allocate memory",
    "cannot allocate memory",
    "DefaultCPUAllocator",
    "out of memory",
    "std::bad_alloc",
)
"""What torch says in a plain `RuntimeError`, and the system in an `OSError`."""


def out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out: of Python, of torch on any device, or beneath an error that was raised from one of these.

    Such an error says nothing about the input, which may run alone, later, or on another machine.
    """
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    message = str(error).casefold()
    if isinstance(error, (RuntimeError, OSError)) and any(words.casefold() in message for words in _NO_MEMORY):
        return True
    return error.__cause__ is not None and out_of_memory(error.__cause__)


def first_line(error: BaseException) -> str:
    """What an error says, in a line; of one that says nothing its kind."""
    return escaped(str(error).strip().split("\n")[0]) or type(error).__name__


def escaped(text: str) -> str:
    """The text with escapes for what UTF-8 cannot write, such as bytes that were decoded wrongly."""
    return text.encode("utf-8", "backslashreplace").decode()


def in_a_line(error: BaseException) -> str:
    """What attnx says stands by itself; of what others raise the kind is half of the message."""
    line, kind = first_line(error), type(error).__name__
    return line if isinstance(error, AttnxError) or line == kind else f"{kind}: {line}"


def whole_number(name: str, value: Any) -> int:
    """A plain int of any whole number, numpy's too."""
    try:
        return int(operator.index(value)) if not isinstance(value, bool) else int("")
    except (TypeError, ValueError):
        raise ChoiceError(f"{name} must be a whole number, found {value!r}") from None


def how_many(count: Any) -> int:
    """How many of a list are asked for: a whole number from 0."""
    if whole_number("count", count) < 0:
        raise ChoiceError(f"count must be 0 or more, found {count!r}")
    return whole_number("count", count)


def duration(seconds: float) -> str:
    """As people say it."""
    for size, name in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {name}"
    return f"{seconds:.0f} seconds"
