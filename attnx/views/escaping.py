"""Text from the input in formats that other programs read: it must not become a formula, a link or a table's edge."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Sequence
from typing import Any

from attnx.adapters import Position
from attnx.errors import LINE_BREAK

_JOINERS = "\u200c\u200d"
"""Zero-width joiner and non-joiner: emoji and Persian words are made with them, and they steer nothing."""
_LAYOUT = "\n\r\t\u00ad\u200e\u200f"
"""Lines, tabs, soft hyphens and the marks of a direction: in a page they do no harm."""
_STEERING = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))


def printable(text: str) -> str:
    """The text on one line, without characters that steer a terminal, turn the writing round, or cannot be written."""
    return "".join(LINE_BREAK if name == "\n" else "�" if steers(name) else name for name in text)


def token_label(position: Position, texts: Sequence[str]) -> str:
    """A token in a view of single tokens: as the tokenizer calls it, but white space by the symbols of all views."""
    from attnx.targets import visible  # imports torch, which the command line does without

    piece = position.piece(texts)
    return visible(piece) if piece and not piece.strip() else printable(position.token)


def printable_lines(text: str) -> str:
    """The same for a text of several lines, which stay."""
    return "\n".join(printable(line) for line in text.split("\n"))


def harmless(value: Any) -> Any:
    """A value for a page, lists and dictionaries included, whose texts neither turn it round nor cannot be written."""
    if isinstance(value, str):
        if value.isprintable():
            return value
        return "".join("�" if steers(one) and one not in _LAYOUT else one for one in value)
    if isinstance(value, dict):
        return {harmless(name): harmless(one) for name, one in value.items()}
    return [harmless(one) for one in value] if isinstance(value, list) else value


def isolated(text: str) -> str:
    """A word that is written from right to left, between marks that keep it from reordering its neighbours."""
    rightward = any(unicodedata.bidirectional(name) in ("R", "AL", "AN") for name in text)
    return f"\u2068{text}\u2069" if rightward else text


def steers(character: str) -> bool:
    """Whether a terminal or a reader would do something at this character, or it cannot be written at all."""
    return unicodedata.category(character) in _STEERING and character not in _JOINERS


_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""A spreadsheet computes a cell that begins so, with commands of the system if it is asked to."""
_MARKUP = re.compile(r"[\\`*\[\]<>|]|(?<!\w)_|_(?!\w)")


def csv_cell(value: Any) -> Any:
    """A cell of a CSV file: text that would be a formula begins with an apostrophe; numbers stay numbers."""
    if not isinstance(value, str):
        return value
    return f"'{printable(value)}" if value.lstrip(" ").startswith(_FORMULA) else printable(value)


def markdown_text(text: str) -> str:
    """Text that Markdown shows as it stands.

    >>> markdown_text("rollout | [a](b) <i> integrated_gradients")
    'rollout \\\\| \\\\[a\\\\](b) \\\\<i\\\\> integrated_gradients'
    """
    return _MARKUP.sub(r"\\\g<0>", printable(text))


_LATEX = {
    **{character: rf"\{character}" for character in "&%$#_{}"},
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
    return "".join(_LATEX.get(character, character) for character in printable(text))


def json_line(text: str) -> str:
    """The same JSON, with what would steer a terminal written as escapes; line breaks between its values stay."""
    return "".join(json.dumps(name)[1:-1] if name != "\n" and steers(name) else name for name in text)
