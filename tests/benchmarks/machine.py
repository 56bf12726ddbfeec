"""The machine that a run was measured on, as far as it bears on costs. It has no name here."""

from __future__ import annotations

import os
import platform
from pathlib import Path


def machine() -> dict[str, str]:
    import torch
    import transformers

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    busy = os.getloadavg()[0]
    return {
        "processor": _processor(),
        "cores": f"{cores}, {torch.get_num_threads()} threads of torch",
        "load at the beginning": f"{busy:.1f} processes beside this one",
        "Python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
