"""A child process for each model type: one that hangs, dies or wants all memory is a row like any other."""

from __future__ import annotations

import multiprocessing as mp
import os
import resource
import time
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from tests.families.row import Row, judge

PATIENCE = 120.0
MEMORY = 6 * 2**30
"""Of addresses, beyond what the parent has: a model at its full size does not fit."""


def judge_all(names: Sequence[str], *, workers: int = 2) -> Iterator[Row]:
    """A row for each name, as children end."""
    # Imported once, for all children: it takes longer than most of them do.
    import attnx.capturing.capture  # noqa: F401
    import torch
    import transformers.models.llama.modeling_llama
    import transformers.models.vit.modeling_vit  # noqa: F401

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
