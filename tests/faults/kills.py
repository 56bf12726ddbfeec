"""SIGKILL at random moments of a run over a data set, which then goes on: is anything lost, doubled or changed?

    python -m tests.faults.kills                                       # the embedded model, 10,000 rows, 20 kills
    python -m tests.faults.kills --model $ATTNX_ASSETS/models/distilbert-sst2 --data $ATTNX_ASSETS/sst2/test.tsv.gz

The model is loaded once, and each try is a process forked from that one, so that kills fall into the work and not into
Python's start. A try is killed at a random moment of what the undisturbed run took for some shards. A part that was
there when a try was killed must be the same file at the end: then at most the shard that was being run is run again.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import attnx
from attnx.pipeline import given_model
from attnx.runs.sources import Columns, source_of

NOUNS = ("key", "keys", "author", "authors", "pilot", "pilots", "cabinet", "cabinets", "dog", "dogs")
BETWEEN = ("to", "near", "behind", "of")


@dataclass(frozen=True)
class Outcome:
    """Of one disturbed run, beside an undisturbed one."""

    kills: int
    tries: int
    rows: int
    equal: bool
    """Whether both tables are the same, bit for bit."""
    files_equal: bool
    """Whether all Parquet files are, byte for byte."""
    once: bool
    """Whether every row is there once."""
    rewritten: int
    """Parts that were there when a try was killed, and were written again."""
    redone: int
    """Shards that were begun and not finished when a try was killed: one at most for each."""


def disturbed(explain: Callable[[Path], Any], folder: Path, *, kills: int, seed: int = 0) -> Outcome:
    """Run `explain` undisturbed into one folder, and with kills into another."""
    start = time.monotonic()
    whole = explain(folder / "whole")
    seconds = time.monotonic() - start
    draw, done, tries, rewritten, redone = random.Random(seed), 0, 0, 0, 0
    place = folder / "killed"
    known: dict[str, tuple[int, int]] = {}
    while done < kills:
        tries += 1
        before = len(_parts(place))
        killed = _killed(lambda: explain(place), draw.uniform(0, 2 * seconds / (kills + 1)))
        done += killed
        now = _parts(place)
        rewritten += sum(now.get(name) != mark for name, mark in known.items())
        redone += killed and len(now) < len(whole.parts)
        known = now
        assert len(now) >= before
        if not killed:  # it was through before its moment came: begin anew, until all kills have met a run
            _empty(place)
            known = {}
    resumed = explain(place)
    rewritten += sum(_parts(place).get(name) != mark for name, mark in known.items())
    rows = [one["row"] for one in resumed.rows(("row",))]
    return Outcome(
        done,
        tries,
        len(rows),
        resumed.to_table().equals(whole.to_table()),
        _contents(place) == _contents(folder / "whole"),
        rows == list(range(len(whole))),
        rewritten,
        redone,
    )


def _killed(work: Callable[[], Any], seconds: float) -> bool:
    """Whether a process that does this was still at it after so many seconds, when it was killed."""
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except BaseException as error:
            print(f"a try failed by itself: {error}", file=sys.stderr, flush=True)
            os._exit(1)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            assert status == 0, "a try failed by itself"
            return False
        time.sleep(0.001)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def _parts(place: Path) -> dict[str, tuple[int, int]]:
    """The finished parts; a file that is written again is another."""
    return {one.name: (one.stat().st_ino, one.stat().st_mtime_ns) for one in place.glob("part-*")}


def _contents(place: Path) -> dict[str, bytes]:
    return {one.name: one.read_bytes() for one in place.glob("part-*")}


def _empty(place: Path) -> None:
    for one in place.iterdir():
        one.unlink()


def sentences(count: int) -> list[str]:
    """So many different ones, of different lengths; a few cannot be explained."""
    draw = random.Random(1)
    made = []
    for number in range(count):
        words = [f"the {draw.choice(NOUNS)}"]
        for _ in range(draw.randrange(4)):
            words.append(f"{draw.choice(BETWEEN)} the {draw.choice(NOUNS)}")
        made.append("" if number % 997 == 5 else " ".join(words))
    return made


def repeated(data: Sequence[Any], count: int) -> list[dict[str, Any]]:
    """So many rows of real texts: after the last the first again, with words before it, so that none is there twice."""
    return [
        {"text": one.input if (turn := number // len(data)) == 0 else f"take {turn} : {one.input}", "label": one.gold}
        for number, one in ((number, data[number % len(data)]) for number in range(count))
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model")
    parser.add_argument("--data")
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--shard-rows", type=int, default=256)
    parser.add_argument("--method", action="append")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    given = given_model(asked.model) if asked.model else given_model(*attnx.load_demo())
    rows = repeated(list(source_of(asked.data, Columns()).rows), asked.rows) if asked.data else sentences(asked.rows)
    options = {"methods": asked.method or ["raw", "rollout"], "shard_rows": asked.shard_rows, "progress": False}

    def explain(folder: Path) -> Any:
        return attnx.explain_dataset(given.model, given.processor, rows, run_dir=folder, **options)

    with tempfile.TemporaryDirectory() as folder:
        found = disturbed(explain, Path(folder), kills=asked.kills, seed=asked.seed)
    print(found)
    sys.exit(not (found.equal and found.files_equal and found.once and found.rewritten == 0))


if __name__ == "__main__":
    main()
