"""An explanation in the terminal: the words of the text on a background that is the stronger the more they matter."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

from attnx.explanation import Explanation, WordScore

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

_STRONG = (198, 88, 0)


def plain(explanation: Explanation, method: str | None = None, layer: int | None = None) -> str:
    """Without colours: one line a word, its score and a bar."""
    from rich.cells import cell_len, set_cell_size

    words = explanation.by_word(method, layer)
    most = max((word.score for word in words), default=0.0)
    width = max((cell_len(printable(word.text)) for word in words), default=0)
    lines = [_headline(explanation, method, layer)]
    for word in words:
        bar = "█" * round(24 * _share(word.score, most))
        lines.append(f"{set_cell_size(printable(word.text), width)}  {word.score:.4f}  {bar}".rstrip())
    return "\n".join([*lines, _special_share(explanation, method, layer)])


def coloured(explanation: Explanation, method: str | None = None, layer: int | None = None) -> RenderableType:
    """For rich: a headline, the text as a heat map, and the words that matter most."""
    from rich.console import Group
    from rich.text import Text

    words = explanation.by_word(method, layer)
    best = ", ".join(f"{printable(word.text)} {word.score:.3f}" for word in explanation.top(5, method, layer))
    parts: list[RenderableType] = [Text(_headline(explanation, method, layer), style="bold"), Text()]
    parts += [_heat_map(words), Text(), _legend(words), Text(f"most relevant: {best}")]
    return Group(*parts, Text(_special_share(explanation, method, layer), style="dim"))


def _headline(explanation: Explanation, method: str | None, layer: int | None) -> str:
    name = method or explanation.default_method
    layer = explanation.layers[-1] if layer is None else layer
    explained = explanation.positions[explanation.position].token
    answer = f"prediction: {explanation.prediction} · " if explanation.prediction else ""
    if name in explanation.references:
        return f"{answer}{name}, measured on the model"
    return f"{answer}{name} at layer {layer} · explained position {explanation.position} {explained}"


def _special_share(explanation: Explanation, method: str | None, layer: int | None) -> str:
    scores = explanation.scores(method, layer)
    special = abs(scores[[one.index for one in explanation.positions if one.special]]).sum()
    share = special / abs(scores).sum() if scores.any() else 0.0
    return f"special tokens hold {share:.0%} of the relevance; colours are scaled to the words"


def _heat_map(words: list[WordScore]) -> Text:
    from rich.text import Text

    most = max((word.score for word in words), default=0.0)
    line = Text()
    for word in words:
        line.append(f" {printable(word.text)} ", style=_style(_share(word.score, most)))
        line.append(" ")
    return line


def _legend(words: list[WordScore]) -> Text:
    from rich.text import Text

    most = max((word.score for word in words), default=0.0)
    line = Text("0 ")
    for step in range(9):
        line.append("   ", style=_style(step / 8))
    return line.append(f" {most:.3f}")


def _style(share: float) -> str:
    """White to orange: told apart by lightness alone, so it reads the same to the colour-blind."""
    red, green, blue = (round(255 + share * (strong - 255)) for strong in _STRONG)
    return f"#{'ffffff' if share > 0.75 else '000000'} on rgb({red},{green},{blue})"


def _share(score: float, most: float) -> float:
    return max(score, 0.0) / most if most > 0 else 0.0


def printable(text: str) -> str:
    """A word without characters that steer a terminal: they come from the text, and the text is anybody's."""
    return "".join(
        "␤"
        if one == "\n"
        else "�"
        if unicodedata.category(one) in ("Cc", "Cf", "Zl", "Zp") and one != "\u200d"
        else one
        for one in text
    )
