"""What a page is of: any results, of which the explanations can be picked and looked at one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from attnx.errors import InputError
from attnx.render.page.content import content
from attnx.results.explanation import Explanation, compared_over
from attnx.results.of_explanations import OfExplanations
from attnx.results.result import Result
from attnx.results.units import rank_correlation

R = TypeVar("R", bound=Result)


@dataclass(frozen=True, eq=False)
class Shown:
    """The results of one page, as its sections read them."""

    results: tuple[Result, ...]
    explanations: tuple[Explanation, ...]
    """Those among the results."""
    contents: list[dict[str, Any]]
    """What all sections know of each explanation."""
    rest: tuple[Result, ...] = ()
    """Those that no section is made for."""
    content_only: bool = False
    """Whether punctuation is left out at first."""
    player: bool = False
    """Whether sound can be heard."""

    @classmethod
    def of(
        cls, results: Any, kinds: tuple[type[Result], ...] = (), content_only: bool = False, player: bool = False
    ) -> Shown:
        """`kinds` are those that sections are made for."""
        several: Sequence[Any] = results if isinstance(results, (list, tuple)) else [results]
        if not several or not all(isinstance(one, Result) for one in several):
            found = ", ".join(dict.fromkeys(type(one).__name__ for one in several)) or "none"
            raise InputError(
                "a page shows explanations, a comparison, a head atlas, faithfulness, or any other results of attnx; "
                f"found {found}"
            )
        named = [pair for one in several for pair in _explanations(one)]
        explanations = tuple(explanation for _, explanation in named)
        contents = content(explanations)
        for own, (title, _) in zip(contents, named, strict=True):
            own["title"] = f"{title}: {own['title']}" if title else own["title"]
        rest = tuple(one for one in several if not isinstance(one, kinds))
        return cls(tuple(several), explanations, contents, rest, content_only, player)

    def only(self, kind: type[R]) -> R | None:
        """The one result of a kind; several would need a place each."""
        found = [one for one in self.results if isinstance(one, kind)]
        if len(found) > 1:
            raise InputError(f"a page shows explanations, and one {kind.kind}; found {len(found)}: give each its page")
        return found[0] if found else None


def _explanations(result: Result) -> list[tuple[str, Explanation]]:
    """Those of a result, each with what it is called there; "" where its text tells."""
    if isinstance(result, OfExplanations):
        numbered = [f"text {number}" for number in range(1, len(result.explanations) + 1)]
        return list(zip(getattr(result, "titles", numbered), result.explanations, strict=True))
    return [("", result)] if isinstance(result, Explanation) else []


def correlation(explanation: Explanation, name: str, other: str, layer: int) -> float:
    """Spearman's of two methods at a layer, or of one with a reference; NaN where undefined."""
    digits = explanation.digits
    found = rank_correlation(
        explanation.scores(name, layer),
        explanation.scores(other, layer),
        compared_over(explanation, name, other),
        digits.get(name),
        digits.get(other),
        both_signed={name, other} <= explanation.signed,
    )
    return float(found)
