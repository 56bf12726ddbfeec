"""Writes the numbers of the cases as attnx computes them now.

python -m tests.regression.write                  all of them
python -m tests.regression.write gradient_shap    those with the word in their name or their group's, where a number
                                                  was meant to change
"""

from __future__ import annotations

import sys

import torch

from tests.regression import numbers_file
from tests.regression.cases import GROUPS
from tests.regression.drift import PLAIN, plain_outputs


def main() -> None:
    torch.set_num_threads(1)  # as in the tests
    found = {PLAIN: plain_outputs(), **{name: group.run() for name, group in GROUPS.items()}}
    if len(sys.argv) > 1:
        found = only(sys.argv[1], found)
    numbers_file.write(found)
    cases = sum(len(outcomes) for outcomes in found.values())
    print(f"{cases:,} cases in {len(found)} groups, {numbers_file.PATH.stat().st_size:,} bytes")


def only(word, found):
    """The file as it is, but for the cases with the word in their name, or in that of their group."""
    stored = numbers_file.read()
    for group, outcomes in found.items():
        meant = {name: one for name, one in outcomes.items() if word in group or word in name}
        stored[group] = {**stored[group], **meant}
    return stored


if __name__ == "__main__":
    main()
