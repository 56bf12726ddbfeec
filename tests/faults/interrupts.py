"""Real interrupts at random moments of every public function: what is left behind, and what became of Ctrl-C.

    python -m tests.faults.interrupts --count 5000

A timer of the system sends a signal at a random moment of a call on a tiny model: every other time an alarm whose
handler raises KeyboardInterrupt, as Python's own does, else a real SIGINT from another process. Counted are those that
came during the call. A trace is anything of the model, the tokenizer or the thread that is not what it was, looked at
while the traceback still lives, and again when it is gone. An interrupt is lost where the call went on as if nothing
had been, and turned where something else than KeyboardInterrupt came out. One that came while Python was in a finaliser
is printed by Python and lost in any program: such a moment is counted by itself, and tried again.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

import attnx
from attnx.hooks import attention_interface as interface
from attnx.hooks import patching as untouched
from tests import zoo

TEXT, OTHER = "the key to the cabinets is on a table", "a witty movie"
REFERENCES = ("gradient", "blankout", "input_x_gradient", "integrated_gradients", "gradient_shap", "occlusion")

_CLOCK = """
import os, signal, sys, time
for line in sys.stdin:
    time.sleep(float(line))
    os.kill(int(sys.argv[1]), signal.SIGINT)
"""
"""A process that sends Ctrl-C after so many seconds; a thread of our own would have to wait for the interpreter."""


@dataclass
class Count:
    """What came of the interrupts of one function."""

    interrupts: int = 0
    traces: list[str] = field(default_factory=list)
    lost: int = 0
    turned: list[str] = field(default_factory=list)
    finalisers: int = 0

    def __str__(self) -> str:
        told = [f"{what}: {number}" for what, number in Counter([*self.traces, *self.turned]).most_common(3)]
        line = f"{self.interrupts:6} {len(self.traces):7} {self.lost:6} {len(self.turned):7} {self.finalisers:10}"
        return "; ".join([line, *told])


def calls() -> dict[str, Callable[[], Any]]:
    """Every public function that runs a model or computes, on tiny models in training mode."""
    encoder, words = copy.deepcopy(zoo.classifier()).train(), zoo.wordpiece_tokenizer()
    decoder, pieces = copy.deepcopy(zoo.causal_lm()).train(), zoo.bytelevel_tokenizer()
    llama, vit = (copy.deepcopy(zoo.model(name)).train() for name in ("llama", "vit"))
    words.backend_tokenizer.enable_truncation(50)
    MODELS[:] = [encoder, decoder, llama, vit]
    attention = attnx.capture(encoder, **words(TEXT, return_tensors="pt"))
    explained = attnx.explain(encoder, words, [TEXT, OTHER], references=("gradient",))
    found: dict[str, Callable[[], Any]] = {
        "capture": lambda: attnx.capture(llama, **zoo.inputs("llama")),
        "capture, interface": lambda: attnx.capture(llama, backend="interface", **zoo.inputs("llama")),
        "capture, graph": lambda: attnx.capture(vit, gradients=True, **zoo.inputs("vit")),
        "explain": lambda: attnx.explain(encoder, words, TEXT),
        "explain, texts": lambda: attnx.explain(encoder, words, [TEXT, OTHER], truncate=True),
        "explain, decoder": lambda: attnx.explain(decoder, pieces, TEXT),
        "compare": lambda: attnx.compare(encoder, words, [TEXT, OTHER]),
        "faithfulness": lambda: attnx.faithfulness(encoder, words, [TEXT, OTHER]),
        "head_atlas": lambda: attnx.head_atlas(encoder, words, [TEXT, OTHER]),
        "explain_generation": lambda: attnx.explain_generation(decoder, pieces, TEXT, max_new_tokens=3),
        "raw, rollout, flow": lambda: [method(attention) for method in (attnx.raw, attnx.rollout, attnx.flow)],
        "to_networkx": lambda: attnx.to_networkx(attention),
        "to_html": lambda: attnx.to_html(explained),
        "load_demo": attnx.load_demo,
    }
    for name in REFERENCES:
        found[f"explain, {name}"] = lambda name=name: attnx.explain(encoder, words, TEXT, references=name)
    return found


MODELS: list[Any] = []


def world() -> dict[str, Any]:
    """Everything that a call must leave as it was."""
    backend = zoo.wordpiece_tokenizer().backend_tokenizer
    torch.autocast_increment_nesting()
    return {
        "gradients": torch.is_grad_enabled(),
        "inference mode": torch.is_inference_mode_enabled(),
        "modes of torch": torch._C._len_torch_function_stack(),
        "autocast": (torch.autocast_decrement_nesting(), torch.is_autocast_enabled("cpu")),
        "training": [[module.training for module in model.modules()] for model in MODELS],
        "implementation": [model.config._attn_implementation for model in MODELS],
        "observed": [zoo.observed(model) for model in MODELS],
        "observers": untouched._thread.observers,
        "slopes": [[parameter.grad is None for parameter in model.parameters()] for model in MODELS],
        "loans": len(untouched._patches),
        "recorder": getattr(interface._thread, "recorder", None),
        "tokenizer": (backend.truncation, backend.padding),
        "random numbers": torch.get_rng_state().sum().item(),
        "handlers": (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGALRM)),
    }


def changed(before: dict[str, Any]) -> list[str]:
    now = world()
    return [name for name in before if now[name] != before[name]]


@contextlib.contextmanager
def finalisers_told() -> Iterator[list[str]]:
    """The finalisers that an interrupt came in meanwhile: Python prints it there and goes on."""
    swallowed: list[str] = []
    usual = sys.unraisablehook

    def unraisable(what: Any) -> None:
        if what.exc_type is KeyboardInterrupt:
            swallowed.append(repr(what.object))
        else:
            usual(what)

    sys.unraisablehook = unraisable
    try:
        yield swallowed
    finally:
        sys.unraisablehook = usual


@contextlib.contextmanager
def ringing() -> Iterator[tuple[list[float], Callable[[float, bool], None]]]:
    """(moments at which one came, a function that sends the next in so many seconds)."""
    rung: list[float] = []

    def ring(number: int, frame: Any) -> None:
        rung.append(time.perf_counter())
        raise KeyboardInterrupt

    before = [signal.signal(one, ring) for one in (signal.SIGINT, signal.SIGALRM)]
    clock = subprocess.Popen([sys.executable, "-c", _CLOCK, str(os.getpid())], stdin=subprocess.PIPE, text=True)
    assert clock.stdin is not None
    pipe = clock.stdin

    def send(delay: float, alarm: bool) -> None:
        if alarm:
            signal.setitimer(signal.ITIMER_REAL, max(delay, 1e-6))
        else:
            pipe.write(f"{delay}\n")
            pipe.flush()

    try:
        yield rung, send
    finally:
        pipe.close()
        clock.wait()
        for one, handler in zip((signal.SIGINT, signal.SIGALRM), before, strict=True):
            signal.signal(one, handler)


def interrupt(call: Callable[[], Any], times: int, seed: int = 0) -> Count:
    """So many interrupts that come during the call."""
    chance, count = random.Random(seed), Count()
    call()
    began = time.perf_counter()
    call()
    seconds = time.perf_counter() - began
    with finalisers_told() as swallowed, ringing() as (rung, send):
        before = world()
        while count.interrupts < times:
            _once(call, chance.uniform(0, 1.1 * seconds), count, before, rung, swallowed, send)
        count.finalisers = len(swallowed)
    return count


def _once(
    call: Callable[[], Any],
    delay: float,
    count: Count,
    before: dict[str, Any],
    rung: list[float],
    swallowed: list[str],
    send: Callable[[float, bool], None],
) -> None:
    rung.clear()
    ended, earlier = False, len(swallowed)
    try:
        send(delay, count.interrupts % 2 == 0)
        call()
        ended = True
        for _ in range(0 if rung else 500):
            time.sleep(0.01)
        if len(swallowed) == earlier:
            count.interrupts += 1
            count.lost += 1
    except KeyboardInterrupt:
        if not ended:
            count.interrupts += 1
            count.traces += changed(before)
    except Exception as error:
        count.interrupts += 1
        count.turned.append(f"{type(error).__name__}: {error}"[:80])
    if not ended:
        count.traces += [f"{name}, later" for name in changed(before) if name not in count.traces]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--count", type=int, default=5000)
    arguments.add_argument("--only", default="")
    arguments.add_argument("--seed", type=int, default=0)
    asked = arguments.parse_args()
    torch.set_num_threads(1)
    chosen = {name: call for name, call in calls().items() if name.startswith(asked.only)}
    print(f"{'':32} {'interrupts':>6} {'traces':>7} {'lost':>6} {'turned':>7} {'finalisers':>10}")
    whole = Count()
    for place, (name, call) in enumerate(chosen.items()):
        times = asked.count // len(chosen) + (place < asked.count % len(chosen))
        found = interrupt(call, times, asked.seed)
        print(f"{name:32} {found}", flush=True)
        whole.interrupts += found.interrupts
        whole.traces += found.traces
        whole.lost += found.lost
        whole.turned += found.turned
        whole.finalisers += found.finalisers
    print(f"{'all':32} {whole}")
    sys.exit(bool(whole.traces or whole.lost or whole.turned))


if __name__ == "__main__":
    main()
