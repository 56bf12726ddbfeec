"""All references in the table of methods."""

from __future__ import annotations

from attnx.methods.listing import Listed
from attnx.references.reference import Reference
from attnx.references.registry import REFERENCES


def listed_references() -> tuple[Listed, ...]:
    """The rows of `REFERENCES`, in the order in which views show them."""
    return tuple(_row(REFERENCES[name]) for name in REFERENCES.names())


def _row(reference: Reference) -> Listed:
    return Listed(
        reference.name,
        "reference",
        "the answer",
        reference.needs,
        reference.costs,
        f"{reference.title} ({reference.paper})" if reference.paper else reference.title,
        long_inputs=True,
        heads=False,
    )
