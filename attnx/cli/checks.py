"""Mistakes in the arguments that need no model to be seen: told before torch is loaded, which takes seconds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attnx.errors import InputError


def check_asked(
    methods: Sequence[str] | str | None = None,
    references: Sequence[str] | None = None,
    *,
    model: str | None = None,
    measure: str | None = None,
    suites: Sequence[str] | None = None,
    **choices: Any,
) -> None:
    """Names of methods, references, measures and suites, a model's path, and what else `explain` takes."""
    from attnx.explaining.names import check_choices

    check_choices((methods,) if isinstance(methods, str) else methods, references, **choices)
    if measure is not None:
        from attnx.agreement.registry import MEASURES

        MEASURES.check(measure)
    if suites:
        from attnx.truth.registry import SUITES

        for suite in suites:
            SUITES.check(suite)
    if model is not None:
        from attnx.running.saved import saved_model
        from attnx.tasks.shipped import SHIPPED

        if model not in SHIPPED:
            saved_model(model)


def check_file(path: Path | None, option: str) -> None:
    """A file to read."""
    if path is not None and not path.is_file():
        raise InputError(f"there is no file {path}; give one with {option}")
