"""An explanation as plain text: for files, pipes, and terminals without colours."""

from __future__ import annotations

from rich.cells import cell_len

from attnx.explanation import Explanation
from attnx.render.caption import answer, cautions, row_name, seen_from
from attnx.render.printable import isolated
from attnx.render.word_rows import layer_rows, named_rows

_BAR = 24
_COLUMN = 8


def plain(explanation: Explanation, method: str | None = None, layer: int | None = None) -> str:
    """One line a word: its score and a bar."""
    name = method or explanation.default_method
    rows = named_rows(explanation, [name], layer)
    words = _column(rows.words)
    lines = [_answered(explanation) + row_name(explanation, name, layer)]
    for word, score, share in zip(words, rows.scores[0], rows.shares[0], strict=True):
        lines.append(f"{word}  {score:.4f}  {'█' * round(_BAR * max(share, 0))}".rstrip())
    return "\n".join([*lines, *cautions(explanation, [name], layer)])


def plain_layers(explanation: Explanation, method: str | None = None, width: int | None = None) -> str:
    """One line a word, one column a layer; what is wider than `width` goes on below."""
    name = method or explanation.default_method
    rows = layer_rows(explanation, name)
    first, *words = _column(("layer", *rows.words))
    scores = rows.scores[::-1].T
    at_once = len(explanation.layers) if width is None else max((width - cell_len(first)) // _COLUMN, 1)
    blocks = [f"{_answered(explanation)}{name}, {seen_from(explanation)}"]
    for start in range(0, len(explanation.layers), at_once):
        part = slice(start, start + at_once)
        lines = [first + "".join(f"{layer:>{_COLUMN}}" for layer in explanation.layers[part])]
        lines += [
            word + "".join(f"{score:{_COLUMN}.4f}" for score in row[part])
            for word, row in zip(words, scores, strict=True)
        ]
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def _column(words: tuple[str, ...]) -> list[str]:
    """Words padded to the widest, in the cells of a terminal."""
    width = max(map(cell_len, words), default=0)
    return [isolated(word) + " " * (width - cell_len(word)) for word in words]


def _answered(explanation: Explanation) -> str:
    return f"prediction: {answer(explanation)} · " if explanation.prediction else ""
