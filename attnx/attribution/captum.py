"""Captum's attribution methods on the embeddings of one input, and their baselines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnx.adapters import ENTRIES, Adapter, PreparedInput, adapter_for, takes_logits_to_keep
from attnx.attribution.base import Case, Scored, by_input
from attnx.attribution.baselines import Named, choose_baseline, same_by_embeddings, takes_embeddings
from attnx.errors import AttnxError, ChoiceError, InputError, in_a_line
from attnx.hooks import (
    MAX_BATCH_POSITIONS,
    EmbeddingOverride,
    GradientCheck,
    active_mode,
    collate,
    eval_mode,
    grad_mode,
    max_batch_positions,
    missing_gradient_reason,
    padding_id,
    run_in_batches,
    unwrap_model,
)
from attnx.linearize import LinearLayerMode
from attnx.progress import progress_bar
from attnx.registry import unknown
from attnx.targets import Score, check_score, encode_targets, first_output, kind_of
from attnx.targets.score import score

Reduction: TypeAlias = Literal["sum", "absolute sum", "norm", "mean"]
REDUCTIONS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "sum": lambda vectors: vectors.sum(-1),
    "absolute sum": lambda vectors: vectors.sum(-1).abs(),
    "norm": lambda vectors: vectors.norm(dim=-1),
    "mean": lambda vectors: vectors.mean(-1),
}
"""From a vector for each position to a number: the signed sum over its dimensions, that without its sign, L2, mean."""

Embed: TypeAlias = Callable[[Tensor], Tensor]
"""Token ids → what goes into the model as `inputs_embeds`."""


@dataclass(frozen=True, eq=False)
class Batch:
    """Some cases as Captum wants them."""

    cases: tuple[Case, ...]
    values: Tensor
    """batch × position × width of embeddings, batch × channel × height × width of pixels, or batch × what goes in of
    sound; of sound with an output behind it batch × all numbers of both."""
    forward: Callable[..., Tensor]
    """(values, *extra) → the score of each case's target."""
    extra: tuple[Tensor, ...]
    """Everything else that the forward needs, with the batch as first axis."""
    enter: Callable[[Sequence[PreparedInput]], Tensor]
    """Other inputs of the same shape as values, for baselines."""

    @property
    def shared(self) -> bool:
        """Whether all cases are of one input, which stands in `values` once; scores are still one for each case."""
        return len(self.cases) > len(self.values)


Facts: TypeAlias = dict[str, float | str]
Explainer: TypeAlias = Callable[[Batch], tuple[Tensor, list[Facts]]]
"""A batch → attributions of the shape of its values, and what else is to be known of each case."""


def attribute(
    model: nn.Module,
    processor: Any,
    cases: Sequence[Case],
    explainer: Explainer,
    *,
    kind: Score | None,
    reduction: str,
    at_once: int = MAX_BATCH_POSITIONS,
    embed: Embed | None = None,
    gradients: bool = True,
    shares: bool = False,
    label: str,
    progress: bool,
) -> list[Scored]:
    """Run an explainer over all cases, at most `at_once` positions together; without `gradients` it has no slopes.

    One that `shares` takes all cases of one input at once (see `Batch.shared`).
    """
    model = unwrap_model(model)
    if not isinstance(reduction, str) or reduction not in REDUCTIONS:
        raise ChoiceError(unknown("reduction", reduction, REDUCTIONS))
    answers = kind_of([case.target for case in cases])
    chosen_kind = check_score(kind, model, "logit", answers)
    adapter, pad_id = adapter_for(model), padding_id(model, processor)
    alone, shared = by_input(cases) if shares else (list(range(len(cases))), [])
    prepared = [cases[row].prepared for row in alone]
    scored: dict[int, Scored] = {}
    check = GradientCheck()

    def explain(rows: Sequence[int], inputs: dict[str, Tensor]) -> None:
        batch = _batch(entry, inputs, [cases[row] for row in rows], chosen_kind)
        attributions, facts = _explained(explainer, batch, check, label, model)
        for row, attribution, fact in zip(rows, attributions.detach().double(), facts, strict=True):
            vectors = _vectors(attribution, cases[row].prepared)
            scores = REDUCTIONS[reduction](vectors).cpu().numpy()
            notes = _rounding_note(vectors, reduction, label)
            scored[row] = Scored(scores, {"score": chosen_kind, **fact}, notes, signed=reduction in ("sum", "mean"))
        shown.update(len(rows))

    with (
        eval_mode(model, gradients=gradients),
        active_mode(LinearLayerMode(check)),
        progress_bar(label, len(cases), progress, " scores", estimate=True) as shown,
    ):
        entry = _entry(model, adapter, processor, cases[0].prepared, embed)
        for places, inputs in run_in_batches(
            model,
            prepared,
            entry.inputs,
            first=partial(_first_answer, entry),
            pad_id=pad_id,
            entry=entry.name,
            together=not takes_logits_to_keep(model),
            at_most=min(at_once, max_batch_positions(model)),
        ):
            explain([alone[place] for place in places], inputs)
        for rows in shared:
            explain(rows, entry.inputs([cases[rows[0]].prepared]))
    return [scored[row] for row in range(len(cases))]


def _explained(
    explainer: Explainer, batch: Batch, check: GradientCheck, label: str, model: nn.Module
) -> tuple[Tensor, list[Facts]]:
    def forward(*values: Any) -> Tensor:
        return check.follow(batch.forward(*values))

    instead = "use methods=['blankout'], which needs no gradients"
    try:
        explained = explainer(replace(batch, forward=forward))
    except (AttnxError, MemoryError):
        raise
    except Exception as error:  # whatever a model without slopes can lead to: quantised ones have integers for weights
        if check.operation is None:
            raise InputError(
                f"{label} cannot be measured on this {type(model).__name__} ({in_a_line(error)}); {instead}"
            ) from error
    if check.operation is not None:
        raise InputError(f"{label} cannot be measured: {missing_gradient_reason(model, check.operation)}; {instead}")
    return explained


@dataclass(frozen=True, eq=False)
class _Entry:
    """How inputs enter the model as numbers that have a gradient."""

    model: nn.Module
    name: str
    """inputs_embeds, pixel_values, or what sound goes in by."""
    pad_id: int | None
    embed: Embed | None
    embed_output: Embed | None = None
    """Of an encoder–decoder: what embeds the output, which stands behind the source in what is attributed."""
    table: Tensor | None = None
    """Of a model that takes ids alone: the rows of its embedding, for which others stand in as it takes them."""

    def inputs(self, prepared: Sequence[PreparedInput]) -> dict[str, Tensor]:
        """The model's keyword arguments, what is attributed under the entry's name."""
        # A clone of what was made in inference mode may take part in a graph, the original may not.
        inputs = {
            name: value.clone() if isinstance(value, Tensor) and value.is_inference() else value
            for name, value in collate(self.model, prepared, self.pad_id).items()
        }
        if self.embed_output is not None and self.name in ENTRIES:
            with grad_mode(gradients=False):
                output = self.embed_output(inputs.pop("decoder_input_ids"))
            inputs[self.name] = torch.cat([inputs[self.name].flatten(1), output.flatten(1)], dim=1)
        if self.embed is not None and "input_ids" in inputs:
            with grad_mode(gradients=False):
                inputs["inputs_embeds"] = self.embed(inputs["input_ids"])
                if self.table is None:
                    del inputs["input_ids"]
                if self.embed_output is not None:
                    inputs["inputs_embeds"] = self._joined(inputs, self.embed_output)
        return inputs

    def score(
        self, values: Tensor, prepared: PreparedInput, others: dict[str, Tensor], *how: Any, **answers: Any
    ) -> Tensor:
        """That of the model, into which the values go."""
        entered = {**self.named(values, prepared), **others}
        if self.table is None:
            return score(self.model, entered, *how, **answers)
        standing = EmbeddingOverride(self.table, values)
        with active_mode(standing):
            tensor = score(self.model, entered, *how, **answers)
        if not standing.used:
            raise InputError(
                f"{type(self.model).__name__} takes no inputs_embeds, and embeds its tokens in a way that is not seen, "
                "so gradients cannot reach them; use methods=['blankout'], which needs none"
            )
        return tensor

    def _joined(self, inputs: dict[str, Tensor], embed: Embed) -> Tensor:
        source, output = inputs["inputs_embeds"], embed(inputs.pop("decoder_input_ids"))
        if source.shape[-1] != output.shape[-1]:
            raise InputError(
                f"{type(self.model).__name__} embeds its source in {source.shape[-1]} and its output in "
                f"{output.shape[-1]} numbers, so their gradients are not held together; use methods=['lrp']"
            )
        return torch.cat([source, output], dim=1)

    def named(self, values: Tensor, prepared: PreparedInput) -> dict[str, Tensor]:
        """What is attributed, by the names under which the model takes it; a copy, which CTRL, GIT and BLIP change."""
        if self.table is not None:
            return {}
        values = values.clone()
        if self.embed_output is None:
            return {self.name: values}
        if self.name in ENTRIES:
            audio, output = split_streams(values, prepared)
            return {self.name: audio, "decoder_inputs_embeds": output}
        source = next(iter(prepared.sequences.values()))
        return {"inputs_embeds": values[:, :source], "decoder_inputs_embeds": values[:, source:]}


def _entry(model: nn.Module, adapter: Adapter, processor: Any, example: PreparedInput, embed: Embed | None) -> _Entry:
    pad_id = padding_id(model, processor)
    if example.joined:
        raise InputError(
            "Captum attributes one input at a time, and here a picture and a text are two; use "
            "methods=['lrp', 'attn_lrp', 'blankout']"
        )
    if "pixel_values" in example.inputs:
        return _Entry(model, "pixel_values", pad_id, None)
    if example.audio_input is not None:
        output = adapter.decoder_embeddings(model) if adapter.decoder_embeddings is not None else None
        return _Entry(model, example.audio_input.entry, pad_id, None, output)
    same = same_by_embeddings(model, adapter, processor, example) if embed is None else takes_embeddings(model) or None
    if same is None:
        table = getattr(adapter.embedding_module(model), "weight", None)
        if embed is not None or example.is_encoder_decoder or not isinstance(table, Tensor):
            raise InputError(
                f"{type(model).__name__} does not run on inputs_embeds alone, so gradients cannot reach its tokens; "
                "use methods=['blankout'], which needs none"
            )
        return _Entry(model, "inputs_embeds", pad_id, partial(_rows_of, table), table=table)
    if not same:
        raise InputError(
            f"{type(model).__name__} answers differently to inputs_embeds than to the same input_ids, so its "
            "gradients would explain another answer; use methods=['blankout']"
        )
    output = adapter.decoder_embeddings(model) if adapter.decoder_embeddings is not None else None
    return _Entry(model, "inputs_embeds", pad_id, embed or adapter.embedding_module(model), output)


def _rows_of(table: Tensor, ids: Tensor) -> Tensor:
    return F.embedding(ids, table)


def _first_answer(entry: _Entry, prepared: Sequence[PreparedInput]) -> list[Tensor]:
    with grad_mode(gradients=False):
        return first_output(entry.model, entry.inputs(prepared), len(prepared[0].positions))


def _batch(entry: _Entry, inputs: dict[str, Tensor], cases: list[Case], kind: Score) -> Batch:
    values = inputs.pop(entry.name).detach().requires_grad_(torch.is_grad_enabled())
    names, answers = tuple(inputs), kind_of([case.target for case in cases])

    def forward(values: Tensor, targets: Tensor, *others: Tensor) -> Tensor:
        named = dict(zip(names, others, strict=True))
        flag = len(values) == 1 < len(targets)
        of = torch.zeros(len(targets), dtype=torch.long, device=targets.device) if flag else None
        return entry.score(values, cases[0].prepared, named, targets, kind, of, answers=answers)

    return Batch(
        cases=tuple(cases),
        values=values,
        forward=forward,
        extra=(encode_targets([case.target for case in cases], values.device), *inputs.values()),
        enter=lambda prepared: entry.inputs(prepared)[entry.name].detach(),
    )


def _rounding_note(vectors: Tensor, reduction: str, label: str) -> tuple[str, ...]:
    """A remark where a sum is nothing but rounding.

    What goes through a LayerNorm right behind the embedding cannot change when the same is added to every dimension:
    the gradient's sum over the dimensions is zero, whatever the weights.
    """
    if reduction not in ("sum", "absolute sum") or bool((vectors.sum(-1).abs() > 1e-5 * vectors.norm(dim=-1)).any()):
        return ()
    return (
        f"{label}: the {reduction} over the embedding is zero in this model but for rounding, as it is before any "
        "LayerNorm, so its order means nothing; use reduction='norm'",
    )


def _vectors(attribution: Tensor, prepared: PreparedInput) -> Tensor:
    """position × dimension: the attribution to a token's embedding, or to all pixels of a patch."""
    if prepared.audio_input is not None:
        return _of_sound(attribution, prepared)
    if prepared.boxes is None:
        return attribution[: len(prepared.positions)]
    patches = {
        place: attribution[:, top:bottom, left:right].flatten()
        for place, box in enumerate(prepared.boxes)
        if box is not None
        for left, top, right, bottom in [box]
    }
    nothing = torch.zeros_like(next(iter(patches.values())))
    return torch.stack([patches.get(place, nothing) for place in range(len(prepared.positions))])


def split_streams(values: Tensor, prepared: PreparedInput) -> tuple[Tensor, Tensor]:
    """Of sound and an output in one row of numbers each: the tensor that goes in, and the embeddings."""
    assert prepared.audio_input is not None
    shape = prepared.inputs[prepared.audio_input.entry].shape
    size = shape.numel()
    output = len(prepared.positions) - prepared.encoder_length
    before = values.shape[:-1]
    return values[..., :size].reshape(*before, *shape), values[..., size:].reshape(*before, output, -1)


def _of_sound(attribution: Tensor, prepared: PreparedInput) -> Tensor:
    """position × dimension: all numbers of a stretch's own part, filled up with 0, and the embeddings of the output."""
    audio_input = prepared.audio_input
    assert audio_input is not None
    audio, output = split_streams(attribution, prepared) if prepared.sequences else (attribution, None)
    parts = [audio[cell].flatten() if cell is not None else audio.flatten()[:0] for cell in audio_input.cells]
    rows = [*parts, *([] if output is None else output)]
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)


ZERO = "zero"
"""The baseline of embeddings or pixels that are 0."""


def baseline_values(
    batch: Batch, model: nn.Module, processor: Any, named: Named = None
) -> tuple[Tensor, dict[str, float | str]]:
    """The baseline of a batch, of the shape of its values, and its name.

    Special tokens stay as they are, so that nothing is attributed to them.
    """
    if named == ZERO:
        return _zero(batch), {"baseline": ZERO}
    baseline = choose_baseline(model, adapter_for(model), processor, batch.cases[0].prepared, named)
    if baseline.shortens:
        raise ChoiceError(
            f"the baseline must be as long as the text, and {type(model).__name__} can only be blanked by deletion; "
            "give baseline= a token, 'mean' or 'zero'"
        )
    return batch.enter([baseline.apply(case.prepared, case.content) for case in batch.cases]), {
        "baseline": baseline.name
    }


def _zero(batch: Batch) -> Tensor:
    zero = batch.values.detach().clone()
    for row, case in enumerate(batch.cases):
        if case.prepared.boxes is None and case.prepared.audio_input is None:
            zero[row, case.content] = 0
        else:
            zero[row] = torch.zeros_like(zero[row])
    return zero
