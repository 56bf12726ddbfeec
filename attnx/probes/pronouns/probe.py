"""Ask a masked language model about a pronoun: what it predicts at the mask, and whom the mask draws from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
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
    methods: Sequence[str] | str = METHODS,
    span: Span = "sum",
) -> Probe:
    """Probe one sentence: `probe(model, tokenizer, "The author talked to Sara about [MASK] book", candidates=("author",
    "Sara"), pronouns=("his", "her"), implies={"his": "author", "her": "Sara"})`.

    The mask is `[MASK]`, the tokenizer's own token, or the word `mask`. A candidate is one or more words of the
    sentence, summed over its positions; one that occurs twice is told apart by index, from 0: `"author[1]"`. `implies`
    says which candidate goes with which pronoun; without it there is no verdict. `span="mean"` takes the mean over a
    candidate's positions instead of their sum, which favours names of many pieces.
    """
    sentence = Sentence(text, _tuple(candidates), _tuple(pronouns), implies or {})
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


Ready = tuple[Sentence, Masked, tuple[Candidate, ...]]
"""A sentence whose mask, pronouns and candidates have been found."""


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
            found = masked(model, tokenizer, one.text, one.pronouns)
            ready.append((one, found, find(one.candidates, found)))
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
    """Run the model. Sentences with the same pronouns go together."""
    merge = _merger(span)
    groups: dict[tuple[int, ...], list[int]] = {}
    for index, (_, one, _) in enumerate(ready):
        groups.setdefault(one.token_ids, []).append(index)
    probes: dict[int, Probe] = {}
    for token_ids, group in groups.items():
        chosen = [ready[index] for index in group]
        explanations, *others = (
            _explained(model, tokenizer, chosen, methods if place == 0 else "raw", token_id, batch_size)
            for place, token_id in enumerate(token_ids)
        )
        for row, index in enumerate(group):
            answers = [several[row].prediction for several in (explanations, *others)]
            probabilities = [one.probability for one in answers if one is not None and one.probability is not None]
            probes[index] = _outcome(ready[index], explanations[row], probabilities, merge)
    return [probes[index] for index in range(len(ready))]


def _explained(
    model: nn.Module,
    tokenizer: Any,
    chosen: Sequence[Ready],
    methods: Sequence[str] | str,
    target: int,
    batch_size: int,
) -> list[Explanation]:
    """Explanations of the mask, whose prediction is of the `target` token."""
    texts: list[Any] = [one.text for _, one, _ in chosen]
    found = explain(model, tokenizer, texts, methods=methods, target=target, batch_size=batch_size)
    for row, (_, one, _) in enumerate(chosen):
        if found[row].position != one.position:  # an adapter may answer from elsewhere by default
            found[row] = explain(model, tokenizer, one.text, methods=methods, target=target, position=one.position)
    return found


def _outcome(
    ready: Ready, explanation: Explanation, probabilities: Sequence[float], merge: Callable[..., Any]
) -> Probe:
    sentence, one, candidates = ready
    return Probe(
        text=one.text,
        mask=one.position,
        candidates=candidates,
        probabilities=dict(zip(sentence.pronouns, probabilities, strict=True)),
        layers=explanation.layers,
        relevance={name: _by_candidate(explanation[name], candidates, merge) for name in explanation.methods},
        implies=sentence.implies,
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
