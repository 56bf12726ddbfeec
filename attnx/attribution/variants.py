"""Blanked variants to first order: some runs there and back for each input, whatever the number of its variants.

The score is a function of the embeddings. Its mean slope between the input and the input with nothing but blanks says
what each position adds on that way (integrated gradients of few steps), and were the function a plane, a variant would
lose the sum over its blanks. At both ends of the way that is right, between them it is an estimate, and says so
wherever it is shown. The slope at the input alone is no help: a classifier that is sure has none. `docs/references.md`
has how far both are off.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import partial
from inspect import signature
from itertools import chain, groupby
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor, nn

from attnx.adapters import PreparedInput, takes_logits_to_keep
from attnx.attribution.base import Array, Case
from attnx.attribution.baselines import Baseline
from attnx.attribution.gradients import integrated_gradients
from attnx.errors import AttnxError, ChoiceError
from attnx.hooks import (
    active_mode,
    collate,
    eval_mode,
    first_outputs,
    max_batch_positions,
    padding_id,
    run_in_batches,
    slack,
)
from attnx.linearize import EqualRows, LinearLayerMode
from attnx.progress import progress_bar
from attnx.targets import HEAD_KINDS, HeadKind, Score, Target, answered, encode_targets, kind_of, shift_target_position

_LARGEST = 4_096
"""Numbers of an answer that is kept; one over a vocabulary is not, for many would fill the memory."""

_Key: TypeAlias = tuple[nn.Module, PreparedInput, str, tuple[int, ...], int, str]


@dataclass(frozen=True, eq=False)
class OutputCache:
    """The outputs of one model for perturbed inputs."""

    kept: dict[_Key, tuple[HeadKind, Tensor]] = field(default_factory=dict)

    def keep(self, keys: Sequence[_Key], row: HeadKind, answers: Tensor) -> None:
        """What was read for each of these targets, in their order."""
        if answers[0].numel() <= _LARGEST:
            self.kept.update(zip(keys, ((row, answer.clone()) for answer in answers.detach()), strict=True))

    def scores(self, model: nn.Module, keys: Sequence[_Key], targets: Sequence[Target], kind: Score) -> list[float]:
        """The number of each target, off the answers that are kept of these."""
        if not keys:
            return []
        row, first = self.kept[keys[0]]
        answers = torch.stack([self.kept[key][1] for key in keys])
        return list(row.score(model, answers, encode_targets(targets, first.device), kind).tolist())


_cached_scores: ContextVar[OutputCache | None] = ContextVar("cached_outputs", default=None)


@contextmanager
def cached_outputs() -> Iterator[None]:
    """Cache the outputs of perturbed inputs within this block, in which the model must not change."""
    token = _cached_scores.set(OutputCache())
    try:
        yield
    finally:
        _cached_scores.reset(token)


def output_cache() -> OutputCache | None:
    """None where nothing is kept."""
    return _cached_scores.get()


def key_of(
    model: nn.Module, prepared: PreparedInput, baseline: Baseline, places: tuple[int, ...], target: Target, answers: str
) -> _Key:
    return model, prepared, baseline.name, places, target.position, answers


@dataclass(frozen=True)
class Perturbation:
    """Input number `case` with nothing at these `places`."""

    case: int
    places: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class PerturbedInputs(Sequence[PreparedInput]):
    """The inputs of variants, each made when it is read."""

    cases: Sequence[Case]
    variants: Sequence[Perturbation]
    baseline: Baseline

    def __len__(self) -> int:
        return len(self.variants)

    def __getitem__(self, row: Any) -> Any:
        return self.baseline.apply(self.whole(row), self.variants[row].places)

    def whole(self, row: int) -> PreparedInput:
        """The input itself."""
        return self.cases[self.variants[row].case].prepared

    def length(self, row: int) -> int:
        gone = len(self.variants[row].places) if self.baseline.shortens else 0
        return len(self.whole(row).positions) - gone


@dataclass(frozen=True, eq=False)
class PerturbationRuns:
    """What the runs of one measurement share: variants, all of them different, and what is read of each."""

    model: nn.Module
    pad_id: int | None
    inputs: PerturbedInputs
    wanted: Mapping[Perturbation, tuple[Target, ...]]
    kind: Score
    answers: str
    """The row of `HEAD_KINDS` that all targets name."""
    cache: OutputCache | None = None
    """Outputs kept for later measurements."""
    maps: LinearLayerMode = field(default_factory=LinearLayerMode)

    def readings(self, rows: Sequence[int]) -> list[tuple[int, Perturbation, Target]]:
        """What is read of these rows, in the order of their scores: place in the batch, variant, target."""
        variants = [self.inputs.variants[row] for row in rows]
        return [(place, variant, target) for place, variant in enumerate(variants) for target in self.wanted[variant]]

    def scores(self, rows: Sequence[int], kind: Score | None = None) -> Tensor:
        """The scores of what is `asked` of these rows, run together."""
        return self.read(rows, collate(self.model, [self.inputs[row] for row in rows], self.pad_id), kind=kind)

    def read(
        self, rows: Sequence[int], inputs: dict[str, Any], *, behind: int = 0, kind: Score | None = None
    ) -> Tensor:
        """The same of inputs that lack so many positions in front."""
        readings, device = self.readings(rows), next(iter(inputs.values())).device
        targets = encode_targets([self._read_at(target, variant) for _, variant, target in readings], device)
        targets[:, 1] -= behind
        of = torch.tensor([place for place, _, _ in readings], device=device)
        self.maps.begin(targets[:, 1].long() if len(readings) == len(rows) else None, EqualRows.of(inputs))
        row, answers = answered(self.model, inputs, targets, of, answers=self.answers)
        if self.cache is not None and kind is None:
            self.cache.keep([self.key(variant, target) for _, variant, target in readings], row, answers)
        return row.score(self.model, answers, targets, kind or self.kind)

    def key(self, variant: Perturbation, target: Target) -> Any:
        """The cache's key of a variant's output."""
        prepared = self.inputs.cases[variant.case].prepared
        return key_of(self.model, prepared, self.inputs.baseline, variant.places, target, self.answers)

    def _read_at(self, target: Target, variant: Perturbation) -> Target:
        """The target where it has moved to."""
        if not self.inputs.baseline.shortens:
            return target
        moved = HEAD_KINDS[target.kind].moved if target.kind else shift_target_position
        return moved(target, variant.places)


_WORTH_A_SEARCH = 1.0
"""How many times its own work a search must save."""

_EXPECTED = 5
"""Maps that it finds, about: of the last layer all but keys and values."""

_MISSES = 4
"""Maps that are read everywhere, after which there are no more: keys, values, and those of the layer below."""

_LEAST = 32
"""Positions that a run costs at least: so many are multiplied while the weights come out of memory."""

_SHORTEST = 4
"""Positions of an input that can show it: where there is but the answer's, everything seems unread."""

_BY: Score = "logit"
"""What is compared: a confident model's probability rounds to 1 whatever is lost below."""

Scores: TypeAlias = Callable[[Sequence[int], Score], Tensor]
"""(rows, kind) → their scores, run in some way."""

_unread_of_model: WeakKeyDictionary[nn.Module, frozenset[int]] = WeakKeyDictionary()
"""What the last search in a model gave. It is believed of no other run before it was tried."""


def find_unread_rows(runs: PerturbationRuns) -> None:
    """Have `runs.maps` leave out what nothing reads, by two variants of one text that differ as much as they can."""
    if len(runs.inputs):
        sample = _sample(runs)
        work = sum(map(runs.inputs.length, range(len(runs.inputs))))
        search(runs, sample, runs.scores, work=work, length=runs.inputs.length(sample[0]))


def search(runs: PerturbationRuns, sample: Sequence[int], scores: Scores, *, work: int, length: int) -> None:
    """The same by a sample of equal `length` and a way to run it; `work` is told in positions, too."""
    a_run = max(len(sample) * length, _LEAST)
    several = any(len(runs.wanted[runs.inputs.variants[row]]) > 1 for row in sample)  # of which all rows may be read
    if length < _SHORTEST or several or not _answer_at_one_end(runs) or not _pays(runs, work, a_run):
        return
    try:
        runs.maps.unread = _unread(runs, sample, scores)
    except (AttnxError, RuntimeError, IndexError):  # streams of other lengths, answers without a logit
        runs.maps.unread = frozenset()


def _pays(runs: PerturbationRuns, work: int, a_run: int) -> bool:
    """Whether so much work saves more than a search costs."""
    maps = sum(isinstance(module, nn.Linear) for module in runs.model.modules())
    tried = 2 if runs.model in _unread_of_model else 1 + _EXPECTED + _MISSES
    return work * _EXPECTED / max(maps, 1) >= _WORTH_A_SEARCH * a_run * tried


def _answer_at_one_end(runs: PerturbationRuns) -> bool:
    """Whether all inputs are read where the tried one is: at their first position, or at their last."""
    ends = {
        (target.position == 0, target.position == len(runs.inputs.whole(row).positions) - 1)
        for row, variant in enumerate(runs.inputs.variants)
        for target in runs.wanted[variant]
    }
    return all(first for first, _ in ends) or all(last for _, last in ends)


def _sample(runs: PerturbationRuns) -> list[int]:
    """Of a short text: it tells as much as a long one."""
    inputs = runs.inputs
    lengths = {variant.case: len(inputs.whole(row).positions) for row, variant in enumerate(inputs.variants)}
    enough = [length for length in lengths.values() if length >= 2 * _SHORTEST]
    case = next(case for case, length in lengths.items() if length == min(enough, default=max(lengths.values())))
    rows_of_case = [row for row, variant in enumerate(inputs.variants) if variant.case == case]
    by_count = sorted(rows_of_case, key=lambda row: len(inputs.variants[row].places))
    alike = [row for row in by_count if inputs.length(row) == inputs.length(by_count[0])]
    return sorted({alike[int(at * (len(alike) - 1))] for at in (0, 1)})


def _unread(runs: PerturbationRuns, sample: Sequence[int], scores: Scores) -> frozenset[int]:
    """The numbers of the maps of which only the answer's row is read."""
    runs.maps.unread = frozenset()
    whole = scores(sample, _BY)
    count, tolerance = runs.maps.count, 1e-6 * (1 + float(whole.abs().amax()))

    def tried(left_out: frozenset[int]) -> frozenset[int] | None:
        """Those of which rows were left out, where the answer stayed the same; None where it did not."""
        runs.maps.unread = left_out
        same = torch.allclose(scores(sample, _BY), whole, atol=tolerance, rtol=0)
        return frozenset(runs.maps.left_out) if same else None

    known = _unread_of_model.get(runs.model)
    if known is None or tried(known) != known:
        known = _unread_of_model[runs.model] = _from_the_last(count, tried)
    return known


def _from_the_last(count: int, tried: Callable[[frozenset[int]], frozenset[int] | None]) -> frozenset[int]:
    kept: frozenset[int] = frozenset()
    misses = 0
    for number in reversed(range(count)):
        left_out = tried(kept | {number})
        if left_out is None:
            misses += 1
        else:
            kept = left_out  # without this one, where it has no rows by position
        if misses == _MISSES:
            break
    return kept


_WORTH_IT = 4_096
"""Positions that must be saved of an input: short ones run better many inputs together."""

_FULL = 2
"""A batch is a half of what it may be: all enter where the first does, so that fewer together run less twice."""

_BEHIND = 8
"""Positions of beginnings that a batch may hold, for each position that it may run."""

_SAMPLE = 4
"""Variants by which rows are found that nothing reads: the last ones, which have the least to run."""

_BY_POSITION = {"input_ids", "inputs_embeds", "attention_mask", "token_type_ids"}


def behind_beginnings(runs: PerturbationRuns, at_most: int) -> Iterator[tuple[list[int], Tensor]]:
    """Rows that need not be run from their beginning, with their scores; none where the model does not show it."""
    if not _can_be_tried(runs):
        return
    proven, everywhere = False, runs.maps.unread
    for _, rows in groupby(_late(runs), key=lambda row: runs.inputs.variants[row].case):
        late = sorted(rows, key=lambda row: _first(runs, row))
        if sum(_first(runs, row) for row in late) < _WORTH_IT:
            continue
        try:
            kept = _Kept.of(runs, late[0])
            proven = proven or kept.agrees(late[len(late) // 2])
            if not proven:
                return
            kept.find_unread_rows(late)
            for batch in _batches([_first(runs, row) for row in late], runs.inputs.length(late[0]), at_most // _FULL):
                yield late[batch], kept.scores(late[batch])
        except Exception:  # whatever a model's own kind of memory leads to; the plain way is always there
            return
        finally:
            runs.maps.unread = everywhere


def _can_be_tried(runs: PerturbationRuns) -> bool:
    """Whether the model takes kept keys and values, and nothing but tokens; what moves up is changed everywhere."""
    several_stacks = getattr(runs.model.config, "is_encoder_decoder", False)
    takes = "past_key_values" in signature(runs.model.forward).parameters
    one_place = not any(target.beside for several in runs.wanted.values() for target in several)  # spans name more
    plain = not runs.inputs.baseline.shortens and not several_stacks
    return takes and plain and one_place and runs.inputs[0].inputs.keys() <= _BY_POSITION


def _late(runs: PerturbationRuns) -> list[int]:
    """Rows that change something before their answer, by input."""
    variants = runs.inputs.variants
    changed = [row for row, variant in enumerate(variants) if variant.places]
    read = [
        row for row in changed if 0 < _first(runs, row) <= min(target.position for target in runs.wanted[variants[row]])
    ]
    return sorted(read, key=lambda row: variants[row].case)


def _first(runs: PerturbationRuns, row: int) -> int:
    """The first place at which a variant differs from its input."""
    return min(runs.inputs.variants[row].places)


def _batches(firsts: Sequence[int], length: int, at_most: int) -> Iterator[slice]:
    """Slices of variants in the order of their first places, so many that they fill a batch."""
    start = 0
    for stop in range(1, len(firsts)):
        count, begins = stop - start + 1, firsts[start]
        if count * (length - begins) > at_most or count * length > _BEHIND * at_most:
            yield slice(start, stop)
            start = stop
    yield slice(start, len(firsts))


@dataclass(frozen=True, eq=False)
class _Kept:
    """The keys and values of one input."""

    runs: PerturbationRuns
    cache: Any

    @classmethod
    def of(cls, runs: PerturbationRuns, row: int) -> _Kept:
        """Of the input that this row is a variant of."""
        whole = runs.inputs.baseline.apply(runs.inputs.whole(row), ())
        output = runs.model(**collate(runs.model, [whole], runs.pad_id), use_cache=True)
        return cls(runs, output.past_key_values)

    def scores(self, rows: Sequence[int], kind: Score | None = None) -> Tensor:
        """The scores of variants of this input, entering at the first place of the first of them."""
        runs, start = self.runs, _first(self.runs, rows[0])
        inputs = collate(runs.model, [runs.inputs[row] for row in rows], runs.pad_id)
        rest = {name: value if name == "attention_mask" else value[:, start:] for name, value in inputs.items()}
        past = copy.deepcopy(self.cache)  # a run adds its own to it
        past.crop(start - past.get_seq_length())  # so many are taken off
        past.batch_repeat_interleave(len(rows))
        return runs.read(rows, {**rest, "past_key_values": past, "use_cache": True}, behind=start, kind=kind)

    def find_unread_rows(self, rows: Sequence[int]) -> None:
        """Of runs behind a beginning: the last variants tell it cheaply."""
        lefts = [self.runs.inputs.length(row) - _first(self.runs, row) for row in rows]
        sample, length = rows[-_SAMPLE:], lefts[-_SAMPLE:][0]
        search(self.runs, sample, self.scores, work=sum(lefts), length=length)

    def agrees(self, row: int) -> bool:
        """Whether this variant gets what a plain run gives it; by its logit, for a probability may be 1 anyway."""
        plain = self.runs.scores([row], "logit")
        return torch.allclose(self.scores([row], "logit"), plain, atol=slack(plain), rtol=0)


def measure(
    model: nn.Module,
    processor: Any,
    cases: Sequence[Case],
    variants: Sequence[Perturbation],
    *,
    kind: Score,
    baseline: Baseline,
    at_once: int | None = None,
    label: str = "blank-out",
    progress: bool = False,
) -> Array:
    """The score of each variant's target. The same variant twice is run once, and for all cases of one input."""
    wanted = _targets(cases, variants)
    inputs = PerturbedInputs(cases, list(wanted), baseline)
    answers = kind_of([case.target for case in cases])
    cache = None if baseline.shortens else output_cache()
    runs = PerturbationRuns(model, padding_id(model, processor), inputs, wanted, kind, answers, cache)
    scores = _cached(runs)
    runs = _remaining(runs, scores)
    at_most = at_once or max_batch_positions(model)
    done: set[int] = set()
    with (
        eval_mode(model),
        active_mode(runs.maps),
        progress_bar(label, len(runs.inputs), progress, " runs", estimate=True) as shown,
    ):
        find_unread_rows(runs)
        for rows, values in chain(behind_beginnings(runs, at_most), _whole(runs, done, at_most)):
            readings = ((variant, target) for _, variant, target in runs.readings(rows))
            scores.update(zip(readings, values.tolist(), strict=True))
            done.update(rows)
            shown.update(len(rows))
    first = _first_of_input(cases)
    return np.array(
        [scores[_of_first_case(variant, first), cases[variant.case].target] for variant in variants], dtype=np.float64
    )


def _targets(cases: Sequence[Case], variants: Sequence[Perturbation]) -> dict[Perturbation, tuple[Target, ...]]:
    """What is read of each different variant; those of cases that share an input are the same."""
    first = _first_of_input(cases)
    targets: dict[Perturbation, dict[Target, None]] = {}
    for perturbation in variants:
        targets.setdefault(_of_first_case(perturbation, first), {})[cases[perturbation.case].target] = None
    return {variant: tuple(each) for variant, each in targets.items()}


def _cached(runs: PerturbationRuns) -> dict[tuple[Perturbation, Target], float]:
    """The scores that an earlier measurement has cached."""
    if runs.cache is None:
        return {}
    pairs = [(variant, target) for variant, targets in runs.wanted.items() for target in targets]
    known = [pair for pair in pairs if runs.key(*pair) in runs.cache.kept]
    targets = [target for _, target in known]
    scores = runs.cache.scores(runs.model, [runs.key(*pair) for pair in known], targets, runs.kind)
    return dict(zip(known, scores, strict=True))


def _remaining(runs: PerturbationRuns, known: Collection[tuple[Perturbation, Target]]) -> PerturbationRuns:
    """The runs whose scores are not known yet."""
    left = {
        variant: targets
        for variant, targets in runs.wanted.items()
        if any((variant, target) not in known for target in targets)
    }
    return replace(runs, inputs=replace(runs.inputs, variants=list(left)), wanted=left)


def _first_of_input(cases: Sequence[Case]) -> list[int]:
    """For each case the first that has its input."""
    numbers: dict[int, int] = {}
    return [numbers.setdefault(id(case.prepared), number) for number, case in enumerate(cases)]


def _of_first_case(variant: Perturbation, first: Sequence[int]) -> Perturbation:
    return Perturbation(first[variant.case], variant.places)


def _whole(runs: PerturbationRuns, done: Collection[int], at_most: int) -> Iterator[tuple[list[int], Tensor]]:
    """The rows that are not done when this begins, with their scores, each run from its beginning."""
    inputs = runs.inputs
    left = [row for row in range(len(inputs)) if row not in done]
    some = PerturbedInputs(inputs.cases, [inputs.variants[row] for row in left], inputs.baseline)
    for places, _ in run_in_batches(
        runs.model,
        some,
        lambda several: None,
        first=partial(first_outputs, runs.model, runs.pad_id),
        pad_id=runs.pad_id,
        entry=inputs.baseline.entry,
        together=not takes_logits_to_keep(runs.model),
        at_most=at_most,
        lengths=[some.length(place) for place in range(len(some))],
        shapes=[some.whole(place).shape for place in range(len(some))],
    ):
        rows = [left[place] for place in places]
        yield rows, runs.scores(rows)


STEPS = 8
"""Points on the way at which the slope is taken."""

FIRST_ORDER = "first-order estimate"
NOTE = f"{{}} is a {FIRST_ORDER} by slopes, not measured by blanked runs: exact=True measures"


def estimate(
    model: nn.Module,
    processor: Any,
    cases: Sequence[Case],
    variants: Sequence[Perturbation],
    *,
    kind: Score,
    baseline: Baseline,
    label: str = "estimate",
    progress: bool = False,
) -> Array:
    """The score of each variant's target, as `measure` gives it, to first order."""
    if baseline.shortens:
        raise ChoiceError("exact=False was requested, but a deletion has no gradient; give baseline='mean' or a token")
    if not variants:
        return np.zeros(0)
    inputs_used = sorted({variant.case for variant in variants})
    whole = measure(
        model, processor, cases, list(map(Perturbation, inputs_used)), kind=kind, baseline=baseline, label=label
    )
    options: dict[str, Any] = {"steps": STEPS, "score": kind, "baseline": baseline.name, "progress": progress}
    slopes = integrated_gradients(model, processor, [cases[number] for number in inputs_used], **options)
    by_case = {number: (score, slope.scores) for number, score, slope in zip(inputs_used, whole, slopes, strict=True)}
    return np.array(
        [by_case[variant.case][0] - by_case[variant.case][1][list(variant.places)].sum() for variant in variants]
    )
