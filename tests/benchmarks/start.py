"""How long the first answer takes from a cold shell, in processor time, beside importing torch and transformers alone.

    python -m tests.benchmarks.start

Each command is a process of its own, the best of some rounds, in turn.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys

IMPORTS, EXPLAIN = "torch and a BERT of transformers", "attnx explain, the embedded model"
COMMANDS = {
    "python itself": ["-c", "pass"],
    "import attnx": ["-c", "import attnx"],
    "attnx --version": ["-m", "attnx", "--version"],
    "attnx explain --help": ["-m", "attnx", "explain", "--help"],
    "import torch": ["-c", "import torch"],
    IMPORTS: ["-c", "import torch; from transformers import BertForSequenceClassification"],
    "attnx explain, a method that is none": ["-m", "attnx", "explain", "the key to the cabinets", "--method", "nope"],
    EXPLAIN: ["-m", "attnx", "explain", "the key to the cabinets"],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    best = dict.fromkeys(COMMANDS, float("inf"))
    for _ in range(asked.rounds):
        for name, arguments in COMMANDS.items():
            best[name] = min(best[name], _seconds(arguments))
    for name, seconds in best.items():
        print(f"{name:38} {seconds:5.2f} s  {seconds / best[IMPORTS]:5.2f} × the imports")
    print(f"explain beyond {IMPORTS}: {best[EXPLAIN] - best[IMPORTS]:.2f} s (at most 0.7)")


def _seconds(arguments: list[str]) -> float:
    """Processor time of a process, its threads and its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime - before.ru_utime) + (after.ru_stime - before.ru_stime)


if __name__ == "__main__":
    main()
