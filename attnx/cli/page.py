"""The page of `attnx explain --html`, for which more is computed than for the terminal."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from attnx.cli.output import check_output
from attnx.errors import AttnxError, InputError

REFERENCES = ("gradient", "blankout")
"""What a page holds its methods against where nothing was asked for."""
SHORT = 128
"""Positions. The flow of all rows of a longer text takes minutes, and so does blank-out, a run for each position."""


def check_page(path: Path | None) -> None:
    """Before anything is computed."""
    if path is None:
        return
    if path.suffix not in (".html", ".htm"):
        raise InputError(f"--html takes a file that ends in .html, found {path.name!r}")
    check_output(path)


def write_page(path: Path, model: Any, tokenizer: Any, text: Any, explanation: Any, options: dict[str, Any]) -> None:
    """Explain once more with references, and with the rows of all words that may be clicked on."""
    from attnx.explain import explain

    short = len(explanation.positions) <= SHORT
    maps = short and options["head"] != "each"
    usual = REFERENCES if short else REFERENCES[:1]
    references = options["references"] or (usual if explanation.prediction is not None else ())
    try:
        shown = explain(model, tokenizer, text, **options | {"references": references, "maps": maps})
    except AttnxError as error:
        if options["references"]:
            raise
        print(f"attnx: the page has no references: {error}", file=sys.stderr)
        shown = explain(model, tokenizer, text, **options | {"maps": maps})
    shown.to_html(path)
