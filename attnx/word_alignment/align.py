"""`alignment(explanation)` and `align(model, tokenizer, sources, targets)`: which source word a written word is from.

Words are what stands between spaces, as in files of links. A single level of cross-attention is the better aligner than
the whole chain: the chain says how much came from source and output at all, and mixes neighbours on the way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any, Literal, TypeAlias

import numpy as np

from attnx.adapters import Choice, Gold, Positions
from attnx.arguments import checked
from attnx.attention import CROSS, layer_name, layer_number, layers_of_kind
from attnx.attribution import REFERENCES
from attnx.errors import ChoiceError, InputError
from attnx.generation import EACH, GenerationExplanation, explain_generation
from attnx.methods import RAW
from attnx.pipeline import model_and_processor, takes_pipelines
from attnx.pipeline.explain import explain
from attnx.progress import progress_bar
from attnx.registry import unknown
from attnx.results import Array, Explanation
from attnx.word_alignment.result import Alignment

WhichRow: TypeAlias = Literal["predicts", "reads"]
ROWS = ("predicts", "reads")
"""Whose row stands for a written token: that of the position before it, which predicts it, or its own."""
NO_OFFSETS = "the tokenizer does not say where its tokens stand: links are between tokens, and not between words"

Words: TypeAlias = list[tuple[str, list[int]]]
"""Each word with the places of its tokens in its stream."""


@dataclass(frozen=True, eq=False)
class TwoSequences:
    """Written tokens × source tokens by one method at one level, and the words of both."""

    scores: Array
    source: Words
    output: Words
    """Their places are rows of the scores."""
    method: str
    layer: str
    """Empty where scores are of the whole model."""
    notes: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        explained: Explanation | GenerationExplanation,
        method: str | None,
        layer: int | str | None,
        row: WhichRow,
    ) -> TwoSequences:
        """`method` and `layer` as they were named, or raw attention at the last cross-attention but one."""
        if row not in ROWS:
            raise ChoiceError(unknown("row", row, ROWS))
        if not explained.sequences:
            raise InputError(
                "an alignment is of an encoder–decoder, which has a source and an output; this explanation has one text"
            )
        read = cls._of_generation if isinstance(explained, GenerationExplanation) else cls._of_explanation
        return read(explained, method, layer, row)  # type: ignore[arg-type]

    @classmethod
    def _of_explanation(
        cls, explanation: Explanation, method: str | None, layer: int | str | None, row: WhichRow
    ) -> TwoSequences:
        """From the map of all rows."""
        if not explanation.maps:
            raise InputError('an alignment needs all rows: explain(…, target_text=…, methods="raw", all_queries=True)')
        kinds = explanation.provenance.get("settings", {}).get("layer_kinds", ())
        name = method or next(
            (name for name in explanation.maps if name in explanation.local), next(iter(explanation.maps))
        )
        number = _level(explanation.layers, kinds, layer)
        length = next(iter(explanation.sequences.values()))
        rows = explanation.matrix(name)[explanation.layers.index(number)]
        source, output = explanation.positions[:length], explanation.positions[length:]
        texts = explanation.texts or (None, None)
        words = [_words(sequence, text) for sequence, text in zip((source, output), texts, strict=True)]
        return cls(
            # Of the start of the output, which nothing predicts, no word is made.
            scores=np.roll(rows[length:, :length], 1 if row == "predicts" else 0, axis=0).astype(np.float64),
            source=words[0],
            output=words[1],
            method=name,
            layer=layer_name(kinds, number) if kinds else str(number),
            notes=explanation.notes + ((NO_OFFSETS,) if not source.told or not output.told else ()),
        )

    @classmethod
    def _of_generation(
        cls, generation: GenerationExplanation, method: str | None, layer: int | str | None, row: WhichRow
    ) -> TwoSequences:
        """From its rows, each of the position that predicts a token; what was measured leads where it is shown so."""
        shown = generation.shown_first
        local = next((name for name in generation.relevance if name in generation.local), shown)
        name = method or (shown if shown in generation.references else local)
        rows, level = _rows(generation, name, layer)
        if name in generation.signed or (rows < 0).any():
            rows = np.maximum(rows, 0)  # a word that speaks against another is not where it is from
        length = next(iter(generation.sequences.values()))
        written = np.zeros((len(generation.positions) - length, length))
        written[-len(rows) :] = rows[:, :length]
        source, output = _apart(generation, length)
        words = [_words(sequence, text) for sequence, text in (source, output)]
        if row == "reads":
            if any(len(written) - 1 in places for _, places in words[1]):
                raise InputError(
                    "the last token was not read by the model any more, so it has no row; use row='predicts', or "
                    "explain(…, target_text=…, all_queries=True)"
                )
            written = np.roll(written, -1, axis=0)
        flag = source[0].told and output[0].told
        return cls(written, words[0], words[1], name, level, generation.notes + (() if flag else (NO_OFFSETS,)))

    @property
    def by_word(self) -> Array:
        """target × source of words; a last column has the most that goes to a source token of no word, as the end."""
        return by_word(self.scores, [places for _, places in self.source], [places for _, places in self.output])


def _rows(generation: GenerationExplanation, name: str, layer: int | str | None) -> tuple[Array, str]:
    """generated × source of a method at a level, or of a reference, and the level's name."""
    if name in generation.references:
        if layer is not None:
            raise ChoiceError(f"{name} is measured on the whole model; leave layer out")
        return generation[name], ""
    kinds = generation.provenance.get("settings", {}).get("layer_kinds", ())
    layers = generation.layers or (generation.layer,)
    number = _level(layers, kinds, layer)
    rows = generation[name] if generation.layers is None else generation.by_layer[name][layers.index(number)]
    return rows, layer_name(kinds, number) if kinds else str(number)


def _apart(generation: GenerationExplanation, length: int) -> list[tuple[Positions, str | None]]:
    """Source and output with the text of each, which a generation has as two lines of one."""
    source, output = generation.positions[:length], generation.positions[length:]
    if generation.text is None or not source.told or not output.told:
        return [(source, None), (output, None)]
    last = max((position.end for position in source if position.end is not None), default=0)
    first = min((position.start for position in output if position.start is not None), default=len(generation.text))
    cut = generation.text.rindex("\n", last, first + 1)
    moved = Positions(
        position
        if position.start is None or position.end is None
        else replace(position, start=position.start - cut - 1, end=position.end - cut - 1)
        for position in output
    )
    return [(source, generation.text[:cut]), (moved, generation.text[cut + 1 :])]


def _level(layers: Sequence[int], kinds: Sequence[str], asked: int | str | None) -> int:
    """The level that was asked for, or the last cross-attention but one of those that are there."""
    if asked is not None:
        number = layer_number(kinds, asked)
        if number not in layers:
            raise ChoiceError(f"layer {asked!r} asked, the explanation has {', '.join(map(str, layers))}")
        return number
    cross = [number for number in layers if kinds and kinds[number - 1] == CROSS]
    return (cross[-2:] or list(layers))[0] if cross else layers[-1]


def _words(positions: Positions, text: str | None) -> Words:
    if text is None or not positions.told:
        return [(position.token, [position.index - positions[0].index]) for position in positions.named]
    return spaced(positions, text)


def spaced(positions: Positions, text: str) -> Words:
    """The words between spaces; one of which no token is left has no places."""
    spans: list[tuple[int, int]] = []
    end = 0
    for word in text.split():
        start = text.index(word, end)
        end = start + len(word)
        spans.append((start, end))
    places: list[list[int]] = [[] for _ in spans]
    for position in positions.named:
        if position.start is None or position.end is None:
            continue
        piece = text[position.start : position.end]
        inked = position.start + len(piece) - len(piece.lstrip())
        for number, (start, stop) in enumerate(spans):
            if start <= inked < stop:
                places[number].append(position.index - positions[0].index)
    return [(text[start:stop], index) for (start, stop), index in zip(spans, places, strict=True)]


def by_word(scores: Array, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> Array:
    """target × source of words, from target × source of tokens: the sum over a source word's, the mean over a target's.

    A last column has the most that goes to a source token that is of no word, such as the end.
    """
    of_words = {place for places in sources for place in places}
    others = [place for place in range(scores.shape[1]) if place not in of_words]
    columns = [scores[:, list(places)].sum(1) for places in sources]
    columns.append(scores[:, others].max(1) if others else np.zeros(len(scores)))
    merged = np.stack(columns, axis=1)
    rows = [merged[list(places)].mean(0) if places else np.zeros(merged.shape[1]) for places in targets]
    return np.stack(rows) if rows else np.zeros((0, merged.shape[1]))


NEW_TOKENS = 128
"""The most that is written of a sentence."""


@checked
def alignment(
    explanation: Explanation | GenerationExplanation | Sequence[Explanation | GenerationExplanation],
    *,
    method: str | None = None,
    layer: int | str | None = None,
    choice: Choice = "argmax",
    row: WhichRow = "predicts",
) -> Alignment:
    """Which source word each written word is from, in an explanation of an encoder–decoder or in several.

    It comes from `explain(model, tokenizer, source, target_text=…, methods="raw", all_queries=True)`, or from
    `explain_generation`, for what the model wrote itself. `method` is raw attention unless you choose, and `layer` the
    last level of cross-attention but one of those that are there; of a generation a reference will do as well, and is
    taken where it is shown first, as the value path is by default.
    `choice` is "argmax", the source word with the highest score, or "intersection": only what is the highest for the
    source word, too. The `row` of a written word is that of the position that "predicts" it, or of the one that
    "reads" it.

    >>> from attnx.demo_models.dates import load_demo
    >>> model, tokenizer = load_demo()
    >>> texts = {"text": "the third of march 1998", "target_text": "1998 03 03"}
    >>> e = explain(model, tokenizer, **texts, methods="raw", all_queries=True)
    >>> alignment(e).pairs()[0]
    ('1998', '1998')
    """
    several = [explanation] if isinstance(explanation, Explanation | GenerationExplanation) else list(explanation)
    if not several or not all(isinstance(one, Explanation | GenerationExplanation) for one in several):
        raise InputError("an alignment is of an explanation of an encoder–decoder, or of a list of them")
    found = [TwoSequences.of(one, method, layer, row) for one in several]
    told = dict.fromkeys(f"{two_sequences.method} at {two_sequences.layer or 'the model'}" for two_sequences in found)
    if len(told) > 1:
        raise InputError(f"the explanations are not of one method and level: {', '.join(told)}; say which")
    return Alignment.choose(
        [
            ([word for word, _ in two_sequences.source], [word for word, _ in two_sequences.output])
            for two_sequences in found
        ],
        [two_sequences.by_word for two_sequences in found],
        choice,
        method=found[0].method,
        layer=found[0].layer,
        row=row,
        notes=tuple(dict.fromkeys(note for two_sequences in found for note in two_sequences.notes)),
        provenance=several[0].provenance,
    )


@takes_pipelines("sources")
@checked
def align(
    model: Any,
    tokenizer: Any = None,
    sources: Sequence[str] | None = None,
    targets: Sequence[str] | None = None,
    *,
    method: str = RAW.name,
    layer: int | str | None = None,
    choice: Choice = "argmax",
    row: WhichRow = "predicts",
    gold: str | PathLike[str] | Sequence[Gold] | None = None,
    max_new_tokens: int = NEW_TOKENS,
    progress: bool = True,
) -> Alignment:
    """Align each source with its target, as the model sees them when it is given both.

    Without `targets` the model writes them, greedily, at most `max_new_tokens` each. What is asked is as in
    `alignment`; `method` may be a reference. With a `gold`, a file of links or what `read_links` read of one, the
    result has the alignment error rate.

    >>> from attnx.demo_models.dates import load_demo
    >>> model, tokenizer = load_demo()
    >>> align(model, tokenizer, ["the third of march 1998"], ["1998 03 03"], progress=False).pairs()[0]
    ('1998', '1998')
    """
    assert sources is not None
    model, tokenizer = model_and_processor(model, tokenizer)
    if targets is not None and len(sources) != len(targets):
        raise InputError(f"{len(sources)} sources and {len(targets)} targets: give a target for each source")
    if not sources:
        raise InputError("nothing to align: give at least one source with its target")
    if gold is not None and targets is None:
        raise InputError("a gold links words of targets that people wrote; give the targets, too")
    names: Sequence[str | None] = [None] * len(sources) if targets is None else targets
    pairs = list(zip(sources, names, strict=True))
    for number, pair in enumerate(pairs, start=1):
        if not all(name.strip() for name in pair if name is not None):
            raise InputError(f"pair {number} is empty on one side; leave both lines out, and that of the gold")
    measured = method in REFERENCES
    if measured and layer is not None:
        raise ChoiceError(f"{method} is measured on the whole model; leave layer out")
    found: list[Explanation | GenerationExplanation] = []
    with progress_bar("align", len(pairs), progress, " pairs") as shown:
        for source, target in pairs:
            one: Explanation | GenerationExplanation
            if target is None or measured:
                asked: dict[str, Any] = {"progress": False}
                asked |= {"methods": RAW.name, "references": method} if measured else {"methods": method}
                asked |= {"max_new_tokens": max_new_tokens} if target is None else {"continuation": target}
                one = explain_generation(model, tokenizer, source, layer=None if measured else layer or EACH, **asked)
            else:
                one = explain(
                    model, tokenizer, source, target_text=target, methods=method, layer=layer, all_queries=True
                )
            if not one.sequences:
                raise InputError(f"{type(model).__name__} is no encoder–decoder: it has no source to align with")
            layer = _but_one(one) if layer is None and not measured else layer
            found.append(one)
            shown.update(1)
    aligned = alignment(found, method=method, layer=layer, choice=choice, row=row)
    if gold is None:
        return aligned
    if NO_OFFSETS in aligned.notes:
        raise InputError(f"a gold links words, and {NO_OFFSETS}; load a fast tokenizer")
    return aligned.against(gold)


def _but_one(explanation: Explanation | GenerationExplanation) -> int:
    """The last level of cross-attention but one, where all levels were explained; further pairs need no other."""
    return layers_of_kind(explanation.provenance["settings"]["layer_kinds"], CROSS)[-2:][0]
