"""What the value path costs beside a plain run, and what memory it takes on a long text.

    python -m tests.benchmarks.lrp                  # 128 tokens, 12 layers of 768
    python -m tests.benchmarks.lrp --long           # 1,024 to 32,768 tokens, each in a process of its own
    python -m tests.benchmarks.lrp --length 32768   # one length: seconds, of the processor, GB

The longest text takes an hour of the processor. `--long --keep FILE` writes each length down as it is measured, and
measures only those that are missing.

Times are the best of five in turn, by the clock and by the processor's time: the second is what counts on a machine
that does other work, too. Memory is the highest resident size less that before the run.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
import torch
import transformers as hf

from attnx.adapters import Position, PreparedInput
from attnx.attribution import REFERENCES, Case
from attnx.targets import Target

ROUNDS = 5
LENGTHS = (1_024, 2_048, 4_096, 8_192, 16_384, 32_768)
SHAPE = {"vocab_size": 50_257, "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--keep", type=Path, help="a file of what is measured already, for --long")
    parser.add_argument("--length", type=int, help="one length, in this process")
    asked = parser.parse_args()
    if asked.length:
        print(*memory(asked.length))
    elif asked.long:
        long_texts(asked.keep)
    else:
        short_text()


def short_text() -> None:
    print(f"{torch.get_num_threads()} threads, 128 tokens, 12 layers of 768")
    for name, model in (("Llama", llama(128)), ("BERT, two classes", bert())):
        ids = torch.randint(5, 30_000, (1, 128), generator=torch.Generator().manual_seed(0))
        asked, target = case(ids[0]), {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        runs: dict[str, Callable[[], Any]] = {"a plain run": lambda model=model, target=target: plain(model, target)}
        for reference in ("lrp", "attn_lrp", "gradient"):
            runs[reference] = lambda reference=reference, model=model, asked=asked: REFERENCES[reference](
                model, None, [asked]
            )
        times = seconds(runs)
        report(name, times)


def long_texts(keep: Path | None) -> None:
    known = {} if keep is None or not keep.exists() else json.loads(keep.read_text())
    for length in LENGTHS:
        if str(length) not in known:
            command = [sys.executable, "-m", "tests.benchmarks.lrp", "--length", str(length)]
            told = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
            known[str(length)] = [float(number) for number in told.split()]
            if keep is not None:
                keep.write_text(json.dumps(known))
        took, worked, extra = known[str(length)]
        line = f"Llama of GPT-2 small's shape, {length:6,d} tokens: {took:7.1f} s, of the processor {worked:7.1f} s"
        print(f"{line}, {extra:.2f} GB extra", flush=True)
    print("grows as n to the power of …   of the processor's time   memory")
    for some in (LENGTHS, *pairwise(LENGTHS)):
        lengths, (_, times, sizes) = np.log(some), np.log([known[str(one)] for one in some]).T
        powers = (np.polyfit(lengths, values, 1)[0] for values in (times, sizes))
        print(f"  {some[0]:6,d} to {some[-1]:6,d} tokens", *(f"{power:18.2f}" for power in powers), flush=True)


def memory(length: int) -> tuple[float, float, float]:
    """Seconds by the clock and of the processor, GB."""
    model = llama(length)
    ids = torch.randint(5, 50_000, (length,), generator=torch.Generator().manual_seed(0))
    REFERENCES["lrp"](model, None, [case(ids[:16])])  # what is loaded once is not counted
    before, start, working = peak(), perf_counter(), process_time()
    REFERENCES["lrp"](model, None, [case(ids)])
    return perf_counter() - start, process_time() - working, peak() - before


def llama(positions: int) -> Any:
    torch.manual_seed(0)
    config = hf.LlamaConfig(intermediate_size=3_072, max_position_embeddings=positions, **SHAPE)
    return hf.LlamaForCausalLM(config).eval()


def bert() -> Any:
    torch.manual_seed(0)
    return hf.BertForSequenceClassification(hf.BertConfig(**SHAPE | {"vocab_size": 30_522})).eval()


def case(ids: torch.Tensor) -> Case:
    positions = tuple(Position(index, str(index)) for index in range(len(ids)))
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    return Case(PreparedInput(inputs, positions, ()), Target(1, len(ids) - 1))


@torch.no_grad()
def plain(model: Any, inputs: dict[str, torch.Tensor]) -> None:
    few = {"logits_to_keep": 1, "use_cache": False} if isinstance(model, hf.LlamaForCausalLM) else {}
    model(**inputs, **few)


def seconds(runs: dict[str, Callable[[], Any]], rounds: int = ROUNDS) -> dict[str, tuple[float, float]]:
    """The best of some rounds in turn, by the clock and by the processor's time."""
    best = dict.fromkeys(runs, (float("inf"), float("inf")))
    for run in runs.values():
        run()
    for _ in range(rounds):
        for name, run in runs.items():
            start, working = perf_counter(), process_time()
            run()
            wall, work = best[name]
            best[name] = min(wall, perf_counter() - start), min(work, process_time() - working)
    return best


def report(title: str, times: dict[str, tuple[float, float]]) -> None:
    """Each run beside the first, the plain one."""
    (plainly, (wall, work)), *others = times.items()
    print(f"{title}: {plainly} {wall:.3f} s, of the processor's time {work:.3f} s")
    for name, (clock, worked) in others:
        print(f"  {name}: {clock / wall:.2f} ×, of the processor's time {worked / work:.2f} ×", flush=True)


def peak() -> float:
    """The highest resident size of this process so far, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


if __name__ == "__main__":
    main()
