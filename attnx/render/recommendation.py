"""A recommendation to look at: the answer in a sentence, a ranked table, and its bars beside chance."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from attnx.agreement.summary import Summary
from attnx.render.axes import LOOKS, given_or_new
from attnx.render.columns import TextBlock, decimals, noted
from attnx.results.faithfulness import FEWEST_TEXTS, RANDOM, orders_told
from attnx.results.recommendation import Recommendation

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def blocks(recommendation: Recommendation) -> list[TextBlock]:
    one = recommendation
    heading = (
        f"What holds on {one.texts} text{'s' * (one.texts > 1)}: the fall of the target's {one.score} without the "
        f"first {one.units}, at layer {one.layer}, blanked with {one.blank}"
    )
    return [TextBlock(heading, (one.sentence(),), list(_lines(one)), tuple(_foot(one))), *noted(one.notes, one.texts)]


def rows(recommendation: Recommendation) -> list[dict[str, Any]]:
    """A row for each text and explainer, chance included."""
    return [
        {"text": number, "explainer": name, "comprehensiveness": value}
        for name in (*recommendation.explainers, RANDOM)
        for number, value in enumerate(recommendation.values[name].tolist())
    ]


def plot(recommendation: Recommendation, ax: Axes | None = None) -> Axes:
    names = recommendation.explainers
    ax = given_or_new(ax, 6.4, 0.8 + 0.28 * len(names))
    holds, good = LOOKS[0][0], recommendation.holds
    for place, name in enumerate(reversed(names)):
        cell = recommendation.cell(name)
        colour = holds if name in good else "#888888"
        ax.hlines(place, cell.low or 0.0, cell.high or 0.0, color=colour, linewidth=1.6)
        ax.plot(
            [float(recommendation.values[name].mean())],
            [place],
            color=colour,
            marker="o" if name in good else "x",
            markersize=5,
        )
    ax.axvline(float(recommendation.values[RANDOM].mean()), color="#666666", linestyle="--", linewidth=1)
    ax.set_yticks(range(len(names)), list(reversed(names)))
    ax.set_xlabel(
        f"fall of the target's {recommendation.score} without the first {recommendation.units}; dashed: random order"
    )
    ax.set_title(f"circle: told from chance on {recommendation.texts} texts", fontsize="medium")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _lines(one: Recommendation) -> Iterator[list[str]]:
    yield ["", "costs the answer", "95 %", "beyond chance", "behind the best", "forwards", "verdict"]
    for name in one.explainers:
        cell, beyond, behind = one.cell(name), one.beyond_chance(name), one.behind_best(name)
        first = name == one.explainers[0]
        cost = one.forwards.get(name)
        yield [
            name,
            decimals(cell.mean),
            _interval(cell),
            f"{decimals(beyond.mean)} [{_interval(beyond)}]",
            "" if first else f"{decimals(behind.mean)} [{_interval(behind)}]",
            "–" if cost is None else f"{cost:.0f}",
            _verdict(one, name),
        ]
    chance = one.cell(RANDOM)
    yield [RANDOM, decimals(chance.mean), _interval(chance), "", "", "", ""]


def _verdict(one: Recommendation, name: str) -> str:
    if one.texts < FEWEST_TEXTS:
        return "no verdict"
    if name not in one.holds:
        return one.verdict(name).replace("not told apart from chance", "cannot be told from chance")
    if name == one.best:
        return "holds: the best"
    return "holds, behind the best" if one.apart_from_best(name) else "holds, not told from the best"


def _foot(one: Recommendation) -> Iterator[str]:
    yield (
        "Means over 1, 5, 10, 20 and 50 % of the positions; intervals of 95 % for each number alone, over the texts; "
        f"chance is {orders_told(one.fewest_orders, one.orders)} of each text."
    )
    yield (
        "Verdicts at 5 %, corrected for all explainers (against chance) and for all pairs (against the best) by the "
        "largest of all differences while the signs of texts are flipped."
    )
    if one.signed:
        yield f"By sign: {', '.join(one.signed)}."
    if one.left_out:
        yield f"Left out: {'; '.join(f'{name} ({reason})' for name, reason in one.left_out.items())}."


def _interval(cell: Summary) -> str:
    return "–" if cell.count < 2 else f"{decimals(cell.low)} {decimals(cell.high)}"
