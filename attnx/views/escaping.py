"""Escape text from the input for terminals, pages, CSV, Markdown and JSON, where it must not become code or layout."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Sequence
from typing import Any

from attnx.adapters import Position
from attnx.errors import LINE_BREAK

_JOINERS = "\u200c\u200d"
"""Zero-width joiner and non-joiner: emoji and Persian words need them, and they control nothing."""
_LAYOUT = "\n\r\t\u00ad\u200e\u200f"
"""Lines, tabs, soft hyphens and direction marks, which are harmless in a page."""
_CONTROL = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))


def printable(text: str) -> str:
    """The text on one line, without characters that control a terminal, reverse the direction, or cannot be encoded."""
    return "".join(LINE_BREAK if char == "\n" else "�" if is_control(char) else char for char in text)


def token_label(position: Position, texts: Sequence[str]) -> str:
    """A token by its name in the tokenizer, but white space by visible symbols."""
    from attnx.targets import visible  # imports torch, which the command line does without

    piece = position.piece(texts)
    return visible(piece) if piece and not piece.strip() else printable(position.token)


def printable_lines(text: str) -> str:
    """The same, but line breaks stay."""
    return "\n".join(printable(line) for line in text.split("\n"))


def harmless(value: Any) -> Any:
    """A value for a page, lists and dictionaries included, without control characters in its texts."""
    if isinstance(value, str):
        if value.isprintable():
            return value
        return "".join("�" if is_control(char) and char not in _LAYOUT else char for char in value)
    if isinstance(value, dict):
        return {harmless(key): harmless(item) for key, item in value.items()}
    return [harmless(item) for item in value] if isinstance(value, list) else value


def isolated(text: str) -> str:
    """A right-to-left word between marks that keep it from reordering its neighbours."""
    rightward = any(unicodedata.bidirectional(char) in ("R", "AL", "AN") for char in text)
    return f"\u2068{text}\u2069" if rightward else text


def is_control(char: str) -> bool:
    """Whether a character controls a terminal or the direction of text, or cannot be encoded."""
    return unicodedata.category(char) in _CONTROL and char not in _JOINERS


_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""A spreadsheet evaluates cells that begin so, which may run system commands."""
_MARKUP = re.compile(r"[\\`*\[\]<>|]|(?<!\w)_|_(?!\w)")


def csv_cell(value: Any) -> Any:
    """A cell of a CSV file: an apostrophe precedes text that would be a formula; numbers stay numbers."""
    if not isinstance(value, str):
        return value
    return f"'{printable(value)}" if value.lstrip(" ").startswith(_FORMULA) else printable(value)


def markdown_text(text: str) -> str:
    """Text that Markdown shows literally.

    >>> markdown_text("rollout | [a](b) <i> integrated_gradients")
    'rollout \\\\| \\\\[a\\\\](b) \\\\<i\\\\> integrated_gradients'
    """
    return _MARKUP.sub(r"\\\g<0>", printable(text))


_LATEX = {
    **{char: rf"\{char}" for char in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": "$<$",
    ">": "$>$",
    "−": "$-$",
    "–": "--",
    "…": r"\dots{}",
    "×": r"$\times$",
    "±": r"$\pm$",
    "→": r"$\rightarrow$",
    "↑": r"$\uparrow$",
    "↓": r"$\downarrow$",
    "∂": r"$\partial$",
    "Σ": r"$\Sigma$",
}


def latex_text(text: str) -> str:
    """Text that LaTeX prints as it stands.

    >>> latex_text("attn_lrp ↓ −.05 & 95 %")
    'attn\\\\_lrp $\\\\downarrow$ $-$.05 \\\\& 95 \\\\%'
    """
    return "".join(_LATEX.get(char, char) for char in printable(text))


def json_line(text: str) -> str:
    """The same JSON with control characters escaped; line breaks between its values stay."""
    return "".join(json.dumps(char)[1:-1] if char != "\n" and is_control(char) else char for char in text)
