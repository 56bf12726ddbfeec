"""Where a command's result goes: the terminal, and a file in the format that its name asks for."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from attnx.errors import InputError

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, with all digits.")]
AsMarkdown = Annotated[bool, typer.Option("--markdown", help="Print Markdown.")]
TableOutput = Annotated[Path | None, typer.Option("--output", help="Also write to a file: .json, .md, or plain text.")]


def check_output(output: Path | None) -> None:
    """Before minutes of work, not after them."""
    if output is not None and not output.parent.is_dir():
        raise InputError(f"there is no directory {output.parent}; make it first")
    if output is not None and output.is_dir():
        raise InputError(f"{output} is a directory; give the name of a file in it")


def show(table: Any, as_json: bool, as_markdown: bool, output: Path | None) -> None:
    """Write a table where the user asked, and print it: in that order, for whoever reads the print may hang up."""
    if output is not None:
        output.write_text(_written(table, output.suffix).rstrip("\n") + "\n", encoding="utf-8")
    print(table.to_json() if as_json else table.markdown() if as_markdown else table.text())


def say(notes: Iterable[str]) -> None:
    """On standard error, where it is in nobody's way."""
    for note in notes:
        print(f"attnx: {note}", file=sys.stderr)


def _written(table: Any, suffix: str) -> str:
    """In the format that a file's name asks for, as far as the table has it; else as plain text."""
    if suffix == ".html" and hasattr(table, "_repr_html_"):
        from attnx.render.html import to_html

        return to_html(table)
    forms = {".json": "to_json", ".md": "markdown", ".csv": "to_csv"}
    written: str = getattr(table, forms.get(suffix, "text"), table.text)()
    return written
