"""Text as it may be shown: it comes from the user's input, and the input is anybody's."""

from __future__ import annotations

import unicodedata

_JOINERS = "\u200c\u200d"
"""Zero-width joiner and non-joiner: emoji and Persian words are made with them, and they steer nothing."""
_STEERING = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))


def printable(text: str) -> str:
    """The text on one line, without characters that steer a terminal, turn the writing round, or cannot be written."""
    return "".join("␤" if one == "\n" else "�" if _steers(one) else one for one in text)


def isolated(text: str) -> str:
    """A word that is written from right to left, between marks that keep it from reordering its neighbours."""
    rightward = any(unicodedata.bidirectional(one) in ("R", "AL", "AN") for one in text)
    return f"\u2068{text}\u2069" if rightward else text


def _steers(character: str) -> bool:
    return unicodedata.category(character) in _STEERING and character not in _JOINERS
