"""A suite: inputs of which it is known what the answer hangs on, and the model that is asked. A row of `SUITES`.

A plug-in adds its own by `SUITES.add(row.name, row)`, or by an entry point of the group `attnx.suites`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from torch import nn

from attnx.data.keeping import Keeping
from attnx.explaining.seam import Request
from attnx.methods.normalization import Normalization

Array: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True, eq=False)
class Known:
    """One input with a known answer."""

    request: Request
    """Its target is a number, or a pair of them: the class or token that must win, and the one it must beat."""
    units: tuple[tuple[int, ...], ...]
    """The positions of each word or patch, which are ranked; a unit's score is the sum over its positions."""
    right: tuple[int, ...]
    """The units that are right; the first of them in an order counts."""

    @property
    def digest(self) -> str:
        """Of the input, and of all that is asked of it."""
        return f"{self.request.prepared.digest} {self.request.position} {self.request.target} {self.units} {self.right}"


@dataclass(frozen=True, eq=False)
class Trial:
    """What a suite is run on."""

    model: nn.Module
    processor: Any
    rows: int
    """How many inputs are measured, at most."""
    data: Any = None
    """The user's own: a file, or texts."""
    seed: int = 0
    progress: bool = False
    keeping: Keeping = field(default_factory=Keeping)
    """Where the rows go that are measured."""


@dataclass(frozen=True, eq=False)
class Explainers:
    """The methods and references that are held against the truth."""

    methods: tuple[str, ...]
    references: Mapping[str, Mapping[str, Any]]
    normalize: Normalization = "auto"


@dataclass(frozen=True, eq=False)
class SuiteResult:
    """What came of a suite."""

    values: Mapping[str, Array]
    """Explainer → row × metric."""
    orders: Mapping[str, Array]
    """Chance, and orders that know nothing → row × metric."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Explainer → why it has no numbers."""
    wrong: int = 0
    """Inputs that the model gets wrong, and that were left out."""
    signed: tuple[str, ...] = ()
    provenance: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Metric:
    """A column of numbers."""

    name: str
    more_is_better: bool = True


RANKS = (Metric("reciprocal rank"), Metric("first"))


@dataclass(frozen=True, eq=False)
class Suite:
    """Where inputs and model come from, what is right, and how it is measured."""

    name: str
    title: str
    """What is asked, in a few words: "the subject of the verb"."""
    right: str
    """What is right, and why, in a sentence."""
    source: str
    """Where the inputs and the model come from."""
    measure: Callable[[Suite, Trial, Explainers], SuiteResult]
    questions: Callable[[Trial], Iterator[Known]] | None = None
    """The inputs, as many as there are or without end; None where `measure` has inputs of its own."""
    metrics: tuple[Metric, ...] = RANKS
    """The first is what explainers are ordered by."""
    unit: str = "word"
    """What is ranked."""
    embedded: Callable[[], tuple[Any, Any]] | None = None
    """Loads the model that ships with attnx and its processor; None: the user brings one."""
    by_name: bool = False
    """Whether it is run only where it is named: so one that asks an embedded model much the same as another."""
    heads: tuple[str, ...] = ()
    """How the class of a model may end that the suite can ask; () for any that answers."""
    takes_data: str = ""
    """What the user's file must have; "" where none is needed."""
    fits_data: Callable[[Any], bool] = bool
    """Whether data that the user gave is for this suite, where none was named."""
    rows: int = 100
    """How many inputs are measured where nobody says."""
