"""Run every model type, or those that are named, each in a child process with a limit on time and memory."""

from __future__ import annotations

import argparse
import sys

from tests.families.children import judge_all
from tests.families.table import table


def main() -> None:
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    parser = argparse.ArgumentParser(prog="python -m tests.families", description=__doc__)
    parser.add_argument("names", nargs="*", help="model types; all if none is named")
    parser.add_argument("--workers", type=int, default=2)
    asked = parser.parse_args()
    rows = []
    names = asked.names or sorted(CONFIG_MAPPING_NAMES)
    for row in judge_all(names, workers=asked.workers):
        rows.append(row)
        print(f"{len(rows)}/{len(names)} {row.name}: {row.verdict} {row.reason}", file=sys.stderr, flush=True)
    print(table(sorted(rows, key=lambda row: row.name)))
    sys.exit(not all(row.fine for row in rows))


if __name__ == "__main__":
    main()
