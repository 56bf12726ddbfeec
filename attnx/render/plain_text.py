"""An explanation as plain text: for files, pipes, and terminals without colours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from rich.cells import cell_len

from attnx.render.printable import isolated, printable
from attnx.render.word_rows import layer_rows, named_rows
from attnx.results.explanation import Explanation

_BAR = 24
_COLUMN = 8


def plain(explanation: Explanation, method: str | None = None, layer: int | None = None) -> str:
    """One line a word: its score and a bar."""
    name = explanation.row_name(method, layer)
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


def patch_table(explanation: Explanation, method: str | None = None, layer: int | None = None, count: int = 10) -> str:
    """A headline, and the best patches with their place in the image, their score and a bar."""
    name = explanation.row_name(method, layer)
    scores = explanation.scores(name, layer)
    patches = [one for one in explanation.positions if not one.special]
    best = sorted(patches, key=lambda one: -abs(round(float(scores[one.index]), 9)))[:count]
    most = max((abs(float(scores[one.index])) for one in best), default=0.0)
    at = "" if name in explanation.references else f" at layer {explanation.layers[-1] if layer is None else layer}"
    explained = printable(explanation.positions[explanation.position].token)
    lines = [f"{_answered(explanation)}{name}{at} · explained position {explanation.position} {explained}"]
    lines.append(f"best {len(best)} of {len(patches)} patches; r0c0 is at the top left, places are in pixels")
    for one in best:
        place = "not in the image" if one.box is None else "{:.0f}, {:.0f} to {:.0f}, {:.0f}".format(*one.box)
        score = float(scores[one.index])
        bar = "█" * round(_BAR * abs(score) / most) if most > 0 else ""
        lines.append(f"{one.token:<8}{place:<26}{score:>8.4f}  {bar}".rstrip())
    return "\n".join(lines)


def answer(explanation: Explanation) -> str:
    """The prediction with its probability; nothing for a model without a head."""
    return printable(str(explanation.prediction)) if explanation.prediction else ""


def seen_from(explanation: Explanation) -> str:
    return f"as seen from {printable(explanation.positions[explanation.position].token)}"


def row_name(explanation: Explanation, method: str | None, layer: int | None, head: int | None = None) -> str:
    """Which row of an explanation this is, in words."""
    name = explanation.row_name(method, layer, head)
    if name in explanation.references:
        return f"{name}, measured on the model"
    layer = explanation.layers[-1] if layer is None else layer
    alone = "" if head is None else f", head {head}"
    return f"{name} at layer {layer}{alone}, {seen_from(explanation)}"


def cautions(explanation: Explanation, names: Sequence[str], layer: int | None = None) -> list[str]:
    """What the words do not show: the share of special tokens, ties, and which rows are no attention."""
    special = [one.index for one in explanation.positions if one.special]
    measured = [name for name in names if name in explanation.references]
    blanked = partial(blanked_name, explanation.provenance)
    rows = {name: explanation.scores(name, layer) for name in names if name not in measured}
    held = [f"{row[special].sum() / row.sum():.0%} of {name}" for name, row in rows.items() if row.sum() > 0]
    ties = {name: explanation.tied(name, layer) for name in rows}
    return [
        *([f"special tokens hold {', '.join(held)}"] if special and held else []),
        *(
            f"{tied:.0%} of the positions tie in {name}: their order means nothing"
            for name, tied in ties.items()
            if tied
        ),
        *([f"measured on the model, not attention: {', '.join(map(blanked, measured))}"] if measured else []),
        *(f"{name}: {printable(account)}" for name, account in accounts(explanation, names)),
    ]


def blanked_name(provenance: Mapping[str, Any], reference: str) -> str:
    """A reference, and with what it blanks if it does: another blank gives other numbers."""
    blank = provenance.get("references", {}).get(reference, {}).get("blank")
    return reference if blank is None else f"{reference} (blanked with {printable(str(blank))})"


def accounts(explanation: Explanation, names: Sequence[str]) -> list[tuple[str, str]]:
    """What the scores of a reference or a method add up to, where it says so."""
    facts = {**explanation.provenance.get("methods", {}), **explanation.provenance.get("references", {})}
    return [(name, str(facts[name]["account"])) for name in names if "account" in facts.get(name, {})]


def _column(words: tuple[str, ...]) -> list[str]:
    """Words padded to the widest, in the cells of a terminal."""
    width = max(map(cell_len, words), default=0)
    return [isolated(word) + " " * (width - cell_len(word)) for word in words]


def _answered(explanation: Explanation) -> str:
    return f"prediction: {answer(explanation)} · " if explanation.prediction else ""
