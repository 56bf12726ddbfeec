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
    borrowers: int


_loans: dict[tuple[int, str], _Loan] = {}
_lock = Lock()


@contextmanager
def borrowed(settings: Iterable[Setting]) -> Iterator[None]:
    """Hold each attribute at its value inside the block; afterwards, also after an error, it is what it was."""
    taken: list[tuple[int, str]] = []
    try:
        with _lock:
            for owner, name, value in settings:
                key = (id(owner), name)
                loan = _loans.setdefault(key, _Loan(owner, getattr(owner, name), 0))
                loan.borrowers += 1
                taken.append(key)
                setattr(owner, name, value)
        yield
    finally:
        with _lock:
            for key in reversed(taken):
                loan = _loans[key]
                loan.borrowers -= 1
                if loan.borrowers == 0:
                    setattr(loan.owner, key[1], loan.original)
                    del _loans[key]
