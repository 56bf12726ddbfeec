"""Change settings of an object that belongs to the caller, and give them back exactly.

This is the only place where attnx changes anything of a caller's model. Loans are counted: when two threads borrow the
same setting, the first one saves the original and the last one restores it, whatever the order in between.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import Any, TypeAlias

Setting: TypeAlias = tuple[object, str, Any]
"""An object, the name of its attribute, and the value that the attribute is to have for a while."""


@dataclass
class _Loan:
    owner: object
    original: Any
    borrowers: set[object]


_Key: TypeAlias = tuple[int, str]

_loans: dict[_Key, _Loan] = {}
_lock = Lock()


@contextmanager
def borrowed(settings: Iterable[Setting]) -> Iterator[None]:
    """Hold each attribute at its value inside the block; afterwards, also after an error, it is what it was."""
    borrower = object()
    taken: list[_Key] = []
    try:
        with _lock:
            for owner, name, value in settings:
                key = (id(owner), name)
                taken.append(key)
                _loans.setdefault(key, _Loan(owner, getattr(owner, name), set())).borrowers.add(borrower)
                setattr(owner, name, value)
        yield
    finally:
        _give_back(taken, borrower)


def _give_back(taken: list[_Key], borrower: object) -> None:
    """Return every loan, also when Ctrl-C comes meanwhile: each step can be repeated, and is until all is returned."""
    interrupt: KeyboardInterrupt | None = None
    while taken:
        try:
            with _lock:
                while taken:
                    loan = _loans.get(taken[-1])
                    if loan is not None:
                        loan.borrowers.discard(borrower)
                        if not loan.borrowers:
                            setattr(loan.owner, taken[-1][1], loan.original)
                            _loans.pop(taken[-1], None)
                    taken.pop()
        except KeyboardInterrupt as error:
            interrupt = error
    if interrupt is not None:
        raise interrupt
