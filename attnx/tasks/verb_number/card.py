"""The card of a trained model: what it is, how it was made, how often it is right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attnx.tasks.verb_number.evaluation import Accuracy

_PAPERS_ACCURACY = 0.96
_LOW = 0.9


def write_card(directory: Path, description: Mapping[str, Any], found: Sequence[Accuracy]) -> None:
    """`README.md` in the model's directory, where the hub and people look for it."""
    (directory / "README.md").write_text("\n".join(_lines(description, found)) + "\n", encoding="utf-8")


def _lines(description: Mapping[str, Any], found: Sequence[Accuracy]) -> list[str]:
    recipe = dict(description["recipe"])
    seed = recipe.pop("seed")
    name = description["name"]
    earlier = [f"{role} `{description[role]}`" for role in ("body", "teacher", "start") if description[role]]
    return [
        "# attnx verb-number",
        "",
        "From the words before a verb: is the verb singular (VBZ) or plural (VBP)? Made by `attnx train verb-number`, "
        + (f"recipe `{name}`, " if name else "")
        + f"seed {seed}, split of seed {description['split_seed']}"
        + "".join(f", {one}" for one in earlier)
        + ".",
        "",
        "## Accuracy",
        *_accuracy(found),
        "",
        "## Recipe",
        "| setting | value |",
        "|---|---|",
        *(f"| `{setting}` | {value} |" for setting, value in recipe.items()),
    ]


def _accuracy(found: Sequence[Accuracy]) -> list[str]:
    if not found:
        return ["Not known: there were too few lines to hold any out."]
    first = found[0]
    short = "" if first.share >= _LOW else f" **It does not reach {_LOW:.0%} on {first.of}.**"
    return [
        f"On sentences that were held out of its training. The paper reports {_PAPERS_ACCURACY} for its own model, on "
        f"its own test set.{short}",
        "",
        "| held-out sentences | number | accuracy | 95 % interval |",
        "|---|---:|---:|---:|",
        *(
            f"| {one.of} | {one.total:,} | {one.share:.4f} | {one.interval[0]:.3f}–{one.interval[1]:.3f} |"
            for one in found
        ),
    ]
