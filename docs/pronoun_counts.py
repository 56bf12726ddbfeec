"""Print what docs/pronouns.md counts in the results of `attnx probe pronouns --data … --output FOLDER`.

    python docs/pronoun_counts.py FOLDER

How often twins (the same two candidates, another ending) get the same choice, how often the candidate of more word
pieces is chosen, and how each method chooses for every pronoun that is predicted.
"""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from pyarrow.parquet import read_table


def main(path: Path) -> None:
    kept = [probe for part in sorted(path.glob("part-*")) for probe in read_table(part)["probe"].to_pylist()]
    found = [json.loads(probe) for probe in kept if probe is not None]
    predicted = Counter(max(one["probabilities"], key=one["probabilities"].get) for one in found)
    print("predicted:", ", ".join(f"{pronoun} {count}" for pronoun, count in predicted.most_common()))
    twins = [pair for pair in _by_candidates(found).values() if len(pair) == 2]
    uneven = [one for one in found if len(set(map(len, one["candidates"].values()))) == 2]
    for method in found[0]["relevance"]:
        for layer in found[0]["layers"]:
            same = sum(_choice(one, method, layer) == _choice(other, method, layer) for one, other in twins)
            longer = sum(_choice(one, method, layer) == _longer(one) for one in uneven)
            print(
                f"{method}, layer {layer}: same choice in {same} of {len(twins)} pairs of twins; "
                f"the longer candidate in {longer} of {len(uneven)}; {_by_prediction(found, method, layer)}"
            )


def _by_candidates(found: list[dict[str, Any]]) -> dict[tuple[str, ...], list[dict[str, Any]]]:
    several = defaultdict(list)
    for one in found:
        several[tuple(one["candidates"])].append(one)
    return several


def _choice(one: dict[str, Any], method: str, layer: int) -> str | None:
    """The candidate that has most; None where the two tie to 1e-9."""
    first, second = one["relevance"][method][layer - 1]
    names = list(one["candidates"])
    return None if abs(first - second) <= 1e-9 else names[first < second]


def _longer(one: dict[str, Any]) -> str:
    return max(one["candidates"], key=lambda name: len(one["candidates"][name]))


def _by_prediction(found: list[dict[str, Any]], method: str, layer: int) -> str:
    """For each predicted pronoun that implies somebody, how often that one is chosen."""
    asked, met = Counter[str](), Counter[str]()
    for one in found:
        pronoun = max(one["probabilities"], key=one["probabilities"].get)
        if pronoun in one["implies"]:
            asked[pronoun] += 1
            met[pronoun] += _choice(one, method, layer) == one["implies"][pronoun]
    return (
        ", ".join(f"{pronoun} meets its own in {met[pronoun]} of {asked[pronoun]}" for pronoun in asked) or "no verdict"
    )


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("give the folder of results: python docs/pronoun_counts.py FOLDER")
    main(Path(sys.argv[1]))
