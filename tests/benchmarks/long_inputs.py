"""What a row of rollout costs on thousands of tokens: memory by the kernel's own count, time beside a plain forward.

    python -m tests.benchmarks.long_inputs            # everything, some minutes and 6 GB
    python -m tests.benchmarks.long_inputs --quick    # without n = 8192
    python -m tests.benchmarks.long_inputs --row 4096 8192 16384 32768 --shape llama   # one table, by the length
    python -m tests.benchmarks.long_inputs --pairs    # flow of all pairs

GPT-2 small's shape with random weights and as many positions as are needed, without its language-model head; or a Llama
of that shape. Each peak is that of a process which does nothing else; the extra is what it has above the process that
runs a plain forward. Times are the best of some rounds, taken in turn in one process. A row of 32,768 tokens takes half
an hour of one core.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from tests.benchmarks.capture import NoTokenizer, resident, seconds

KINDS = ("forward", "row", "everything", "forward with head", "row with head")
ONE_PROCESS = "--one-process"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    arguments.add_argument("--quick", action="store_true", help="leave out n = 8192")
    arguments.add_argument(ONE_PROCESS, choices=[*KINDS, "times", "once"], help=argparse.SUPPRESS)
    arguments.add_argument("--length", type=int, help=argparse.SUPPRESS)
    arguments.add_argument("--shape", choices=("gpt2", "llama"), default="gpt2")
    arguments.add_argument("--row", type=int, nargs="+", help="only rollout's row, for these lengths")
    arguments.add_argument("--pairs", action="store_true", help="only flow of all pairs")
    asked = arguments.parse_args()
    if asked.one_process == "times":
        print(*times(asked.length))
    elif asked.one_process == "once":
        print(*once(asked.length, asked.shape))
    elif asked.one_process:
        print(peak(asked.one_process, asked.length))
    elif asked.row:
        rows(asked.row, asked.shape)
    elif asked.pairs:
        flow_of_all_pairs()
    else:
        report((2048,) if asked.quick else (2048, 8192), (1536, 2048, 3072) if asked.quick else (2048, 4096, 8192))
        flow_limit()


def report(lengths: Sequence[int], growth: Sequence[int]) -> None:
    print("GPT-2 small's shape, random weights; explain(…, methods='rollout') of the last position, all layers")
    extra = {}
    for length in sorted({*lengths, *growth}):
        extra[length] = megabytes(length, "row")
        print(f"n = {length}: extra peak {extra[length]:.0f} MB")
    for length in lengths:
        plain, row, first, work_plain, work_row = in_a_process("times", length)
        print(f"n = {length}: forward {plain:.2f} s, row {row:.2f} s")
        if length == 2048:
            whole = megabytes(length, "everything")
            share = extra[length] / whole
            print(f"  extra peak / all layers and heads ({whole:.0f} MB)  {share:6.1%}   (must: at most 20 %)")
            print(f"  row / forward                                {row / plain:6.2f} ×  (must: at most 2.5)")
        else:
            print(f"  extra peak                                   {extra[length]:6.0f} MB (must: under 2000)")
            print(f"  row / forward                                {row / plain:6.2f} ×  (must: at most 4)")
        print(f"  the same in CPU seconds, all threads         {work_row / work_plain:6.2f} ×")
        print(f"  the first row of a model, with its proof     {first / plain:6.2f} ×")
    exponent = slope([math.log(length) for length in growth], [math.log(extra[length]) for length in growth])
    print(f"memory grows as n^{exponent:.2f} over n = {', '.join(map(str, growth))}")
    more = megabytes(2048, "row with head", "forward with head")
    print(f"with the head of 50257 tokens, n = 2048: {more:+.0f} MB beside a forward that has all its logits")


def rows(lengths: Sequence[int], shape: str) -> None:
    """Each length in a process of its own: a forward, and then the first row of the model, with its proof."""
    print(f"{shape}, 12 layers of 768, random weights; rollout of the last position, the first row of a model")
    found = []
    for length in lengths:
        plain, row, work_plain, work_row, extra = in_a_process("once", length, "--shape", shape)
        found.append((length, work_plain, work_row, extra))
        line = f"n = {length:6,d}: forward {plain:.0f} s, row {row:.0f} s; of the processor {work_plain:.0f} and "
        ratio = f"row / forward {work_row / work_plain:.2f} ×"
        print(f"{line}{work_row:.0f}: {ratio}, peak beyond the model {extra / 2**30:.2f} GB", flush=True)
    if len(found) > 1:
        ends, *columns = ([math.log(one[part]) for one in found] for part in range(4))
        powers = [slope(ends, one) for one in columns]
        print("grows as n to the power of {:.2f} (forward), {:.2f} (row), {:.2f} (memory)".format(*powers))


def once(length: int, shape: str) -> tuple[float, ...]:
    """Seconds of a forward and of the first row, the same of the processor, and bytes at most beyond the model."""
    calls = work(length, shape=shape)
    before = resident()
    plain, work_plain = timed(calls["forward"])
    row, work_row = timed(calls["row"])
    return plain, row, work_plain, work_row, resident("VmHWM") - before


def flow_of_all_pairs() -> None:
    """Flow between every position and every input at the last of 6 layers, and what its parts grow with."""
    import torch

    import attnx

    print("flow of all pairs at layer 6 of 6, random attention, one thread, seconds of the processor")
    measured = []
    for length in (32, 64, 128, 256):
        attention = (2 * torch.randn(6, 1, length, length, generator=torch.Generator().manual_seed(0))).softmax(-1)
        attnx.flow(attention[:3, :, :8, :8] / 2, position=-1)  # the machine code is loaded
        _, taken = timed(lambda attention=attention: attnx.flow(attention, layer=6, threads=1, limit=None))
        measured.append((length, taken))
        print(f"  n = {length:4}  {taken:8.2f} s, a pair {1e6 * taken / length**2:7.1f} µs", flush=True)
    print(f"  grows as n^{slope(*([math.log(one[part]) for one in measured] for part in (0, 1))):.2f}")


def flow_limit() -> None:
    """What one position at every layer takes by flow, and where attnx refuses to begin."""
    import attnx
    from attnx.methods.base import LIMIT
    from attnx.methods.flow import SECONDS_PER_EDGE, estimated_seconds

    print("flow of the last position at every one of 12 layers, random causal attention, one thread")
    measured = []
    for length in (128, 256, 512, 768):
        attention = causal_attention(length)
        attnx.flow(attention[:3, :, :8, :8] / 2, position=-1)  # the machine code is loaded
        taken = seconds(lambda attention=attention: attnx.flow(attention, position=-1, threads=1, limit=None))
        expected = estimated_seconds(range(1, 13), length)
        measured.append((length, taken))
        print(f"  n = {length:5}  {taken:8.2f} s   estimated {expected:8.2f} s")
    exponent = slope(*([math.log(one[part]) for one in measured[1:]] for part in (0, 1)))
    longest = (LIMIT / SECONDS_PER_EDGE / sum(range(3, 13))) ** (1 / 3)
    print(f"  grows as n^{exponent:.2f}; refused above n = {longest:.0f} (12 layers, {LIMIT:.0f} s estimated)")


def causal_attention(length: int) -> Any:
    """12 layers × 1 head × n × n, of no model."""
    import torch

    scores = 2 * torch.randn(12, 1, length, length, generator=torch.Generator().manual_seed(0))
    scores.masked_fill_(torch.ones(length, length, dtype=torch.bool).triu(1), -math.inf)
    return scores.softmax(-1)


def megabytes(length: int, kind: str, beside: str = "forward") -> float:
    """By how much the peak of one process is above that of another."""
    (above,), (ground,) = in_a_process(kind, length), in_a_process(beside, length)
    return (above - ground) / 2**20


def in_a_process(kind: str, length: int, *more: str) -> list[float]:
    command = [sys.executable, "-m", "tests.benchmarks.long_inputs", ONE_PROCESS, kind, "--length", str(length), *more]
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    return [float(number) for number in result.stdout.split()]


def peak(kind: str, length: int) -> int:
    """Bytes by which this process grows at most while it does the one thing."""
    calls = work(length, head="with head" in kind)
    before = resident()
    calls[kind.removesuffix(" with head")]()
    return resident("VmHWM") - before


def times(length: int) -> tuple[float, float, float, float, float]:
    """Seconds of a forward, of a row and of the first row; CPU seconds of a forward and of a row."""
    calls = work(length)
    forwards, (first, _) = [timed(calls["forward"])], timed(calls["row"])
    rows = []
    for _ in range(3 if length < 4096 else 1):
        forwards.append(timed(calls["forward"]))
        rows.append(timed(calls["row"]))
    (plain, work_plain), (row, work_row) = (map(min, zip(*taken, strict=True)) for taken in (forwards, rows))
    return plain, row, first, work_plain, work_row


def timed(call: Callable[[], Any]) -> tuple[float, float]:
    """Seconds on the clock, and of all threads together."""
    start = time.process_time()
    taken = seconds(call)
    return taken, time.process_time() - start


def work(length: int, head: bool = False, shape: str = "gpt2") -> dict[str, Callable[[], Any]]:
    import torch
    import transformers

    import attnx

    torch.manual_seed(0)
    if shape == "llama":
        sizes = {"hidden_size": 768, "intermediate_size": 3_072, "num_hidden_layers": 12, "num_attention_heads": 12}
        model = transformers.LlamaModel(transformers.LlamaConfig(max_position_embeddings=length, **sizes)).eval()
    else:
        config = transformers.GPT2Config(n_positions=length)
        model = (transformers.GPT2LMHeadModel if head else transformers.GPT2Model)(config).eval()
    inputs = {"input_ids": torch.randint(5, 30000, (1, length))}
    with torch.no_grad():
        model(input_ids=inputs["input_ids"][:, :64])  # what a first forward loads is no cost of the second
    tokenizer = NoTokenizer()

    def forward() -> None:
        with torch.no_grad():
            model(**inputs, use_cache=False)

    return {
        "forward": forward,
        "row": lambda: attnx.explain(model, tokenizer, inputs, methods="rollout"),
        "everything": lambda: attnx.capture(model, **inputs),
    }


def slope(places: Sequence[float], values: Sequence[float]) -> float:
    """Of the line through the points with the least squares."""
    middle, height = sum(places) / len(places), sum(values) / len(values)
    rise = sum((place - middle) * (value - height) for place, value in zip(places, values, strict=True))
    return rise / sum((place - middle) ** 2 for place in places)


if __name__ == "__main__":
    main()
