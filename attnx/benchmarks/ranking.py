"""The measure of most suites: how high among the words (or patches) stands what is right."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from math import comb
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from attnx.adapters import adapter_for
from attnx.benchmarks.benchmark import Array, Explainers, Known, Scores, Suite, Trial, scores_of
from attnx.benchmarks.result import CHANCE, SuiteTable
from attnx.errors import ChoiceError, InputError
from attnx.evaluation import CollectedRows, facts, with_left_out
from attnx.hooks import map_outputs, unwrap_model
from attnx.methods import SCORE_DECIMALS
from attnx.pipeline import GivenModel, Request
from attnx.runs import FACTS, Cells, DatasetTask, RowCallback, as_setting
from attnx.targets import encoder_offset, head_logits, split


def reciprocal_rank(scores: Sequence[float], right: Collection[int], digits: int = SCORE_DECIMALS) -> float:
    """1 / rank of the first unit that is right, the highest score first.

    >>> reciprocal_rank([3.0, 1.0, 1.0], [1])
    0.41666666666666663
    """
    above, level, among = _standing(scores, right, digits)
    return sum(share / (above + place) for place, share in _first_places(level, among))


def is_first(scores: Sequence[float], right: Collection[int], digits: int = SCORE_DECIMALS) -> float:
    """1 where what is right has the highest score, its share of it where several have.

    >>> is_first([3.0, 3.0, 1.0], [1])
    0.5
    """
    above, level, among = _standing(scores, right, digits)
    return among / level if above == 0 else 0.0


def fixed_orders(units: int) -> Mapping[str, Sequence[float]]:
    """Orders that know nothing of the input, as scores."""
    forward = [float(-place) for place in range(units)]
    second = [0.5 if place == 1 else -place for place in range(units)]
    return {CHANCE: [0.0] * units, "(first)": forward, "(last)": forward[::-1], "(second)": second}


def _standing(scores: Sequence[float], right: Collection[int], digits: int) -> tuple[int, int, int]:
    """How many units stand above the best right one, how many level with it, and how many of these are right."""
    rounded = np.round(np.asarray(scores, dtype=np.float64), digits)
    chosen = rounded[list(right)]
    best = chosen.max()
    return int((rounded > best).sum()), int((rounded == best).sum()), int((chosen == best).sum())


def _first_places(level: int, among: int) -> list[tuple[int, float]]:
    """Each place, from 1, at which the first of `among` may stand in a random order of `level`, and how likely."""
    every = comb(level, among)
    return [(place, comb(level - place, among - 1) / every) for place in range(1, level - among + 2)]


_AT_ONCE = 64
"""Inputs that are asked together until enough of them are right."""
_PATIENCE = 20
"""Of inputs without end so many times as many as are wanted are tried."""


def answered_right(model: nn.Module, processor: Any, known: Iterator[Known], rows: int) -> tuple[list[Known], int]:
    """The first `rows` inputs that the model gets right, and how many it got wrong on the way."""
    right: list[Known] = []
    wrong = 0
    known = islice(known, _PATIENCE * rows)
    while len(right) < rows and (batch := list(islice(known, min(_AT_ONCE, 2 * rows)))):
        for item, margin in zip(batch, margins(model, processor, [item.request for item in batch]), strict=True):
            if len(right) == rows:
                break
            if margin > 0:
                right.append(item)
            else:
                wrong += 1
    return right, wrong


def margins(model: nn.Module, processor: Any, requests: Sequence[Request]) -> list[float]:
    """By how much each target wins: over what it stands against, or over the best of all others."""
    model = unwrap_model(model)
    adapter = adapter_for(model)

    def read(row: int, output: Any, place: int) -> float:
        logits = head_logits(model, output)
        if logits is None:
            raise ChoiceError(f"{type(model).__name__} predicts nothing, so nothing can be right; load a head")
        request = requests[row]
        where = adapter.explained(model, processor, request.prepared) if request.position is None else request.position
        seat = where - encoder_offset(output)
        return _margin(logits[place, seat] if logits.ndim == 3 else logits[place], request.target)

    return map_outputs(model, processor, [request.prepared for request in requests], read)


def check_labels(model: nn.Module, expected: Sequence[str], suite: str) -> list[str]:
    """The classes of the model, in the order of its logits; an error where it tells others apart."""
    names = getattr(model.config, "id2label", None) or {}
    result = [str(names[index]) for index in sorted(names)]
    if sorted(result) != sorted(expected):
        raise ChoiceError(
            f"suite {suite!r} asks a model that tells {', '.join(expected)} apart, "
            f"found {', '.join(result) or 'none'}; give one that was trained on its task"
        )
    return result


def token_of_each(tokenizer: Any, words: Sequence[str], suite: str) -> dict[str, int]:
    """Each word with its token; an error where the tokenizer has not one for it."""
    result = {word: tokenizer.convert_tokens_to_ids(word) for word in words}
    strange = [word for word, token in result.items() if token in (None, getattr(tokenizer, "unk_token_id", None))]
    if strange:
        raise ChoiceError(
            f"suite {suite!r} asks a model that knows words such as {strange[0]}, and this tokenizer does not; give "
            f"one that was trained on its task (see examples/training)"
        )
    return result


def _margin(logits: Tensor, target: Any) -> float:
    wanted, rival = split(target)
    if rival is not None:
        return float(logits[wanted] - logits[rival])
    others = logits.clone()
    others[wanted] = -torch.inf
    return float(logits[wanted] - others.max())


def by_rank(suite: Suite, trial: Trial, explainers: Explainers) -> SuiteTable:
    """Reciprocal rank and share found first, of all explainers, chance and fixed orders on the same inputs."""
    if suite.questions is None:
        raise InputError(f"suite {suite.name!r} has no questions to rank by; give it some, or a measure of its own")
    known, wrong = answered_right(trial.model, trial.processor, suite.questions(trial), trial.rows)
    if not known:
        raise InputError(
            f"suite {suite.name!r}: {type(trial.model).__name__} gets none of {wrong} inputs right, so it cannot tell "
            "what its answer hangs on; give a model that does the task, or other data"
        )
    table: SuiteTable = trial.keeping.result(
        Ranking(suite.name, explainers, wrong), GivenModel(trial.model, trial.processor), known, progress=trial.progress
    )
    return table


@dataclass(frozen=True)
class Ranking(DatasetTask[Known]):
    """The measurement: of each input the ranks that explainers, chance and fixed orders give to what is right."""

    name: ClassVar[str] = "truth"
    suite: str
    explainers: Explainers
    wrong: int
    """Inputs that were left out before; for the result."""

    def settings(self) -> dict[str, Any]:
        return {"suite": self.suite, **{name: as_setting(var) for name, var in vars(self.explainers).items()}}

    def cells(
        self, model: Any, processor: Any, things: Sequence[Known], tick: RowCallback, progress: bool
    ) -> Sequence[Cells]:
        requests = [item.request for item in things]
        scores = scores_of(model, processor, requests, self.explainers, label=self.suite, progress=progress)
        common = {
            "signed": {"names": list(scores.signed)},
            "refused": dict(scores.refused),
            FACTS: facts(provenance=scores.provenance),
        }
        return [{**self._ranks(scores, number, item), **common} for number, item in enumerate(things)]

    def result(self, cells: Iterable[Cells], left_out: Mapping[str, int]) -> SuiteTable:
        """What refused in one shard has no numbers in any."""
        if left_out:
            raise InputError(f"{with_left_out(f'suite {self.suite!r}', left_out)}; its inputs are measured all or none")
        collected = CollectedRows.of(cells)
        refused = _joined(collected.columns["refused"])
        record, orders = collected.provenance, tuple(fixed_orders(1))
        return SuiteTable(
            values={
                **{name: collected.array(f"of {name}") for name in self._names if name not in refused},
                **{name: collected.array(name) for name in orders},
            },
            fixed_orders=tuple(name for name in orders if name != CHANCE),
            refused=refused,
            wrong=self.wrong,
            signed=tuple(dict.fromkeys(name for signed in collected.columns["signed"] for name in signed["names"])),
            provenance={**record, "methods": collected.shared} if "methods" in record else record,
        )

    @property
    def _names(self) -> tuple[str, ...]:
        return (*self.explainers.methods, *self.explainers.references)

    def _ranks(self, scores: Scores, number: int, known: Known) -> Cells:
        cells: Cells = {f"of {name}": np.full(2, np.nan) for name in self._names}
        for name, rows in scores.rows.items():
            digits = scores.digits.get(name, SCORE_DECIMALS)
            cells[f"of {name}"] = _ranks(_by_unit(rows[number], known), known, digits)
        orders = fixed_orders(len(known.units)).items()
        return cells | {name: _ranks(order, known) for name, order in orders}


def _joined(several: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Explainer → the first reason that it gave."""
    result: dict[str, str] = {}
    for reasons in several:
        for name, reason in reasons.items():
            result.setdefault(name, reason)
    return result


def _by_unit(scores: Array, known: Known) -> list[float]:
    """Signed where the explainer is: what speaks against the answer stands last."""
    return [float(scores[list(positions)].sum()) for positions in known.units]


def _ranks(scores: Sequence[float], known: Known, digits: int = SCORE_DECIMALS) -> Array:
    return np.array([reciprocal_rank(scores, known.right, digits), is_first(scores, known.right, digits)])
