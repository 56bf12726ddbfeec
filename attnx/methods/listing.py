"""All methods in a table: what each is about, what it needs and costs, and where it is from."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from attnx.methods.method import Method
from attnx.methods.registry import METHODS


@dataclass(frozen=True)
class Listed:
    """One row."""

    name: str
    kind: str
    """A method reads a graph; a reference is measured on the model itself."""
    about: str
    needs: tuple[str, ...]
    """What capturing brings beside attention, and whether there must be an answer."""
    costs: str
    says: str
    """In a line, what it is and where it is from."""
    long_inputs: bool
    """Whether no whole map is held, so that it runs on thousands of positions."""
    heads: bool
    """Whether single heads can be asked for."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def listed_methods() -> tuple[Listed, ...]:
    """The rows of `METHODS`, in the order in which views show them."""
    return tuple(_row(METHODS[name]) for name in METHODS.names())


def _row(method: Method) -> Listed:
    weighting = method.edges
    needs = (*sorted(weighting.needs), *(("a head that answers",) if method.about_answer else ()))
    read = "; one more for each answer" if method.reading == "share" else ""
    search = "; a search that grows with the cube of the length" if method.seconds is not None else ""
    return Listed(
        method.name,
        "method",
        "the answer" if method.about_answer else weighting.about,
        needs,
        weighting.costs + read + search,
        f"{method.title} ({method.paper})" if method.paper else method.title,
        long_inputs=method.by_rows and weighting.by_rows,
        heads=weighting.per_head,
    )
