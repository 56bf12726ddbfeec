"""Ask a masked language model about a pronoun: what it predicts at the mask, and whom the mask draws from."""

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


@dataclass(frozen=True, eq=False)
class Decided:
    """References that were asked for, or those of `explain`."""

    model: nn.Module
    tokenizer: Any
    asked: Mapping[str, Mapping[str, Any]]
    chosen: bool
    """Whether the caller chose them; what nobody asked for may be left out with a note."""

    @classmethod
    def of(cls, model: nn.Module, tokenizer: Any, references: AskedReferences | None) -> Decided:
        chosen = references is not None
        asked = asked_references(references if references is not None else DEFAULT_REFERENCES)
        return cls(model, tokenizer, asked, chosen)

    def added(self, masked: Sequence[Masked], probes: Sequence[Probe], merge: Callable[..., Any]) -> list[Probe]:
        """The same probes with what each candidate adds; a written pronoun is no prediction, and has none."""
        result = list(probes)
        rows = [row for row, one in enumerate(probes) if one.text == masked[row].text and len(one.probabilities) > 1]
        if not self.asked or not rows:
            return result
        cases = [Case(masked[row].prepared, _contrast(masked[row], probes[row])) for row in rows]
        measured = self._measured(cases) if self.chosen else attempt(cases, self._measured)
        for row, scored in zip(rows, measured, strict=True):
            result[row] = (
                replace(probes[row], notes=(*probes[row].notes, left_out(self.asked, scored.reason)))
                if isinstance(scored, Refused)
                else _with(scored, probes[row], merge)
            )
        return result

    def _measured(self, cases: Sequence[Case]) -> list[dict[str, Scored]]:
        """Reference → what it says, for each case."""
        scored = measure_references(self.model, self.tokenizer, cases, self.asked)
        return [{name: several[place] for name, several in scored.items()} for place in range(len(cases))]


def _contrast(masked: Masked, probe: Probe) -> Target:
    """The likelier pronoun against the next likely one; of two as likely, the one that was named first."""
    ranked = sorted(range(len(masked.token_ids)), key=lambda index: -list(probe.probabilities.values())[index])
    first, second = (masked.token_ids[index] for index in ranked[:2])
    return Target(first, masked.position, second)


def _with(scored: Mapping[str, Scored], probe: Probe, merge: Callable[..., Any]) -> Probe:
    references = {
        name: np.array([merge(one.scores[list(candidate.positions)]) for candidate in probe.candidates])
        for name, one in scored.items()
    }
    facts = {name: dict(one.facts) for name, one in scored.items()}
    return replace(probe, references=references, provenance={**probe.provenance, "references": facts})


@dataclass(frozen=True)
class Sentence:
    """A sentence with one masked pronoun. A candidate that occurs twice is told apart by index: "author[1]"."""

    text: str
    candidates: tuple[str, ...]
    pronouns: tuple[str, ...]
    implies: Mapping[str, str] = field(default_factory=dict)
    """Pronoun → the candidate that it speaks for. A pronoun that is left out speaks for nobody."""
    answer: str | None = None
    """The right referent, where there is one."""
    written: str | None = None
    """A pronoun to be written in the mask's place: followed is then what it draws from, and not the mask."""
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

    Where no answer was given, a written pronoun has one: the candidate that it speaks for.
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
    """Probe one sentence: `probe(model, tokenizer, "The author talked to Sara about [MASK] book", candidates=("author",
    "Sara"), pronouns=("his", "her"), implies={"his": "author", "her": "Sara"})`.

    The mask is `[MASK]`, the tokenizer's own token, or the word `mask`. A candidate is one or more words of the
    sentence, summed over its positions; one that occurs twice is told apart by index, from 0: `"author[1]"`. `implies`
    says which candidate goes with which pronoun; without it there is no verdict. `written="her"` writes that pronoun in
    the mask's place and follows what *it* draws from; the probabilities stay those of the mask. `span="mean"` takes the
    mean over a candidate's positions instead of their sum, which favours names of many pieces. `references` are
    measured for the likelier pronoun against the next likely one; by default the value path, where it can be.
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
            found = masked(model, tokenizer, sentence.text, sentence.pronouns, sentence.written)
            shown = adapter.prepare(model, tokenizer, found.shown) if sentence.written else found.prepared
            ready.append(Ready(sentence, found, find(sentence.candidates, found), shown))
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
    decided = Decided.of(model, tokenizer, references)
    requests = [request for one in ready for request in one.requests]
    settings = Settings.of(methods)
    explanations = iter(Call(model, tokenizer, requests, settings, {}, batch_size=batch_size).in_order())
    explained = [[next(explanations) for _ in one.requests] for one in ready]
    predicted = _at_masks(model, tokenizer, [one for one in ready if one.sentence.written], batch_size)
    probes = [
        _outcome(one, several[0], predicted.get(one.masked.text, several), merge)
        for one, several in zip(ready, explained, strict=True)
    ]
    return decided.added([one.masked for one in ready], probes, merge)


def _at_masks(
    model: nn.Module, tokenizer: Any, ready: Sequence[Ready], batch_size: int
) -> dict[str, list[Explanation]]:
    """What the masks predict where something else is shown: once a sentence, however many pronouns are written there.

    Only the prediction is read; the first layer's raw attention is the least that can be explained.
    """
    unique = {one.masked.text: one for one in ready}
    if not unique:
        return {}
    requests = [request for one in unique.values() for request in one.at_mask]
    call = Call(model, tokenizer, requests, Settings.of("raw", layer=1), {}, batch_size=batch_size)
    explanations = iter(call.in_order())
    return {text: [next(explanations) for _ in one.at_mask] for text, one in unique.items()}


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
    return np.stack([merge(relevance[:, list(candidate.positions)], axis=1) for candidate in candidates], axis=1)


def _merger(span: str) -> Callable[..., Any]:
    mergers: dict[str, Callable[..., Any]] = {"sum": np.sum, "mean": np.mean}
    if span not in mergers:
        raise ChoiceError(unknown("span", span, mergers))
    return mergers[span]


def _tuple(names: Sequence[str]) -> tuple[str, ...]:
    return names if isinstance(names, str) else tuple(names)  # type: ignore[return-value]
