"""How decoders may be treated fairly, by name; `receptive_field` says what each does."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from attnx.errors import ChoiceError
from attnx.registry import unknown

Normalize: TypeAlias = Literal["receptive_field", "prefix", "column"]
NORMALIZATIONS = ("receptive_field", "prefix", "column")

Normalization: TypeAlias = Normalize | Literal["auto"] | None
"""As a caller of `explain` says it: "auto" is "prefix" for causal attention and nothing for other."""


def check_normalize(normalize: Any) -> Normalize | None:
    """A name of the above, or None."""
    return _one_of(normalize, NORMALIZATIONS)  # type: ignore[no-any-return]


def check_normalization(normalize: Any) -> Normalization:
    """The same, or "auto"."""
    return _one_of(normalize, ("auto", *NORMALIZATIONS))  # type: ignore[no-any-return]


def _one_of(normalize: Any, known: tuple[str, ...]) -> Any:
    if normalize not in (None, *known):
        raise ChoiceError(unknown("normalize", normalize, known) + "; None leaves it out")
    return normalize
