"""A result that is made of explanations, which files keep by their numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from attnx.results.explanation import Explanation
from attnx.results.result import Result


@dataclass(frozen=True, eq=False)
class OfExplanations(Result):
    """What such kinds have in common."""

    explanations: tuple[Explanation, ...]

    def _saved(self) -> dict[str, Any]:
        own = {str(number): one._saved() for number, one in enumerate(self.explanations)}
        return super()._saved() | {"explanations": own}

    @classmethod
    def _fields_of(cls, data: Mapping[str, Any]) -> dict[str, Any]:
        told = super()._fields_of(data)
        if isinstance(own := told.get("explanations"), Mapping):
            told["explanations"] = [
                Explanation._fields_of(one) if isinstance(one, Mapping) else one for one in own.values()
            ]
        return told
