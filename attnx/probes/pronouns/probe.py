"""Ask a masked language model about a pronoun: what it predicts at the mask, and whom the mask draws from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Literal

import numpy as np
from torch import nn

from attnx.adapters.architecture import has_head
from attnx.errors import AttnxError, ChoiceError, InputError
from attnx.explain import explain
from attnx.explanation import Explanation
from attnx.probes.pronouns.candidates import Candidate, find
from attnx.probes.pronouns.mask import Masked, masked
from attnx.probes.pronouns.outcome import Array, Probe
from attnx.probes.pronouns.sentence import Sentence
from attnx.registry import unknown

METHODS = ("raw", "rollout", "flow")

Span = Literal["sum", "mean"]
"""How a candidate's positions become one number."""


def probe(
    model: nn.Module,
    tokenizer: Any,
    text: str,
    *,
    candidates: Sequence[str],
    pronouns: Sequence[str],
    implies: Mapping[str, str] | None = None,
    written: str | None = None,
    methods: Sequence[str] | str = METHODS,
    span: Span = "sum",
) -> Probe:
    """Probe one sentence: `probe(model, tokenizer, "The author talked to Sara about [MASK] book", candidates=("author",
    "Sara"), pronouns=("his", "her"), implies={"his": "author", "her": "Sara"})`.

    The mask is `[MASK]`, the tokenizer's own token, or the word `mask`. A candidate is one or more words of the
    sentence, summed over its positions; one that occurs twice is told apart by index, from 0: `"author[1]"`. `implies`
    says which candidate goes with which pronoun; without it there is no verdict. `written="her"` writes that pronoun in
    the mask's place and follows what *it* draws from; the probabilities stay those of the mask. `span="mean"` takes the
    mean over a candidate's positions instead of their sum, which favours names of many pieces.
    """
    sentence = Sentence(text, _tuple(candidates), _tuple(pronouns), implies or {}, written=written)
    return probe_each(model, tokenizer, [sentence], methods=methods, span=span)[0]


def probe_each(
    model: nn.Module,
    tokenizer: Any,
    sentences: Sequence[Sentence],
    *,
    methods: Sequence[str] | str = METHODS,
    span: Span = "sum",
    batch_size: int = 8,
) -> list[Probe]:
    """Probe many sentences in batches; the same numbers as one by one."""
    ready = prepare(model, tokenizer, sentences)
    return ask(model, tokenizer, ready, methods=methods, span=span, batch_size=batch_size)


@dataclass(frozen=True, eq=False)
class Ready:
    """A sentence whose mask, pronouns and candidates have been found."""

    sentence: Sentence
    masked: Masked
    candidates: tuple[Candidate, ...]

    @property
    def batch(self) -> tuple[tuple[int, ...], int]:
        """What sentences of one batch share. A mask is found by `explain`, a written pronoun by its position."""
        return self.masked.token_ids, self.masked.position if self.sentence.written else -1


def prepare(model: nn.Module, tokenizer: Any, sentences: Iterable[Sentence]) -> list[Ready]:
    """Find mask, pronouns and candidates of every sentence, so that a bad one is known before the model runs."""
    if not has_head(model, "ForMaskedLM", "WithLMHeadModel"):
        raise InputError(
            f"{type(model).__name__} has no masked-LM head, so it predicts no pronoun; load the checkpoint with "
            "AutoModelForMaskedLM, or give one that was trained with this head"
        )
    ready = []
    for one in sentences:
        try:
            found = masked(model, tokenizer, one.text, one.pronouns, one.written)
            ready.append(Ready(one, found, find(one.candidates, found)))
        except AttnxError as error:
            if not one.place:
                raise
            raise type(error)(f"{one.place}: {error}") from error
    return ready


def ask(
    model: nn.Module,
    tokenizer: Any,
    ready: Sequence[Ready],
    *,
    methods: Sequence[str] | str,
    span: Span,
    batch_size: int,
) -> list[Probe]:
    """Run the model on sentences that are ready; one probe for each, in their order."""
    merge = _merger(span)
    probes: dict[int, Probe] = {}
    order = sorted(range(len(ready)), key=lambda index: ready[index].batch)
    for (token_ids, _), indices in groupby(order, key=lambda index: ready[index].batch):
        group = list(indices)
        several = [ready[index] for index in group]
        shown = _explained(model, tokenizer, several, token_ids[0], methods=methods, batch_size=batch_size)
        # At a mask the first run tells the first pronoun's probability; every other one takes a run of its own.
        predicted = [] if several[0].sentence.written else [shown]
        for token_id in token_ids[len(predicted) :]:
            predicted.append(_at_mask(model, tokenizer, several, token_id, batch_size))
        for row, index in enumerate(group):
            probes[index] = _outcome(ready[index], shown[row], [one[row] for one in predicted], merge)
    return [probes[index] for index in range(len(ready))]


def _at_mask(
    model: nn.Module, tokenizer: Any, group: Sequence[Ready], target: int, batch_size: int
) -> list[Explanation]:
    """What the masks predict: once for each sentence, however many pronouns are written in its place."""
    unique = {one.masked.text: replace(one, masked=replace(one.masked, shown=one.masked.text)) for one in group}
    found = _explained(model, tokenizer, list(unique.values()), target, methods="raw", batch_size=batch_size)
    by_text = dict(zip(unique, found, strict=True))
    return [by_text[one.masked.text] for one in group]


def _explained(
    model: nn.Module, tokenizer: Any, group: Sequence[Ready], target: int, **options: Any
) -> list[Explanation]:
    """Explanations of the mask, or of what is written in its place, with a prediction of the `target` token."""
    texts: list[Any] = [one.masked.shown for one in group]
    places = [one.masked.position for one in group]
    shared = places[0] if len(set(places)) == 1 else None
    found: list[Explanation] = explain(model, tokenizer, texts, position=shared, target=target, **options)
    for row, place in enumerate(places):
        if found[row].position != place:  # an adapter may answer from elsewhere than the mask
            found[row] = explain(model, tokenizer, texts[row], position=place, target=target, **options)
    return found


def _outcome(
    ready: Ready, explanation: Explanation, predicted: Sequence[Explanation], merge: Callable[..., Any]
) -> Probe:
    probabilities = [0.0 if one.prediction is None else one.prediction.probability or 0.0 for one in predicted]
    return Probe(
        text=ready.masked.shown,
        mask=ready.masked.position,
        candidates=ready.candidates,
        probabilities=dict(zip(ready.sentence.pronouns, probabilities, strict=True)),
        layers=explanation.layers,
        relevance={name: _by_candidate(explanation[name], ready.candidates, merge) for name in explanation.methods},
        implies=ready.sentence.implies,
        notes=explanation.notes,
        provenance=explanation.provenance,
    )


def _by_candidate(relevance: Array, candidates: Sequence[Candidate], merge: Callable[..., Any]) -> Array:
    """layers × positions → layers × candidates."""
    return np.stack([merge(relevance[:, list(one.positions)], axis=1) for one in candidates], axis=1)


def _merger(span: str) -> Callable[..., Any]:
    mergers: dict[str, Callable[..., Any]] = {"sum": np.sum, "mean": np.mean}
    if span not in mergers:
        raise ChoiceError(unknown("span", span, mergers))
    return mergers[span]


def _tuple(names: Sequence[str]) -> tuple[str, ...]:
    return names if isinstance(names, str) else tuple(names)  # type: ignore[return-value]
