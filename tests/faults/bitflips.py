"""Single flipped bits in the parts of a run: are the data that are read then the same, refused, or silently different?

    python -m tests.faults.bitflips               # 1,000 flips; exits with 1 if any gave different data

Each flip hits a random bit of a random part of a small run, as a failing disk or a bad copy would. A run that is read
with the bit flipped must raise an `AttnxError` or give exactly the table that was written.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path

import attnx
from attnx.errors import AttnxError
from tests.faults.kills import sentences

ROWS, SHARD_ROWS = 12, 4


def flipped(folder: Path, flips: int, seed: int = 0) -> Counter[str]:
    """How many of `flips` were "noticed", had "no effect", or gave "silently different" data."""
    model, tokenizer = attnx.load_demo()
    options = {"methods": "rollout", "references": (), "shard_rows": SHARD_ROWS, "progress": False}
    intact = attnx.explain_dataset(model, tokenizer, sentences(ROWS), run_dir=folder, **options).to_table()
    chance, outcomes = random.Random(seed), Counter[str]()
    parts = sorted(folder.glob("*.parquet"))
    for _ in range(flips):
        part = chance.choice(parts)
        content = part.read_bytes()
        changed = bytearray(content)
        changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
        part.write_bytes(changed)
        try:
            same = attnx.Run.load(folder).to_table().equals(intact)
            outcomes["no effect" if same else "silently different"] += 1
        except AttnxError:
            outcomes["noticed"] += 1
        finally:
            part.write_bytes(content)
    return outcomes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flips", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        outcomes = flipped(Path(folder), options.flips, options.seed)
    silent = outcomes["silently different"]
    print(f"{silent} of {options.flips:,} single-bit flips gave silently different data; {dict(outcomes)}")
    sys.exit(silent > 0)


if __name__ == "__main__":
    main()
