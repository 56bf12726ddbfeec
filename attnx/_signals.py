"""Ctrl-C, like every signal, waits while something of the caller's is being changed or restored.

Python runs a signal's handler between two instructions of the main thread, and most handlers raise. No context manager
written in Python can defend itself: the exception may come as the first thing in its `__exit__`, and nothing is
restored. So while an `Uninterruptible` block is open the handlers are wrapped. A signal that arrives during the block's
`__enter__` or `__exit__` is deferred until they are done; at any other time it is passed on at once. Where it arrived
is read off the stack, which is right from the first instruction on. In other threads there is nothing to do: no handler
runs there.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import _GeneratorContextManager, suppress
from traceback import walk_tb
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

T = TypeVar("T")


def in_every_child(action: Callable[[], None]) -> None:
    """Run this in each process that is forked from now on, before anything else runs there."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=action)


if TYPE_CHECKING or sys.version_info >= (3, 12):
    from functools import cached_property as cached_property
else:

    class cached_property:  # noqa: N801
        """Python's own, without the lock that it has in 3.11: a fork may leave that taken."""

        def __init__(self, function: Callable[[Any], Any]) -> None:
            self.function, self.__doc__ = function, function.__doc__

        def __set_name__(self, owner: type[Any], name: str) -> None:
            self.name = name

        def __get__(self, instance: Any, owner: type[Any] | None = None) -> Any:
            if instance is None:
                return self
            value = vars(instance)[self.name] = self.function(instance)
            return value


Handler: TypeAlias = Callable[[int, FrameType | None], Any]

_open: dict[object, int] = {}
"""Blocks that are open in the main thread, and the thread's identifier."""
_handlers: dict[int, Handler] = {}
"""The caller's handlers, while they are wrapped."""
_deferred: list[int] = []
"""Signals that wait."""


class Uninterruptible(Generic[T]):
    """A block whose beginning and end are each done as a whole, whatever signals arrive meanwhile."""

    def _begin(self) -> T:
        raise NotImplementedError

    def _end(self) -> None:
        """Restore everything; also after a beginning that failed half-way, and when it is called again."""
        raise NotImplementedError

    def __enter__(self) -> T:
        # Inside the beginning or end of another block a signal waits until that one is done.
        waits = not _in_main_thread() or _at_an_edge(sys._getframe(1))
        try:
            if _in_main_thread():
                _open[self] = threading.get_ident()
                _wrap_handlers()
            result = self._begin()
            while _deferred and not waits:
                _deliver()
        except BaseException:
            self._leave()
            raise
        return result  # nothing was called since the last look at what is deferred, so no handler can have run

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _close_interrupted_generators(traceback)
        self._leave()
        if _deferred and _in_main_thread() and not _at_an_edge(sys._getframe(1)):
            _deliver()

    def _leave(self) -> None:
        """End, again where Ctrl-C interrupted it: a setter of what is restored may raise it."""
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
            _open.pop(self, None)
            if not _open and _in_main_thread():
                _unwrap_handlers()
        if interrupt is not None:
            raise interrupt


def uninterrupted(call: Callable[[], T]) -> T:
    """Return `call()`; signals wait until it is through: for short work in libraries that swallow exceptions."""
    with _Uninterrupted(call) as result:
        return result


class _Uninterrupted(Uninterruptible[T]):
    def __init__(self, call: Callable[[], T]) -> None:
        self._begin = call  # type: ignore[method-assign]

    def _end(self) -> None:
        """Nothing is to be restored."""


_EDGES = {Uninterruptible.__enter__.__code__, Uninterruptible.__exit__.__code__}
_GENERATOR_EDGES = {_GeneratorContextManager.__enter__.__code__, _GeneratorContextManager.__exit__.__code__}


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _wrap_handlers() -> None:
    """Put `_handle` before every handler that is written in Python. Each step can be repeated."""
    for number in range(1, signal.NSIG):
        handler = signal.getsignal(number)
        if callable(handler) and handler is not _handle:
            _handlers[number] = handler
            signal.signal(number, _handle)


def _unwrap_handlers() -> None:
    """Restore the caller's handlers, but for one that was changed inside the block."""
    raised: BaseException | None = None
    while _handlers:
        try:
            number, handler = next(iter(_handlers.items()))
            if signal.getsignal(number) is _handle:
                signal.signal(number, handler)
            _handlers.pop(number, None)
        except BaseException as error:  # from a handler that is restored, while others still wait
            raised = error
    if raised is not None:
        raise raised


def _handle(number: int, frame: FrameType | None) -> None:
    if _at_an_edge(frame):
        _deferred.append(number)
    else:
        _handler(number)(number, frame)


def _deliver() -> None:
    """Call the handler of each deferred signal once, also when that of another one raises."""
    number = _deferred.pop()
    _deferred[:] = [other for other in _deferred if other != number]
    try:
        _handler(number)(number, sys._getframe())
    finally:
        if _deferred:
            _deliver()


def _handler(number: int) -> Handler:
    handler = _handlers.get(number, signal.getsignal(number))
    return handler if callable(handler) and handler is not _handle else signal.default_int_handler


def _at_an_edge(frame: FrameType | None) -> bool:
    """Whether this frame is, or was called from, the beginning or the end of a block."""
    while frame is not None:
        if frame.f_code in _EDGES:
            return True
        frame = frame.f_back
    return False


def _close_interrupted_generators(traceback: TracebackType | None) -> None:
    """Close the generators of context managers whose `__enter__` or `__exit__` a signal interrupted.

    The traceback keeps them alive. They would end when it is dropped, long after this, and undo what is restored here:
    torch pops its mode off a stack and pushes it again in such a generator.
    """
    for frame, _ in reversed(list(walk_tb(traceback))):
        if frame.f_code in _GENERATOR_EDGES:
            with suppress(Exception):
                frame.f_locals["self"].gen.close()


def _after_fork() -> None:
    """A child process that another thread than the main one forked has none of the main thread's blocks."""
    if any(thread != threading.get_ident() for thread in _open.values()):
        _open.clear()
        _deferred.clear()
        _unwrap_handlers()


in_every_child(_after_fork)
