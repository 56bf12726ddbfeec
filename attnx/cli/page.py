"""The page of `attnx explain --html`, for which more is computed than for the terminal."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from attnx.errors import AttnxError, InputError

REFERENCES = ("gradient", "blankout")
"""What a page holds its methods against where nothing was asked for."""
MAPS_UP_TO = 128
"""Positions of a text whose rows are all kept; the flow of all rows of a longer one would take minutes."""


def check_page(path: Path | None) -> None:
    """Before anything is computed."""
    if path is None:
        return
    if path.suffix not in (".html", ".htm"):
        raise InputError(f"--html takes a file that ends in .html, found {path.name!r}")
    if not path.parent.is_dir():
        raise InputError(f"there is no directory {path.parent}; make it first")


def write_page(path: Path, model: Any, tokenizer: Any, text: Any, explanation: Any, options: dict[str, Any]) -> None:
    """Explain once more with references, and with the rows of all words that may be clicked on."""
    from attnx.explain import explain

    maps = options["head"] != "each" and len(explanation.positions) <= MAPS_UP_TO
    references = options["references"] or (REFERENCES if explanation.prediction is not None else ())
    try:
        shown = explain(model, tokenizer, text, **options | {"references": references, "maps": maps})
    except AttnxError as error:
        if options["references"]:
            raise
        print(f"attnx: the page has no references: {error}", file=sys.stderr)
        shown = explain(model, tokenizer, text, **options | {"maps": maps})
    shown.to_html(path)
