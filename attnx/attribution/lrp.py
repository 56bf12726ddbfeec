"""Value path and whole path: what each position adds to the answer, by one run of the frozen model there and back.

Both are gradient times embedding in the model with its norms, activations and products frozen (`capturing.frozen`).
Along the *value path* attention is frozen, too: what is followed is the values that it carries, and positions, sink
and biases add up to the score. Along the *whole path* attention responds; it is a second opinion at the same price, and
promises no sum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from attnx.adapters import Box, PreparedInput, adapter_for, takes_logits_to_keep
from attnx.attribution.base import ANSWER, SLOPES, Array, Case, Reference, Scored, by_input
from attnx.errors import CaptureError, ChoiceError
from attnx.hooks import (
    collate,
    eval_mode,
    first_outputs,
    grad_mode,
    gradient_entry,
    max_batch_positions,
    padding_id,
    run_in_batches,
    unwrap_model,
)
from attnx.linearize import (
    ATTN_LRP,
    LRP,
    LinearizedRun,
    Path,
    check_linearizable,
    linearized_run,
    linearized_runs,
    sink_shares,
)
from attnx.progress import progress_bar
from attnx.targets import Score, check_score, encode_targets, kind_of, score_each
from attnx.targets.score import score

MAX_BATCH_POSITIONS = 1_024
"""Less than a plain batch has: what the way back needs is kept of every layer."""


def lrp(
    model: nn.Module,
    processor: Any,
    cases: Sequence[Case],
    *,
    score: Score | None = None,
    sink: bool | None = None,
    progress: bool = False,
) -> list[Scored]:
    """What each position adds to the target's margin through the values that attention carries; signed.

    In a decoder the first position also gives what any token would give there. With `sink` that is kept apart: a
    number of its own beside the biases, not a part of the first token. By default it is, where the first position
    sees itself alone. Of an encoder–decoder the first position of the output is its start, the same whatever is
    written: all that later positions take from it is the sink's. `value` = positions + `sink` + `biases`.
    """
    found: dict[int, Scored] = {}
    how = _How(LRP, score, slice(0, 1) if sink is not False else None, label="value path", progress=progress)

    def read(rows: list[int], run: LinearizedRun, entry: nn.Module | None) -> None:
        every = [_parts(run, place, cases[row]) for place, row in enumerate(rows)]
        shares: Sequence[float] | Tensor | None = None
        if sink is not False and cases[rows[0]].prepared.is_encoder_decoder:
            shares = [_of_start(parts, cases[row]) for parts, row in zip(every, rows, strict=True)]
        elif sink is not False and entry is not None:
            shares = sink_shares(unwrap_model(model), entry, run.kernels, len(rows))
        if sink and shares is None:
            raise ChoiceError(f"sink=True asked, but the first position of {type(model).__name__} sees others, too")
        for place, row in enumerate(rows):
            parts, value = every[place], float(run.scores[place])
            biases = value - float(parts.sum())
            facts: dict[str, float | str] = {
                "score": how.kind(model, cases),
                "value": value,
                "biases": biases,
            }
            if shares is not None:
                parts[cases[row].prepared.encoder_length] -= shares[place]
                facts["sink"] = float(shares[place])
            facts["account"] = _account(facts, float(parts.sum()), alone=cases[row].target.against is None)
            found[row] = Scored(parts.numpy(), facts, run.notes, signed=True)

    _each_run(model, processor, cases, how, read)
    return [found[row] for row in range(len(cases))]


def attn_lrp(
    model: nn.Module, processor: Any, cases: Sequence[Case], *, score: Score | None = None, progress: bool = False
) -> list[Scored]:
    """What each position adds to the target's margin where attention responds to it as well; signed.

    Positions do not add up to the score: by how much they miss it is the `gap`.
    """
    found: dict[int, Scored] = {}
    how = _How(ATTN_LRP, score, label="whole path", progress=progress)

    def read(rows: list[int], run: LinearizedRun, _: nn.Module | None) -> None:
        for place, row in enumerate(rows):
            parts, value = _parts(run, place, cases[row]), float(run.scores[place])
            gap = value - float(parts.sum())
            facts: dict[str, float | str] = {
                "score": how.kind(model, cases),
                "value": value,
                "gap": gap,
            }
            facts["account"] = f"positions {value - gap:+.4g} of {value:+.4g}; no sum is promised"
            found[row] = Scored(parts.numpy(), facts, run.notes, signed=True)

    _each_run(model, processor, cases, how, read)
    return [found[row] for row in range(len(cases))]


def lrp_by_layer(
    model: nn.Module, processor: Any, cases: Sequence[Case], *, score: Score | None = None, progress: bool = False
) -> list[Array]:
    """For each case level × position: what each position holds of the score when it enters that block.

    The first row is the input with its place; biases above a level make up what its row lacks of the score.
    """
    found: dict[int, Array] = {}
    how = _How(LRP, score, layers=True, label="value path by level", progress=progress)

    def read(rows: list[int], run: LinearizedRun, _: nn.Module | None) -> None:
        for place, row in enumerate(rows):
            length = len(cases[row].prepared.positions)
            found[row] = torch.stack([layer.relevance[place, :length] for layer in run.layers]).cpu().numpy()

    _each_run(model, processor, cases, how, read)
    return [found[row] for row in range(len(cases))]


@dataclass(frozen=True)
class _How:
    """What is asked of the frozen runs of a batch of cases."""

    path: Path
    score: Score | None
    ends: slice | None = None
    layers: bool = False
    label: str = ""
    progress: bool = False

    def kind(self, model: nn.Module, cases: Sequence[Case]) -> Score:
        return check_score(self.score, model, "margin", kind_of([case.target for case in cases]))


def _each_run(
    model: nn.Module,
    processor: Any,
    cases: Sequence[Case],
    how: _How,
    read: Callable[[list[int], LinearizedRun, nn.Module | None], None],
) -> None:
    """Have batch by batch its run `read`, with the rows of its cases, and what embeds them; None for pixels."""
    model = unwrap_model(model)
    check_linearizable(model)
    kind, answers = how.kind(model, cases), kind_of([case.target for case in cases])
    adapter, pad_id = adapter_for(model), padding_id(model, processor)

    def first(several: Sequence[PreparedInput]) -> list[Tensor]:
        with eval_mode(model):
            return first_outputs(model, pad_id, several)

    def asked_of(inputs: dict[str, Any], rows: Sequence[int]) -> tuple[nn.Module, dict[str, Any], Tensor, Score]:
        targets = encode_targets([cases[row].target for row in rows], next(iter(inputs.values())).device)
        return model, inputs, targets, kind

    alone, shared = by_input(cases)
    with (
        grad_mode(gradients=True),
        progress_bar(how.label, len(cases), how.progress, " scores", estimate=True) as shown,
    ):
        for places, inputs in run_in_batches(
            model,
            [cases[row].prepared for row in alone],
            lambda several: collate(model, several, pad_id),
            first=first,
            pad_id=pad_id,
            together=not takes_logits_to_keep(model),
            at_most=min(MAX_BATCH_POSITIONS, max_batch_positions(model)),
        ):
            rows, (inputs, entry) = [alone[place] for place in places], gradient_entry(adapter, model, inputs)
            scores = partial(score, *asked_of(inputs, rows), answers=answers)
            run = linearized_run(model, scores, how.path, entry=entry, ends=how.ends, layers=how.layers)
            read(rows, run, entry if isinstance(entry, nn.Module) else None)
            shown.update(len(rows))
        for rows in shared:
            inputs, entry = gradient_entry(adapter, model, collate(model, [cases[rows[0]].prepared], pad_id))
            each = partial(score_each, *asked_of(inputs, rows), answers=answers)
            asked: dict[str, Any] = {"ends": how.ends, "layers": how.layers, "after": shown.update}
            run = linearized_runs(model, each, how.path, entry=entry, **asked)
            read(rows, run, entry if isinstance(entry, nn.Module) else None)


def _parts(run: LinearizedRun, place: int, case: Case) -> Tensor:
    """One number for each position of the case, padding left out."""
    if case.prepared.readers is not None:
        return _of_both(run, place, case.prepared, case.prepared.readers)
    states, length, boxes = run.entry.states[place], len(case.prepared.positions), case.prepared.boxes
    if states.ndim == 3 and boxes is not None:
        pixels = (states.double() * run.entry.gradient[place].double()).cpu()
        return torch.stack([pixels[:, :0].sum() if box is None else _inside(pixels, box).sum() for box in boxes])
    if len(states) < length or (boxes is not None and len(states) != length):
        raise CaptureError(
            f"the first block is entered by {len(states)} positions, but the adapter names {length}: the family needs "
            "an adapter of its own (see docs/adapters.md)"
        )
    parts = run.entry.relevance[place].cpu()
    audio_input = case.prepared.audio_input
    if audio_input is not None and case.prepared.sequences:
        # Of sound the run goes down to the frames that go in, and what counts is by how much they are not silent.
        output = case.prepared.sequences["output"]
        values = case.prepared.inputs[audio_input.entry]
        gradient = run.entry.gradient[place][:-output, : len(values)].T.double().cpu()
        sounding = (values - audio_input.quiet(values)).double().cpu()
        return torch.cat([audio_input.pooled(sounding * gradient), parts[-output:]])
    return parts[:length].clone()


def _of_start(parts: Tensor, case: Case) -> float:
    """What later positions take from the start of an output, by the values of its self-attention, which is all that
    reaches them; what it says at its own place, of the first token, is no sink's."""
    start = case.prepared.encoder_length
    return float(parts[start]) if case.target.position > start else 0.0


def _of_both(run: LinearizedRun, place: int, prepared: PreparedInput, readers: Tensor) -> Tensor:
    """Of a picture with a text: what the pixels that each patch reads hold of the score, and what each token does.

    Of several inputs that ran together the pixels lie one behind the other.
    """
    pixels, tokens = run.entries
    count = len(readers)
    begin = place * count if len(pixels.states) > count else 0
    here = slice(begin, begin + count)
    held = (pixels.states[here].double() * pixels.gradient[here].double()).flatten().cpu()
    parts = torch.zeros(len(prepared.positions) + 1, dtype=torch.float64)
    parts.index_add_(0, readers.flatten() % len(parts), held)  # −1, of which nobody reads anything, is the last
    words = tokens.relevance[place].cpu()
    parts[: len(words)] += words
    return parts[:-1]


def _inside(pixels: Tensor, box: Box) -> Tensor:
    left, top, right, bottom = box
    return pixels[:, top:bottom, left:right]


def _account(facts: dict[str, float | str], positions: float, *, alone: bool) -> str:
    sink = f", sink {facts['sink']:+.4g}" if "sink" in facts else ""
    over = " over the mean of all others" if facts["score"] == "margin" and alone else ""
    whole = f"{facts['score']}{over} {facts['value']:+.4g}"
    return f"{whole} = positions {positions:+.4g}{sink}, biases {facts['biases']:+.4g}"


LRP_METHOD = Reference(
    LRP.name,
    lrp,
    title="value path",
    paper="the model frozen but for what values carry",
    costs="two runs and one back",
    forwards=lambda positions, **options: 3,
    signed=True,
    needs=(ANSWER, SLOPES),
    options=("score", "sink"),
)
ATTN_LRP_METHOD = Reference(
    ATTN_LRP.name,
    attn_lrp,
    title="whole path",
    paper="the same with attention that responds",
    costs="two runs and one back",
    forwards=lambda positions, **options: 3,
    signed=True,
    needs=(ANSWER, SLOPES),
    options=("score",),
)
