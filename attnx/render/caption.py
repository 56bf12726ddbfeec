"""What every view says beside its numbers: the model's answer, whose view this is, and what to beware of."""

from __future__ import annotations

from collections.abc import Sequence

from attnx.explanation import Explanation
from attnx.render.printable import printable


def answer(explanation: Explanation) -> str:
    """The prediction with its probability; nothing for a model without a head."""
    return printable(str(explanation.prediction)) if explanation.prediction else ""


def seen_from(explanation: Explanation) -> str:
    return f"as seen from {printable(explanation.positions[explanation.position].token)}"


def row_name(explanation: Explanation, method: str | None, layer: int | None, head: int | None = None) -> str:
    """Which row of an explanation this is, in words."""
    if method in explanation.references:
        return f"{method}, measured on the model"
    layer = explanation.layers[-1] if layer is None else layer
    alone = "" if head is None else f", head {head}"
    return f"{method or explanation.default_method} at layer {layer}{alone}, {seen_from(explanation)}"


def cautions(explanation: Explanation, names: Sequence[str], layer: int | None = None) -> list[str]:
    """What the words do not show: the share of special tokens, ties, and which rows are no attention."""
    special = [one.index for one in explanation.positions if one.special]
    measured = [name for name in names if name in explanation.references]
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
        *([f"measured on the model, not attention: {', '.join(measured)}"] if measured else []),
    ]
