"""What watching costs: `explain` against an eager forward that returns its attention, memory, and import time.

    python -m tests.benchmarks.capture

Ratios are of times measured in turn in one run; memory is the kernel's own count of a process that does only that.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

LAYERS, WIDTH, HEADS = 12, 768, 12


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--length", type=int, default=512)
    arguments.add_argument("--rounds", type=int, default=7)
    arguments.add_argument("--memory", choices=["nothing", "everything", "mean"], help=argparse.SUPPRESS)
    asked = arguments.parse_args()
    if asked.memory:
        print(peak_memory(asked.memory, asked.length))
        return
    overhead(asked.length, asked.rounds)
    memory(1024)
    import_time(asked.rounds)


def overhead(length: int, rounds: int) -> None:
    import torch

    import attnx

    model, eager = bert(length), bert(length)
    eager.load_state_dict(model.state_dict())
    eager.set_attn_implementation("eager")
    inputs = {
        "input_ids": torch.randint(5, 1000, (1, length)),
        "attention_mask": torch.ones(1, length, dtype=torch.long),
    }

    def plain(one: Any, **options: Any) -> None:
        with torch.no_grad():
            one(**inputs, **options)

    first = seconds(lambda: attnx.explain(model, NoTokenizer(), inputs, methods=("raw", "rollout")))
    times = alternating(
        {
            "eager forward with output_attentions=True": lambda: plain(eager, output_attentions=True),
            "plain sdpa forward": lambda: plain(model),
            "capture, every head kept": lambda: attnx.capture(model, **inputs),
            "capture, mean of heads": lambda: attnx.capture(model, head="mean", **inputs),
            "explain, raw and rollout": lambda: attnx.explain(model, NoTokenizer(), inputs, methods=("raw", "rollout")),
        },
        rounds,
    )
    base = times["eager forward with output_attentions=True"]
    print(f"BERT of {LAYERS} layers × {WIDTH}, n = {length}, median of {rounds}")
    for name, taken in times.items():
        print(f"  {taken:7.3f} s  {taken / base:5.2f} ×  {name}")
    print(f"  {first:7.3f} s  {first / base:5.2f} ×  the first explain of a model, with its proof by a plain run")


def memory(length: int) -> None:
    peaks = {}
    for kind in ("nothing", "everything", "mean"):
        command = [sys.executable, "-m", "tests.benchmarks.capture", "--memory", kind, "--length", str(length)]
        peaks[kind] = int(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1])
    extra = {kind: (peak - peaks["nothing"]) / 2**20 for kind, peak in peaks.items()}
    print(f"peak memory above a plain forward, n = {length}")
    print(f"  every head kept {extra['everything']:7.0f} MB")
    print(f"  mean of heads   {extra['mean']:7.0f} MB = {extra['mean'] / extra['everything']:.0%}")


def import_time(rounds: int) -> None:
    def importing(code: str) -> Callable[[], Any]:
        return lambda: subprocess.run([sys.executable, "-c", code], check=True)

    codes = ("import torch", "import torch, attnx")
    times = alternating({code: importing(code) for code in codes}, 2 * rounds, min)
    torch_alone, both = times.values()
    beyond = 1000 * (both - torch_alone)
    print(f"import attnx beyond import torch: {beyond:.0f} ms (torch alone {1000 * torch_alone:.0f} ms)")


def peak_memory(kind: str, length: int) -> int:
    """Bytes by which this process grows at most while it runs the model once in the given way."""
    import torch

    import attnx

    model = bert(length)
    inputs = {"input_ids": torch.randint(5, 1000, (1, length))}
    with torch.no_grad():
        model(**inputs)
        before = resident()
        if kind == "nothing":
            model(**inputs)
        else:
            attnx.capture(model, head="mean" if kind == "mean" else None, **inputs)
    return resident("VmHWM") - before


def resident(field: str = "VmRSS") -> int:
    """Bytes in memory now, after which the kernel's peak count starts again; or that peak ("VmHWM")."""
    status = Path("/proc/self/status").read_text()
    if field == "VmRSS":
        Path("/proc/self/clear_refs").write_text("5")
    return 1024 * next(int(line.split()[1]) for line in status.splitlines() if line.startswith(field))


def bert(length: int) -> Any:
    import torch
    import transformers as hf

    torch.manual_seed(0)
    config = hf.BertConfig(
        vocab_size=1000,
        hidden_size=WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        intermediate_size=4 * WIDTH,
        max_position_embeddings=length,
    )
    return hf.BertModel(config).eval()


class NoTokenizer:
    """The inputs are tokenised already; only names of tokens are asked for."""

    all_special_ids: tuple[int, ...] = ()
    unk_token_id = None

    def __call__(self, text: str) -> None:
        raise NotImplementedError

    def decode(self, ids: list[int]) -> str:
        return str(ids[0])

    def convert_ids_to_tokens(self, ids: list[int]) -> list[str]:
        return [str(one) for one in ids]


def alternating(
    calls: dict[str, Callable[[], Any]], rounds: int, best: Callable[[list[float]], float] = statistics.median
) -> dict[str, float]:
    """The median time of each call, or another best, taken in turn so that a busy machine slows all alike."""
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    for _ in range(rounds):
        for name, call in calls.items():
            taken[name].append(seconds(call))
    return {name: best(times) for name, times in taken.items()}


def seconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
