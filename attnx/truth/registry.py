"""The suites by name, those first that need nothing of the user."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnx.registry import Registry

if TYPE_CHECKING:
    from attnx.truth.suite import Suite

_BUILT_IN = ("recall", "documents", "dates", "subject", "patch", "question", "tone", "cues", "names", "faithfulness")
SUITES: Registry[Suite] = Registry(
    "suite",
    "attnx.truth.suite:Suite",
    {name: f"attnx.truth.suites.{name}:{name.upper()}" for name in _BUILT_IN},
)
