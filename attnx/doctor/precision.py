"""The lines on half precision: whether models in bfloat16 and float16 run on this processor, or kill the process."""

from __future__ import annotations

from collections.abc import Iterator

from attnx.doctor.child import troubles
from attnx.doctor.finding import Finding
from attnx.doctor.half_precision import DTYPES, LIMIT, PROGRAM, try_half_precision


def precision(program: str = PROGRAM) -> Iterator[Finding]:
    """A line for each dtype. A plain `explain` runs in float32 and needs neither."""
    tried = try_half_precision(troubles, program)
    for dtype in DTYPES:
        name = f"{dtype} on the CPU"
        if dtype not in tried.troubles:
            yield Finding(name, "fine", "runs")
            continue
        advice = "load such models with dtype=torch.float32; torch does not run them here, with or without attnx"
        if dtype not in tried.limited:
            setting = " ".join(f"{variable}={value}" for variable, value in LIMIT.items())
            advice = f"set {setting} before Python starts (tried: it runs so), or load models with dtype=torch.float32"
        yield Finding(name, "broken", tried.troubles[dtype], advice)
