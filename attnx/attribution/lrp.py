"""LRP and AttnLRP: what each position adds to the score, by one backward pass through the linearized model.

Both are gradient times embedding in the model with its norms, activations and products linearized
(`attnx.linearize`). For `lrp` attention is a constant (CP-LRP, Ali et al. 2022): relevance follows the values that it
carries, and positions, sink and biases add up to the score. For `attn_lrp` attention responds (Achtibat et al. 2024),
and no sum is promised.
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
"""Less than a plain batch has: what backward needs is kept of every layer."""


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

    In a decoder the first position also gives what any token would give there. With `sink` that is a number of its own
    beside the biases, not a part of the first token; by default it is, where the first position sees itself alone. Of
    an encoder–decoder the first position of the output is its start, the same whatever is written: all that later
    positions take from it is the sink's. `value` = positions + `sink` + `biases`.
    """
    results: dict[int, Scored] = {}
    options = _Options(LRP, score, slice(0, 1) if sink is not False else None, label="lrp", progress=progress)

    def read(rows: list[int], run: LinearizedRun, entry: nn.Module | None) -> None:
        relevances = [_relevance(run, index, cases[row]) for index, row in enumerate(rows)]
        shares: Sequence[float] | Tensor | None = None
        if sink is not False and cases[rows[0]].prepared.is_encoder_decoder:
            shares = [_of_start(relevance, cases[row]) for relevance, row in zip(relevances, rows, strict=True)]
        elif sink is not False and entry is not None:
            shares = sink_shares(unwrap_model(model), entry, run.kernels, len(rows))
        if sink and shares is None:
            name = type(model).__name__
            raise ChoiceError(f"sink=True was requested, but the first position of {name} sees others, too")
        for index, (row, relevance) in enumerate(zip(rows, relevances, strict=True)):
            value = float(run.scores[index])
            biases = value - float(relevance.sum())
            facts: dict[str, float | str] = {"score": options.kind(model, cases), "value": value, "biases": biases}
            if shares is not None:
                relevance[cases[row].prepared.encoder_length] -= shares[index]
                facts["sink"] = float(shares[index])
            facts["account"] = _account(facts, float(relevance.sum()), alone=cases[row].target.against is None)
            results[row] = Scored(relevance.numpy(), facts, run.notes, signed=True)

    _run_each(model, processor, cases, options, read)
    return [results[row] for row in range(len(cases))]


def attn_lrp(
    model: nn.Module, processor: Any, cases: Sequence[Case], *, score: Score | None = None, progress: bool = False
) -> list[Scored]:
    """What each position adds to the target's margin where attention responds to it as well; signed.

    Positions do not add up to the score: by how much they miss it is the `gap`.
    """
    results: dict[int, Scored] = {}
    options = _Options(ATTN_LRP, score, label="attn_lrp", progress=progress)

    def read(rows: list[int], run: LinearizedRun, _: nn.Module | None) -> None:
        for index, row in enumerate(rows):
            relevance, value = _relevance(run, index, cases[row]), float(run.scores[index])
            total = float(relevance.sum())
            facts: dict[str, float | str] = {
                "score": options.kind(model, cases),
                "value": value,
                "gap": value - total,
                "account": f"positions {total:+.4g} of {value:+.4g}; no sum is promised",
            }
            results[row] = Scored(relevance.numpy(), facts, run.notes, signed=True)

    _run_each(model, processor, cases, options, read)
    return [results[row] for row in range(len(cases))]


def lrp_by_layer(
    model: nn.Module, processor: Any, cases: Sequence[Case], *, score: Score | None = None, progress: bool = False
) -> list[Array]:
    """For each case layer × position: the share of the score that each position holds when it enters that block.

    The first row is the input with its positions; biases above a layer make up what its row lacks of the score.
    """
    results: dict[int, Array] = {}
    options = _Options(LRP, score, layers=True, label="lrp by layer", progress=progress)

    def read(rows: list[int], run: LinearizedRun, _: nn.Module | None) -> None:
        for index, row in enumerate(rows):
            length = len(cases[row].prepared.positions)
            results[row] = torch.stack([layer.relevance[index, :length] for layer in run.layers]).cpu().numpy()

    _run_each(model, processor, cases, options, read)
    return [results[row] for row in range(len(cases))]


@dataclass(frozen=True)
class _Options:
    """Of the linearized runs of several cases."""

    path: Path
    score: Score | None
    ends: slice | None = None
    layers: bool = False
    label: str = ""
    progress: bool = False

    def kind(self, model: nn.Module, cases: Sequence[Case]) -> Score:
        return check_score(self.score, model, "margin", kind_of([case.target for case in cases]))


def _run_each(
    model: nn.Module,
    processor: Any,
    cases: Sequence[Case],
    options: _Options,
    read: Callable[[list[int], LinearizedRun, nn.Module | None], None],
) -> None:
    """Let `read` take the run of each batch, with the rows of its cases, and what embeds them; None for pixels."""
    model = unwrap_model(model)
    check_linearizable(model)
    kind, answers = options.kind(model, cases), kind_of([case.target for case in cases])
    adapter, pad_id = adapter_for(model), padding_id(model, processor)
    alone, shared = by_input(cases)

    def first(batch: Sequence[PreparedInput]) -> list[Tensor]:
        with eval_mode(model):
            return first_outputs(model, pad_id, batch)

    def run(function: Any, linearized: Any, inputs: dict[str, Any], rows: list[int], **others: Any) -> None:
        inputs, entry = gradient_entry(adapter, model, inputs)
        targets = encode_targets([cases[row].target for row in rows], next(iter(inputs.values())).device)
        scores = partial(function, model, inputs, targets, kind, answers=answers)
        result = linearized(
            model, scores, options.path, entry=entry, ends=options.ends, layers=options.layers, **others
        )
        read(rows, result, entry if isinstance(entry, nn.Module) else None)

    with (
        grad_mode(gradients=True),
        progress_bar(options.label, len(cases), options.progress, " scores", estimate=True) as bar,
    ):
        for indices, inputs in run_in_batches(
            model,
            [cases[row].prepared for row in alone],
            lambda batch: collate(model, batch, pad_id),
            first=first,
            pad_id=pad_id,
            together=not takes_logits_to_keep(model),
            at_most=min(MAX_BATCH_POSITIONS, max_batch_positions(model)),
        ):
            rows = [alone[index] for index in indices]
            run(score, linearized_run, inputs, rows)
            bar.update(len(rows))
        for rows in shared:
            inputs = collate(model, [cases[rows[0]].prepared], pad_id)
            run(score_each, linearized_runs, inputs, rows, after=bar.update)


def _relevance(run: LinearizedRun, index: int, case: Case) -> Tensor:
    """One number for each position of the case, padding left out."""
    if case.prepared.readers is not None:
        return _of_image_and_text(run, index, case.prepared, case.prepared.readers)
    states, length, boxes = run.entry.states[index], len(case.prepared.positions), case.prepared.boxes
    if states.ndim == 3 and boxes is not None:
        pixels = (states.double() * run.entry.gradient[index].double()).cpu()
        return torch.stack([pixels[:, :0].sum() if box is None else _inside(pixels, box).sum() for box in boxes])
    if len(states) < length or (boxes is not None and len(states) != length):
        raise CaptureError(
            f"the first block is entered by {len(states)} positions, but the adapter names {length}: the family needs "
            "an adapter of its own (see docs/adapters.md)"
        )
    parts = run.entry.relevance[index].cpu()
    audio_input = case.prepared.audio_input
    if audio_input is not None and case.prepared.sequences:
        # Gradients go back to the frames of the audio, and what counts is by how much they are not silent.
        output = case.prepared.sequences["output"]
        values = case.prepared.inputs[audio_input.entry]
        gradient = run.entry.gradient[index][:-output, : len(values)].T.double().cpu()
        sounding = (values - audio_input.quiet(values)).double().cpu()
        return torch.cat([audio_input.pooled(sounding * gradient), parts[-output:]])
    return parts[:length].clone()


def _of_start(relevance: Tensor, case: Case) -> float:
    """What later positions take from the start of an output; at its own position, of the first token, it is no sink."""
    start = case.prepared.encoder_length
    return float(relevance[start]) if case.target.position > start else 0.0


def _of_image_and_text(run: LinearizedRun, index: int, prepared: PreparedInput, readers: Tensor) -> Tensor:
    """Relevance of the pixels that each patch reads, and of each token; pixels of several inputs follow one another."""
    pixels, tokens = run.entries
    count = len(readers)
    begin = index * count if len(pixels.states) > count else 0
    here = slice(begin, begin + count)
    held = (pixels.states[here].double() * pixels.gradient[here].double()).flatten().cpu()
    parts = torch.zeros(len(prepared.positions) + 1, dtype=torch.float64)
    parts.index_add_(0, readers.flatten() % len(parts), held)  # −1, of which nobody reads anything, is the last
    words = tokens.relevance[index].cpu()
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
    title="LRP",
    paper="with constant attention: CP-LRP, Ali et al. 2022",
    costs="one run and one back",
    forwards=lambda positions, **options: 2,
    signed=True,
    needs=(ANSWER, SLOPES),
    options=("score", "sink"),
)
ATTN_LRP_METHOD = Reference(
    ATTN_LRP.name,
    attn_lrp,
    title="AttnLRP",
    paper="Achtibat et al. 2024",
    costs="one run and one back",
    forwards=lambda positions, **options: 2,
    signed=True,
    needs=(ANSWER, SLOPES),
    options=("score",),
)
