"""What is explained of an encoder–decoder says of source and output: scores of tokens, and of words by spaces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np

from attnx.attention.naming import CROSS, level_name, level_number
from attnx.errors import ChoiceError, InputError
from attnx.inputs.positions import Positions
from attnx.registry import unknown
from attnx.results.explanation import Explanation
from attnx.results.generation import GenerationExplanation
from attnx.results.result import Array

WhichRow: TypeAlias = Literal["predicts", "reads"]
ROWS = ("predicts", "reads")
"""Whose row stands for a written token: that of the position before it, which predicts it, or its own."""
NO_OFFSETS = "the tokenizer does not say where its tokens stand: links are between tokens, and not between words"

Words: TypeAlias = list[tuple[str, list[int]]]
"""Each word with the places of its tokens in its stream."""


@dataclass(frozen=True, eq=False)
class TwoStreams:
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
    ) -> TwoStreams:
        """`method` and `layer` as they were named, or raw attention at the last cross-attention but one."""
        if row not in ROWS:
            raise ChoiceError(unknown("row", row, ROWS))
        if not explained.streams:
            raise InputError(
                "an alignment is of an encoder–decoder, which has a source and an output; this explanation has one text"
            )
        read = cls._of_generation if isinstance(explained, GenerationExplanation) else cls._of_explanation
        return read(explained, method, layer, row)  # type: ignore[arg-type]

    @classmethod
    def _of_explanation(
        cls, explanation: Explanation, method: str | None, layer: int | str | None, row: WhichRow
    ) -> TwoStreams:
        """From the map of all rows."""
        if not explanation.maps:
            raise InputError(
                'an alignment needs the rows of all written tokens: explain(…, target_text=…, methods="raw", maps=True)'
            )
        kinds = explanation.provenance.get("settings", {}).get("levels", ())
        name = method or next(
            (one for one in explanation.maps if one in explanation.local), next(iter(explanation.maps))
        )
        number = _level(explanation.layers, kinds, layer)
        length = next(iter(explanation.streams.values()))
        rows = explanation.map(name)[explanation.layers.index(number)]
        source, output = explanation.positions[:length], explanation.positions[length:]
        texts = explanation.texts or (None, None)
        words = [_words(stream, text) for stream, text in zip((source, output), texts, strict=True)]
        return cls(
            # Of the start of the output, which nothing predicts, no word is made.
            scores=np.roll(rows[length:, :length], 1 if row == "predicts" else 0, axis=0).astype(np.float64),
            source=words[0],
            output=words[1],
            method=name,
            layer=level_name(kinds, number) if kinds else str(number),
            notes=explanation.notes + ((NO_OFFSETS,) if not source.told or not output.told else ()),
        )

    @classmethod
    def _of_generation(
        cls, generation: GenerationExplanation, method: str | None, layer: int | str | None, row: WhichRow
    ) -> TwoStreams:
        """From its rows, each of the position that predicts a token; what was measured leads where it is shown so."""
        shown = generation.shown_first
        local = next((one for one in generation.relevance if one in generation.local), shown)
        name = method or (shown if shown in generation.references else local)
        rows, level = _rows(generation, name, layer)
        if name in generation.signed or (rows < 0).any():
            rows = np.maximum(rows, 0)  # a word that speaks against another is not where it is from
        length = next(iter(generation.streams.values()))
        written = np.zeros((len(generation.positions) - length, length))
        written[-len(rows) :] = rows[:, :length]
        source, output = _apart(generation, length)
        words = [_words(stream, text) for stream, text in (source, output)]
        if row == "reads":
            if any(len(written) - 1 in places for _, places in words[1]):
                raise InputError(
                    "the last token was not read by the model any more, so it has no row; use row='predicts', or "
                    "explain(…, target_text=…, maps=True)"
                )
            written = np.roll(written, -1, axis=0)
        told = source[0].told and output[0].told
        return cls(written, words[0], words[1], name, level, generation.notes + (() if told else (NO_OFFSETS,)))

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
    kinds = generation.provenance.get("settings", {}).get("levels", ())
    layers = generation.layers or (generation.layer,)
    number = _level(layers, kinds, layer)
    rows = generation[name] if generation.layers is None else generation.by_layer[name][layers.index(number)]
    return rows, level_name(kinds, number) if kinds else str(number)


def _apart(generation: GenerationExplanation, length: int) -> list[tuple[Positions, str | None]]:
    """Source and output with the text of each, which a generation has as two lines of one."""
    source, output = generation.positions[:length], generation.positions[length:]
    if generation.text is None or not source.told or not output.told:
        return [(source, None), (output, None)]
    last = max((one.end for one in source if one.end is not None), default=0)
    first = min((one.start for one in output if one.start is not None), default=len(generation.text))
    cut = generation.text.rindex("\n", last, first + 1)
    moved = Positions(
        one if one.start is None or one.end is None else replace(one, start=one.start - cut - 1, end=one.end - cut - 1)
        for one in output
    )
    return [(source, generation.text[:cut]), (moved, generation.text[cut + 1 :])]


def _level(layers: Sequence[int], kinds: Sequence[str], asked: int | str | None) -> int:
    """The level that was asked for, or the last cross-attention but one of those that are there."""
    if asked is not None:
        number = level_number(kinds, asked)
        if number not in layers:
            raise ChoiceError(f"layer {asked!r} asked, the explanation has {', '.join(map(str, layers))}")
        return number
    cross = [number for number in layers if kinds and kinds[number - 1] == CROSS]
    return (cross[-2:] or list(layers))[0] if cross else layers[-1]


def _words(positions: Positions, text: str | None) -> Words:
    if text is None or not positions.told:
        return [(one.token, [one.index - positions[0].index]) for one in positions.named]
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
    for one in positions.named:
        if one.start is None or one.end is None:
            continue
        piece = text[one.start : one.end]
        inked = one.start + len(piece) - len(piece.lstrip())
        for number, (start, stop) in enumerate(spans):
            if start <= inked < stop:
                places[number].append(one.index - positions[0].index)
    return [(text[start:stop], own) for (start, stop), own in zip(spans, places, strict=True)]


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
