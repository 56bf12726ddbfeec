"""The embedded models: whether they load, and give the answers that they gave when they were packed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from attnx.doctor.child import ChildRun, run_child, troubles
from attnx.doctor.finding import Finding
from attnx.errors import AttnxError

TEXT = "the key to the cabinets"

PROGRAM = """
import sys
from attnx.doctor.models import MODELS

for name in sys.argv[1:]:
    MODELS[name]()
    print(name, flush=True)
"""

_OFFLINE = {"HF_HUB_OFFLINE": "1"}
_METHODS = ("raw", "rollout")
"""Flow has a line of its own."""


def models(run: ChildRun = run_child) -> Iterator[Finding]:
    """A line for each model. A plain `explain` needs the one for texts."""
    found = troubles(PROGRAM, tuple(MODELS), environment=_OFFLINE, run=run)
    advice = "pip install --force-reinstall --no-deps attnx; if that changes nothing, report all these lines"
    for name in MODELS:
        needed = name == "text model"
        if name in found:
            yield Finding(name, "broken", found[name], advice, needed)
        else:
            yield Finding(name, "fine", "loads, and gives the answer that it should", needed=needed)


def explain_text() -> None:
    """The README's first example."""
    from attnx import explain, load_demo

    explanation = explain(*load_demo(), TEXT, methods=_METHODS)
    check(explanation, "singular", 0.979, "cabinets", 0.335)


def explain_picture() -> None:
    """The first picture that the planted-patch task draws: a ring in the patch r4c4."""
    from attnx import explain
    from attnx.tasks.planted_patch.generator import generate, load_demo

    explanation = explain(*load_demo(), generate(1)[0].image, methods=_METHODS)
    check(explanation, "ring", 1.0, "r4c4", 0.196)


def check(explanation: Any, label: str, probability: float, best: str, score: float) -> None:
    """Raise unless the answer and rollout's best word or patch are these, up to what processors differ by."""
    answer, (top,) = explanation.prediction, explanation.top(1, method="rollout")
    expected = f"{label} ({probability:.2f}), most from {best} ({score:.2f})"
    near = abs(answer.probability - probability) < 0.01 and abs(top.score - score) < 0.01
    if (answer.label, top.text) != (label, best) or not near:
        found = f"{answer.label} ({answer.probability:.2f}), most from {top.text} ({top.score:.2f})"
        raise AttnxError(f"it should say {expected}; it says {found}")


MODELS: Mapping[str, Callable[[], None]] = MappingProxyType(
    {"text model": explain_text, "image model": explain_picture}
)
