"""How long the first answer takes from a cold shell, in processor time, beside importing torch and transformers alone.

    python -m tests.benchmarks.start

Each command is a process of its own, the best of three, in turn.
"""

from __future__ import annotations

import resource
import subprocess
import sys

ROUNDS = 3
COMMANDS = {
    "python itself": ["-c", "pass"],
    "import attnx": ["-c", "import attnx"],
    "attnx --version": ["-m", "attnx", "--version"],
    "attnx explain --help": ["-m", "attnx", "explain", "--help"],
    "import torch": ["-c", "import torch"],
    "torch and a BERT of transformers": ["-c", "import torch; from transformers import BertForSequenceClassification"],
    "attnx explain, a method that is none": ["-m", "attnx", "explain", "the key to the cabinets", "--method", "nope"],
    "attnx explain, the embedded model": ["-m", "attnx", "explain", "the key to the cabinets"],
}


def main() -> None:
    best = dict.fromkeys(COMMANDS, float("inf"))
    for _ in range(ROUNDS):
        for name, arguments in COMMANDS.items():
            best[name] = min(best[name], _seconds(arguments))
    for name, seconds in best.items():
        print(f"{name:38} {seconds:5.2f} s")
    beyond = best["attnx explain, the embedded model"] - best["torch and a BERT of transformers"]
    print(f"explain beyond torch and a BERT of transformers: {beyond:.2f} s")


def _seconds(arguments: list[str]) -> float:
    """Processor time of a process, its threads and its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime - before.ru_utime) + (after.ru_stime - before.ru_stime)


if __name__ == "__main__":
    main()
