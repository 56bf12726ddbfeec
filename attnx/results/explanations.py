"""Several explanations, as `explain` gives them for a list of texts: a list that a notebook shows as one page."""

from __future__ import annotations

from os import PathLike
from typing import Any

from attnx.results.explanation import Explanation


class Explanations(list[Explanation]):
    """A list like any other; as the last line of a notebook's cell it is a page with a picker."""

    def to_html(self, path: str | PathLike[str] | None = None, **options: Any) -> str | None:
        """One page for all, as `attnx.to_html(list)`."""
        page: str | None = self[0]._view.html(self, path, **options) if self else ""
        return page

    def _repr_html_(self) -> str | None:
        """What a notebook shows; of an empty list what it writes."""
        return self[0]._view.notebook(self) if self else None
