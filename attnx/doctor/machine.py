"""The machine: cores, memory, accelerators."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import torch

from attnx.doctor.finding import Finding

LITTLE = 2 * 2**30
"""Bytes of free memory below which a model of ordinary size may not fit."""

_MEMORY = Path("/proc/meminfo")
_CONTAINER = Path("/sys/fs/cgroup/memory.max")


def machine() -> Iterator[Finding]:
    """What models run on here."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    yield Finding("cores", "fine", f"{cores}, and torch uses {torch.get_num_threads()} threads")
    yield _memory()
    yield Finding("accelerators", "fine", ", ".join(_accelerators()) or "none: models run on the processor")


def _memory() -> Finding:
    try:
        lines = dict(line.split(":", 1) for line in _MEMORY.read_text().splitlines())
        total, free = (1024 * int(lines[name].split()[0]) for name in ("MemTotal", "MemAvailable"))
    except (OSError, KeyError, ValueError):
        return Finding("memory", "fine", "not known on this system")
    limit = _container_limit()
    found = f"{_size(total)}, {_size(free)} of it free" + (f"; this container may use {_size(limit)}" if limit else "")
    if min(free, limit or free) >= LITTLE:
        return Finding("memory", "fine", found)
    return Finding("memory", "note", found, "end other programs; explain short texts, or --method rollout alone")


def _container_limit() -> int | None:
    try:
        return int(_CONTAINER.read_text())
    except (OSError, ValueError):  # there is none, or it is "max"
        return None


def _accelerators() -> Iterator[str]:
    for index in range(torch.cuda.device_count()):
        yield f"cuda:{index} {torch.cuda.get_device_name(index)}"
    if torch.backends.mps.is_available():
        yield "mps"
    if torch.xpu.is_available():
        yield "xpu"


def _size(number: int) -> str:
    return f"{number / 2**30:.1f} GB"
