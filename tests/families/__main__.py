"""Run every model type, or those that are named, each in a child process with a limit on time and memory.

A type that hangs, dies or wants all memory is a row like any other.
"""

from __future__ import annotations

import argparse
import multiprocessing as mp
import os
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from tests.families.judge import Row, judge

LINE = 120
"""Characters of a reason; an error's first words say enough in a table."""


def table(rows: Sequence[Row]) -> str:
    """How many of each verdict, and a row for each type."""
    counts = Counter(row.verdict for row in rows)
    lines = [f"{len(rows)} model types: " + ", ".join(f"{count} {name}" for name, count in counts.most_common()) + "."]
    lines += ["", "| model type | verdict | |", "|---|---|---|"]
    return "\n".join([*lines, *(f"| `{row.name}` | {row.verdict} | {_cell(row.reason)} |" for row in rows)])


def _cell(reason: str) -> str:
    plain = reason.replace("|", "/").replace("<", "‹").replace(">", "›").replace("`", "'").replace("[", "\\[")
    return plain if len(plain) <= LINE else plain[: LINE - 1].rstrip() + "…"


PATIENCE = 120.0
MEMORY = 6 * 2**30
"""Of addresses, beyond what the parent has: a model at its full size does not fit."""


def judge_all(names: Sequence[str], *, workers: int = 2) -> Iterator[Row]:
    """A row for each name, as children end."""
    # Imported once, for all children: it takes longer than most of them do.
    import torch
    import transformers.models.llama.modeling_llama
    import transformers.models.vit.modeling_vit  # noqa: F401

    import attnx.hooks.capture  # noqa: F401

    torch.set_num_threads(1)  # threads do not survive a fork
    context = mp.get_context("fork")
    waiting, running = list(names)[::-1], {}
    while waiting or running:
        while waiting and len(running) < workers:
            name = waiting.pop()
            ours, theirs = context.Pipe(duplex=False)
            process = context.Process(target=_child, args=(name, theirs))
            process.start()
            theirs.close()
            running[ours] = (name, process, time.monotonic() + PATIENCE)
        ready = wait(list(running), timeout=0.2)
        for pipe, (name, process, deadline) in list(running.items()):
            if pipe in ready:
                yield _received(pipe, name, process)
            elif time.monotonic() > deadline:
                process.kill()
                yield Row(name, "not built", f"took more than {PATIENCE:.0f} s")
            else:
                continue
            process.join()
            pipe.close()
            del running[pipe]


def _child(name: str, pipe: Connection) -> None:
    limit = _addresses() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    pipe.send(judge(name))
    pipe.close()
    os._exit(0)


def _addresses() -> int:
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * os.sysconf("SC_PAGE_SIZE")


def _received(pipe: Connection, name: str, process: Any) -> Row:
    try:
        row: Row = pipe.recv()
        return row
    except EOFError:
        process.join()
        return Row(name, "not built", f"the process ended with {process.exitcode}")


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
