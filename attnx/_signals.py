"""Ctrl-C, like every signal, waits while something of the caller's is being changed or put back.

Python runs a signal's handler between two instructions of the main thread, and most handlers raise. No context manager
written in Python can defend itself: the exception may come as the first thing in its `__exit__`, and nothing is put
back. So while an `Uninterruptible` block is open the handlers are wrapped. A signal that comes during the block's
`__enter__` or `__exit__` is noted, and handed to its own handler when they are done; at any other time it is handed on
at once. Where it came is read off the stack, which is right from the first instruction on. In other threads there is
nothing to do: no handler runs there.
"""

from __future__ import annotations

import functools
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import _GeneratorContextManager, suppress
from types import FrameType, TracebackType
from typing import Any, Generic, TypeAlias, TypeVar, overload

T = TypeVar("T")


def in_every_child(action: Callable[[], None]) -> None:
    """Do this in each process that is forked from now on, before anything else runs there."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=action)


class cached_property(functools.cached_property[T], Generic[T]):  # noqa: N801 - as Python's own
    """Python's own without its lock: in 3.11 it has one for all objects of a class, which a fork may leave taken.

    Two threads may compute a value twice, to the same result.
    """

    @overload
    def __get__(self, instance: None, owner: type[Any] | None = None) -> cached_property[T]: ...

    @overload
    def __get__(self, instance: object, owner: type[Any] | None = None) -> T: ...

    def __get__(self, instance: object | None, owner: type[Any] | None = None) -> cached_property[T] | T:
        if instance is None:
            return self
        kept: dict[str | None, T] = vars(instance)  # type: ignore[assignment]
        if self.attrname not in kept:
            kept[self.attrname] = self.func(instance)
        return kept[self.attrname]


Handler: TypeAlias = Callable[[int, FrameType | None], Any]

_open: dict[object, int] = {}
"""Blocks that are open in the main thread, and the thread."""
_handlers: dict[int, Handler] = {}
"""The caller's own handlers, while they are wrapped."""
_noted: list[int] = []
"""Signals that wait."""


class Uninterruptible(Generic[T]):
    """A block whose beginning and end are each done as a whole, whatever signals come meanwhile."""

    def _begin(self) -> T:
        raise NotImplementedError

    def _end(self) -> None:
        """Put everything back; also after a beginning that failed half-way, and when it is called again."""
        raise NotImplementedError

    def __enter__(self) -> T:
        # Inside the beginning or end of another block a signal waits until that one is done.
        waits = not _in_main_thread() or _at_an_edge(sys._getframe(1))
        try:
            if _in_main_thread():
                _open[self] = threading.get_ident()
                _wrap()
            result = self._begin()
            while _noted and not waits:
                _hand_over()
        except BaseException:
            self._leave()
            raise
        return result  # nothing was called since the last look at what is noted, so no handler can have run

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _finish_what_was_cut(traceback)
        self._leave()
        if _noted and _in_main_thread() and not _at_an_edge(sys._getframe(1)):
            _hand_over()

    def _leave(self) -> None:
        """End, and repeat it until it is through: a setter of what is put back may raise Ctrl-C by itself."""
        interrupt: KeyboardInterrupt | None = None
        done = False
        try:
            while not done:
                try:
                    self._end()
                    done = True
                except KeyboardInterrupt as raised:
                    interrupt = raised
        finally:
            self._close()
        if interrupt is not None:
            raise interrupt

    def _close(self) -> None:
        _open.pop(self, None)
        if not _open and _in_main_thread():
            _unwrap()


def uninterrupted(call: Callable[[], T]) -> T:
    """What `call` returns. A signal waits until it is through: for short work in libraries that swallow exceptions."""
    with _Once(call) as result:
        return result


class _Once(Uninterruptible[T]):
    def __init__(self, call: Callable[[], T]) -> None:
        self._begin = call  # type: ignore[method-assign]

    def _end(self) -> None:
        """Nothing is held."""


_EDGES = {Uninterruptible.__enter__.__code__, Uninterruptible.__exit__.__code__}
_EDGES_OF_GENERATORS = {_GeneratorContextManager.__enter__.__code__, _GeneratorContextManager.__exit__.__code__}


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _wrap() -> None:
    """Put ourselves before every handler that is written in Python. Each step can be repeated."""
    for number in range(1, signal.NSIG):
        own = signal.getsignal(number)
        if callable(own) and own is not _handle:
            _handlers[number] = own
            signal.signal(number, _handle)


def _unwrap() -> None:
    """The caller's own handlers again; one that was changed inside the block stays."""
    raised: BaseException | None = None
    while _handlers:
        try:
            number, own = next(iter(_handlers.items()))
            if signal.getsignal(number) is _handle:
                signal.signal(number, own)
            _handlers.pop(number, None)
        except BaseException as error:  # from a handler that is itself again, while others still wait
            raised = error
    if raised is not None:
        raise raised


def _handle(number: int, frame: FrameType | None) -> None:
    if _at_an_edge(frame):
        _noted.append(number)
    else:
        _own(number)(number, frame)


def _hand_over() -> None:
    """Call the own handler of each noted signal once, also when that of another one raises."""
    number = _noted.pop()
    _noted[:] = [index for index in _noted if index != number]
    try:
        _own(number)(number, sys._getframe())
    finally:
        if _noted:
            _hand_over()


def _own(number: int) -> Handler:
    own = _handlers.get(number, signal.getsignal(number))
    return own if callable(own) and own is not _handle else signal.default_int_handler


def _at_an_edge(frame: FrameType | None) -> bool:
    """Whether this frame is, or was called from, the beginning or the end of a block."""
    while frame is not None:
        if frame.f_code in _EDGES:
            return True
        frame = frame.f_back
    return False


def _finish_what_was_cut(traceback: TracebackType | None) -> None:
    """Close the generators of context managers whose own `__enter__` or `__exit__` a signal cut off.

    The traceback keeps them alive. They would end when it is dropped, long after this, and undo what is put back here:
    torch takes its mode off the stack and puts it on again in such a one.
    """
    for frame in reversed(list(_frames(traceback))):
        if frame.f_code in _EDGES_OF_GENERATORS:
            with suppress(Exception):
                frame.f_locals["self"].gen.close()


def _frames(traceback: TracebackType | None) -> Iterator[FrameType]:
    while traceback is not None:
        yield traceback.tb_frame
        traceback = traceback.tb_next


def _after_fork() -> None:
    """A child process that another thread than the main one forked has none of the main thread's blocks."""
    if any(thread != threading.get_ident() for thread in _open.values()):
        _open.clear()
        _noted.clear()
        _unwrap()


in_every_child(_after_fork)
