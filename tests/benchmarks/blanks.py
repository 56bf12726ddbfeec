"""Which blank lets blank-out find the word that decides? All side by side, on the cue files of the shared assets.

    ATTNX_ASSETS=… python -m tests.benchmarks.blanks --rows 20

Printed is the mean reciprocal rank of the cue among the prefix's words: by the signed change of logit(good) −
logit(bad), which is the default, and by the paper's definition, the size of the change of the probability. The table is
printed after every five rows of each file, so that it can be stopped.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

import numpy as np

from attnx.attribution import PAPER, blankout
from tests.benchmarks.cues import FILES, by_word, cue_of, made, read_rows, smollm2, words
from tests.benchmarks.ranking import fixed_orders, interval, reciprocal_rank, table

ASKED: dict[str, dict[str, Any]] = {
    "unknown token (the end of a text)": {"baseline": "unk_token"},
    "the same, paper's score": {"baseline": "unk_token", **PAPER},
    "mean embedding (the rule's choice)": {},
    "the same, paper's score ": PAPER,
    "deletion": {"baseline": "delete"},
    "a neutral word: thing": {"baseline": "Ġthing"},
    "a comma": {"baseline": ","},
}
AT_ONCE = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20, help="of each file")
    asked = parser.parse_args()
    folder = Path(os.environ["ATTNX_ASSETS"]) / "blimp"
    model, tokenizer = smollm2()
    found: dict[str, list[list[float]]] = {}
    for start in range(0, asked.rows, AT_ONCE):
        for number, file in enumerate(FILES):
            rows = read_rows(folder / f"{file}.tsv")[start : min(start + AT_ONCE, asked.rows)]
            for name, ranks in ranks_of(model, tokenizer, rows).items():
                found.setdefault(name, [[] for _ in FILES])[number] += ranks
        print(f"\n{start + len(rows)} rows of each file\n{summary(found)}", flush=True)


def ranks_of(model: Any, tokenizer: Any, rows: list[Any]) -> dict[str, list[float]]:
    """Blank → the reciprocal rank of the cue in each row."""
    cases = [made(model, tokenizer, row, None) for row in rows]
    spans = [words(row.prefix) for row in rows]
    cues = [cue_of(several, row) for several, row in zip(spans, rows, strict=True)]
    scores = {"chance": [fixed_orders(len(each))["chance"] for each in spans]}
    for name, options in ASKED.items():
        scored = blankout(model, tokenizer, cases, **options)
        several = zip(scored, cases, spans, strict=True)
        scores[name] = [by_word(one.scores, case.prepared, span) for one, case, span in several]
    return {name: list(map(reciprocal_rank, of_rows, cues)) for name, of_rows in scores.items()}


def summary(found: dict[str, list[list[float]]]) -> str:
    lines: list[list[object]] = [["", *FILES.values(), "mean [95 %]"]]
    for name, files in found.items():
        columns = [np.array(ranks) for ranks in files]
        mean, low, high = interval(columns)
        lines.append([name.strip(), *(f"{one.mean():.2f}" for one in columns), f"{mean:.3f} [{low:.3f} {high:.3f}]"])
    return table(lines)


if __name__ == "__main__":
    main()
