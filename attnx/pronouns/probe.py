"""The pronoun probe: what a masked language model predicts at the mask, and which candidate contributes most to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from torch import nn

from attnx.adapters import PreparedInput, adapter_for, has_head
from attnx.attribution import AskedReferences, Case, Scored, asked_references, measure_references
from attnx.errors import AttnxError, ChoiceError, InputError
from attnx.methods import PAPER_METHODS
from attnx.pipeline import DEFAULT_REFERENCES, Call, Refused, Request, Settings, attempt, left_out
from attnx.pronouns.mask import Masked, find, masked
from attnx.pronouns.result import Candidate, Probe
from attnx.registry import unknown
from attnx.results import Array, Explanation
from attnx.targets import Target


@dataclass(frozen=True)
class Sentence:
    """A sentence with one masked pronoun. A candidate that occurs twice is told apart by index: "author[1]"."""

    text: str
    candidates: tuple[str, ...]
    pronouns: tuple[str, ...]
    implies: Mapping[str, str] = field(default_factory=dict)
    """Pronoun → the candidate that it refers to. A pronoun that is left out refers to nobody."""
    answer: str | None = None
    """The right referent, where there is one."""
    written: str | None = None
    """A pronoun in the mask's place, whose relevance is then explained, and not that of the mask."""
    place: str = field(default="", repr=False)
    """Where it was read, for messages: the file and the line."""

    def __post_init__(self) -> None:
        _check_list("candidate", self.candidates, "author and Sara")
        _check_list("pronoun", self.pronouns, "his and her")
        for pronoun, candidate in self.implies.items():
            if pronoun not in self.pronouns:
                raise InputError(unknown("pronoun", pronoun, self.pronouns) + "; implies maps a pronoun to a candidate")
            if candidate not in self.candidates:
                raise InputError(unknown("candidate", candidate, self.candidates) + "; write it as in candidates")
        if self.answer is not None and self.answer not in self.candidates:
            raise InputError(unknown("answer", self.answer, self.candidates) + "; write it as in candidates")
        if self.written is not None and self.written not in self.pronouns:
            raise InputError(unknown("pronoun", self.written, self.pronouns) + "; one of them can be written")


def written_out(sentences: Iterable[Sentence]) -> list[Sentence]:
    """Every sentence once with each of its pronouns in place of the mask.

    Where no answer was given, a written pronoun has one: the candidate that it refers to.
    """
    return [
        replace(sentence, written=pronoun, answer=sentence.answer or sentence.implies.get(pronoun))
        for sentence in sentences
        for pronoun in sentence.pronouns
    ]


def _check_list(noun: str, names: Sequence[str], example: str) -> None:
    if isinstance(names, str):
        raise InputError(f"{noun}s must be a list, found the text {names!r}; give at least two, such as {example}")
    if len(names) < 2:
        raise InputError(f"a probe compares {noun}s and needs two, found {len(names)}; give, for example, {example}")
    for name in names:
        if not isinstance(name, str) or not name.strip():
            raise InputError(f"{name!r} is no {noun}; give a word, such as {example}")
        if names.count(name) > 1:
            raise InputError(f"{noun} {name!r} is given twice; {_TWICE[noun]}")


_TWICE = {
    "candidate": "where it occurs twice in the sentence, say which by index: 'author[0]', 'author[1]'",
    "pronoun": "give each once",
}


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
    methods: Sequence[str] | str = PAPER_METHODS,
    references: AskedReferences | None = None,
    span: Span = "sum",
) -> Probe:
    """Explain one masked pronoun.

    Args:
        model: A masked language model.
        tokenizer: Its tokenizer.
        text: A sentence with `[MASK]`, the tokenizer's own mask token, or the word `mask`.
        candidates: Words of the sentence, summed over their positions; a word that occurs twice has an index, from 0:
            `"author[1]"`.
        pronouns: What the mask may be, each a single token.
        implies: Pronoun → the candidate that it refers to; without it there is no verdict.
        written: A pronoun that replaces the mask and is explained in its place; the probabilities stay those of the
            mask.
        methods: As in `explain`.
        references: Measured for the likelier pronoun against the next likely; by default `lrp`, where it can be.
        span: `"mean"` takes the mean over a candidate's positions instead of their sum, which favors long names.

    Returns:
        The probabilities of the pronouns, and the relevance of each candidate at each layer.

    Example:
        `probe(model, tokenizer, "The author talked to Sara about [MASK] book", candidates=("author", "Sara"),
        pronouns=("his", "her"), implies={"his": "author", "her": "Sara"})`
    """
    sentence = Sentence(text, _tuple(candidates), _tuple(pronouns), implies or {}, written=written)
    return probe_each(model, tokenizer, [sentence], methods=methods, references=references, span=span)[0]


def probe_each(
    model: nn.Module,
    tokenizer: Any,
    sentences: Sequence[Sentence],
    *,
    methods: Sequence[str] | str = PAPER_METHODS,
    references: AskedReferences | None = None,
    span: Span = "sum",
    batch_size: int = 8,
) -> list[Probe]:
    """Probe many sentences in batches; the same numbers as one by one."""
    ready = prepare(model, tokenizer, sentences)
    return ask(model, tokenizer, ready, methods=methods, references=references, span=span, batch_size=batch_size)


@dataclass(frozen=True, eq=False)
class Ready:
    """A sentence whose mask, pronouns and candidates have been found."""

    sentence: Sentence
    masked: Masked
    candidates: tuple[Candidate, ...]
    shown: PreparedInput
    """What is explained: the sentence with its mask or, where a pronoun is written in its place, with that."""

    @property
    def at_mask(self) -> list[Request]:
        """One for each pronoun: how likely the mask has it."""
        return [Request(self.masked.prepared, self.masked.position, index) for index in self.masked.token_ids]

    @property
    def requests(self) -> list[Request]:
        """At a mask one run tells all; a written pronoun is explained where it stands."""
        if not self.sentence.written:
            return self.at_mask
        return [Request(self.shown, self.masked.position, self.masked.token_ids[0])]


def prepare(model: nn.Module, tokenizer: Any, sentences: Iterable[Sentence]) -> list[Ready]:
    """Find mask, pronouns and candidates of every sentence, so that a bad one is known before the model runs."""
    if not has_head(model, "ForMaskedLM", "WithLMHeadModel"):
        raise InputError(
            f"{type(model).__name__} has no masked-LM head, so it predicts no pronoun; load the checkpoint with "
            "AutoModelForMaskedLM, or give one that was trained with this head"
        )
    adapter, ready = adapter_for(model), []
    for sentence in sentences:
        try:
            text = masked(model, tokenizer, sentence.text, sentence.pronouns, sentence.written)
            shown = adapter.prepare(model, tokenizer, text.shown) if sentence.written else text.prepared
            ready.append(Ready(sentence, text, find(sentence.candidates, text), shown))
        except AttnxError as error:
            if not sentence.place:
                raise
            raise type(error)(f"{sentence.place}: {error}") from error
    return ready


def ask(
    model: nn.Module,
    tokenizer: Any,
    ready: Sequence[Ready],
    *,
    methods: Sequence[str] | str,
    references: AskedReferences | None,
    span: Span,
    batch_size: int,
) -> list[Probe]:
    """Run the model on sentences that are ready; one probe for each, in their order."""
    merge = _merger(span)
    requests = [request for item in ready for request in item.requests]
    settings = Settings.of(methods)
    explanations = iter(Call(model, tokenizer, requests, settings, {}, batch_size=batch_size).in_order())
    explained = [[next(explanations) for _ in item.requests] for item in ready]
    predicted = _at_masks(model, tokenizer, [item for item in ready if item.sentence.written], batch_size)
    probes = [
        _outcome(item, several[0], predicted.get(item.masked.text, several), merge)
        for item, several in zip(ready, explained, strict=True)
    ]
    return _with_references(model, tokenizer, references, [item.masked for item in ready], probes, merge)


def _at_masks(
    model: nn.Module, tokenizer: Any, ready: Sequence[Ready], batch_size: int
) -> dict[str, list[Explanation]]:
    """What the masks predict where something else is shown: once a sentence, however many pronouns are written there.

    Only the prediction is read; the first layer's raw attention is the least that can be explained.
    """
    unique = {item.masked.text: item for item in ready}
    if not unique:
        return {}
    requests = [request for item in unique.values() for request in item.at_mask]
    call = Call(model, tokenizer, requests, Settings.of("raw", layer=1), {}, batch_size=batch_size)
    explanations = iter(call.in_order())
    return {text: [next(explanations) for _ in item.at_mask] for text, item in unique.items()}


def _with_references(
    model: nn.Module,
    tokenizer: Any,
    references: AskedReferences | None,
    masked: Sequence[Masked],
    probes: Sequence[Probe],
    merge: Callable[..., Any],
) -> list[Probe]:
    """The same probes with what each candidate adds; a written pronoun is no prediction, and has none.

    References that the caller did not choose are left out with a note where they cannot be measured.
    """
    options = asked_references(DEFAULT_REFERENCES if references is None else references)
    result = list(probes)
    rows = [row for row, probe in enumerate(probes) if probe.text == masked[row].text and len(probe.probabilities) > 1]
    if not options or not rows:
        return result

    def measure(cases: Sequence[Case]) -> list[dict[str, Scored]]:
        scored = measure_references(model, tokenizer, cases, options)
        return [{name: several[number] for name, several in scored.items()} for number in range(len(cases))]

    cases = [Case(masked[row].prepared, _contrast(masked[row], probes[row])) for row in rows]
    measured = attempt(cases, measure) if references is None else measure(cases)
    for row, scored in zip(rows, measured, strict=True):
        probe = probes[row]
        if isinstance(scored, Refused):
            result[row] = replace(probe, notes=(*probe.notes, left_out(options, scored.reason)))
            continue
        merged = {
            name: np.array([merge(item.scores[list(candidate.positions)]) for candidate in probe.candidates])
            for name, item in scored.items()
        }
        facts = {name: dict(item.facts) for name, item in scored.items()}
        result[row] = replace(probe, references=merged, provenance={**probe.provenance, "references": facts})
    return result


def _contrast(masked: Masked, probe: Probe) -> Target:
    """The likelier pronoun against the next likely; of two that are equally likely, the first that was named."""
    ranked = sorted(range(len(masked.token_ids)), key=lambda index: -list(probe.probabilities.values())[index])
    first, second = (masked.token_ids[index] for index in ranked[:2])
    return Target(first, masked.position, second)


def _outcome(
    ready: Ready, explanation: Explanation, predicted: Sequence[Explanation], merge: Callable[..., Any]
) -> Probe:
    probabilities = [0.0 if item.prediction is None else item.prediction.probability or 0.0 for item in predicted]
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
    return np.stack([merge(relevance[:, list(candidate.positions)], axis=1) for candidate in candidates], axis=1)


def _merger(span: str) -> Callable[..., Any]:
    mergers: dict[str, Callable[..., Any]] = {"sum": np.sum, "mean": np.mean}
    if span not in mergers:
        raise ChoiceError(unknown("span", span, mergers))
    return mergers[span]


def _tuple(names: Sequence[str]) -> tuple[str, ...]:
    return names if isinstance(names, str) else tuple(names)  # type: ignore[return-value]
