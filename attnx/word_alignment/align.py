"""`alignment(explanation)` and `align(model, tokenizer, sources, targets)`: align target words to source words.

Words are separated by spaces, as in files of links. One block of cross-attention aligns better than the whole chain:
the chain says how much came from source and output at all, and mixes neighbours on the way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any, Literal, TypeAlias

import numpy as np

from attnx.adapters import Positions
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
from attnx.word_alignment.links import Choice, Gold
from attnx.word_alignment.result import Alignment

WhichRow: TypeAlias = Literal["predicts", "reads"]
ROWS = ("predicts", "reads")
NO_OFFSETS = "the tokenizer reports no offsets: links are between tokens, and not between words"

Words: TypeAlias = list[tuple[str, list[int]]]
"""Each word with the indices of its tokens in its sequence."""


@dataclass(frozen=True, eq=False)
class WordScores:
    """Target tokens × source tokens by one method at one attention block, and the words of both."""

    scores: Array
    source: Words
    output: Words
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
    ) -> WordScores:
        """By default of raw attention at the last cross-attention but one."""
        if row not in ROWS:
            raise ChoiceError(unknown("row", row, ROWS))
        if not explained.sequences:
            raise InputError(
                "an alignment needs an encoder–decoder, which has a source and an output; this explanation has one text"
            )
        length = next(iter(explained.sequences.values()))
        source, output = explained.positions[:length], explained.positions[length:]
        if isinstance(explained, GenerationExplanation):
            scores, name, block = _generated_rows(explained, method, layer)
            (source, source_text), (output, output_text) = _split_texts(explained, source, output)
        else:
            scores, name, block = _matrix_rows(explained, method, layer, row)
            source_text, output_text = explained.texts or (None, None)
        notes = explained.notes if source.has_offsets and output.has_offsets else (*explained.notes, NO_OFFSETS)
        targets = _words(output, output_text)
        if row == "reads" and isinstance(explained, GenerationExplanation):
            if any(len(scores) - 1 in tokens for _, tokens in targets):
                raise InputError(
                    "the model did not read the last token, so it has no row; use row='predicts', or "
                    "explain(…, target_text=…, all_queries=True)"
                )
            scores = np.roll(scores, -1, axis=0)
        return cls(scores, _words(source, source_text), targets, name, block, notes)

    @property
    def by_word(self) -> Array:
        """target × source of words; a last column has the most that goes to a source token of no word, as the end."""
        return by_word(self.scores, [tokens for _, tokens in self.source], [tokens for _, tokens in self.output])


def _matrix_rows(
    explanation: Explanation, method: str | None, layer: int | str | None, row: WhichRow
) -> tuple[Array, str, str]:
    """target × source from the rows of all positions, with the names of method and block."""
    kept = [name for name, scores in explanation.attributions.items() if scores.matrices is not None]
    if not kept:
        raise InputError(
            'an alignment needs the rows of all queries: explain(…, target_text=…, methods="raw", all_queries=True)'
        )
    name = method or next((name for name in kept if explanation.attributions[name].single_layer), kept[0])
    number, block = _block(explanation, explanation.layers, layer)
    length = next(iter(explanation.sequences.values()))
    rows = explanation.matrix(name)[explanation.layers.index(number)]
    # Nothing predicts the start of the output, which is no word.
    return np.roll(rows[length:, :length], row == "predicts", axis=0).astype(np.float64), name, block


def _generated_rows(
    generation: GenerationExplanation, method: str | None, layer: int | str | None
) -> tuple[Array, str, str]:
    """The same from a generation, whose rows are of the positions that predict a token."""
    default = generation.methods[0]
    if generation.attributions[default].layers is not None:
        default = next((name for name in generation.methods if generation.attributions[name].single_layer), default)
    name = method or default
    if generation.attributions[name].layers is None:
        if layer is not None:
            raise ChoiceError(f"{name} is of the whole model; leave layer out")
        rows, block = generation[name], ""
    else:
        number, block = _block(generation, generation.layers, layer)
        rows = generation.attributions[name].scores[generation.layers.index(number)]
    if generation.attributions[name].signed or (rows < 0).any():
        rows = np.maximum(rows, 0)  # a word is not aligned to one that opposes it
    length = next(iter(generation.sequences.values()))
    scores = np.zeros((len(generation.positions) - length, length))
    scores[-len(rows) :] = rows[:, :length]
    return scores, name, block


def _split_texts(
    generation: GenerationExplanation, source: Positions, output: Positions
) -> tuple[tuple[Positions, str | None], tuple[Positions, str | None]]:
    """Source and output with the text of each, which a generation has as two lines of one."""
    if generation.text is None or not source.has_offsets or not output.has_offsets:
        return (source, None), (output, None)
    last = max((position.end for position in source if position.end is not None), default=0)
    first = min((position.start for position in output if position.start is not None), default=len(generation.text))
    cut = generation.text.rindex("\n", last, first + 1)
    moved = Positions(
        position
        if position.start is None or position.end is None
        else replace(position, start=position.start - cut - 1, end=position.end - cut - 1)
        for position in output
    )
    return (source, generation.text[:cut]), (moved, generation.text[cut + 1 :])


def _block(
    explained: Explanation | GenerationExplanation, layers: Sequence[int], layer: int | str | None
) -> tuple[int, str]:
    """Number and name of a layer, by default of the last cross-attention but one."""
    kinds = explained.provenance.get("settings", {}).get("layer_kinds", ())
    cross = [number for number in layers if kinds and kinds[number - 1] == CROSS]
    number = (cross[-2:] or list(layers)[-1:])[0] if layer is None else layer_number(kinds, layer)
    if number not in layers:
        raise ChoiceError(f"layer {layer!r} was requested, but the explanation has {', '.join(map(str, layers))}")
    return number, layer_name(kinds, number) if kinds else str(number)


def _words(positions: Positions, text: str | None) -> Words:
    if text is None or not positions.has_offsets:
        return [(position.token, [position.index - positions[0].index]) for position in positions.named]
    return spaced(positions, text)


def spaced(positions: Positions, text: str) -> Words:
    """The words between spaces; a word without tokens has no indices."""
    spans: list[tuple[int, int]] = []
    end = 0
    for word in text.split():
        start = text.index(word, end)
        end = start + len(word)
        spans.append((start, end))
    tokens: list[list[int]] = [[] for _ in spans]
    for position in positions.named:
        if position.start is None or position.end is None:
            continue
        piece = text[position.start : position.end]
        begin = position.start + len(piece) - len(piece.lstrip())
        for indices, (start, stop) in zip(tokens, spans, strict=True):
            if start <= begin < stop:
                indices.append(position.index - positions[0].index)
    return [(text[start:stop], indices) for (start, stop), indices in zip(spans, tokens, strict=True)]


def by_word(scores: Array, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> Array:
    """target × source of words, from target × source of tokens: the sum over a source word's, the mean over a target's.

    A last column has the most that goes to a source token that is of no word, such as the end.
    """
    in_words = {index for indices in sources for index in indices}
    others = [index for index in range(scores.shape[1]) if index not in in_words]
    columns = [scores[:, list(indices)].sum(1) for indices in sources]
    columns.append(scores[:, others].max(1) if others else np.zeros(len(scores)))
    merged = np.stack(columns, axis=1)
    rows = [merged[list(indices)].mean(0) if indices else np.zeros(merged.shape[1]) for indices in targets]
    return np.stack(rows) if rows else np.zeros((0, merged.shape[1]))


NEW_TOKENS = 128
"""The most new tokens of a sentence."""


@checked
def alignment(
    explanation: Explanation | GenerationExplanation | Sequence[Explanation | GenerationExplanation],
    *,
    method: str | None = None,
    layer: int | str | None = None,
    choice: Choice = "argmax",
    row: WhichRow = "predicts",
) -> Alignment:
    """Align each target word of an encoder–decoder to a source word.

    Args:
        explanation: one or several, from `explain(…, source, target_text=…, methods="raw", all_queries=True)`, or from
            `explain_generation` for what the model generated itself.
        method: by default raw attention; of a generation the method that is shown first if it is of the whole model,
            such as lrp.
        layer: by default the last cross-attention but one.
        choice: "argmax", the source word with the highest score, or "intersection", only links that are also the
            highest for the source word.
        row: whether the position that "predicts" a target word stands for it, or the one that "reads" it.

    Example:
        >>> from attnx.demo_models.dates import load_demo
        >>> model, tokenizer = load_demo()
        >>> texts = {"text": "the third of march 1998", "target_text": "1998 03 03"}
        >>> e = explain(model, tokenizer, **texts, methods="raw", all_queries=True)
        >>> alignment(e).pairs()[0]
        ('1998', '1998')
    """
    explanations = [explanation] if isinstance(explanation, Explanation | GenerationExplanation) else list(explanation)
    if not explanations or not all(isinstance(item, Explanation | GenerationExplanation) for item in explanations):
        raise InputError("alignment takes an explanation of an encoder–decoder, or a list of them")
    pairs = [WordScores.of(item, method, layer, row) for item in explanations]
    blocks = dict.fromkeys(f"{pair.method} at {pair.layer or 'the model'}" for pair in pairs)
    if len(blocks) > 1:
        raise InputError(f"the explanations are of different methods or layers: {', '.join(blocks)}; name one of each")
    return Alignment.choose(
        [([word for word, _ in pair.source], [word for word, _ in pair.output]) for pair in pairs],
        [pair.by_word for pair in pairs],
        choice,
        method=pairs[0].method,
        layer=pairs[0].layer,
        row=row,
        notes=tuple(dict.fromkeys(note for pair in pairs for note in pair.notes)),
        provenance=explanations[0].provenance,
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
    """Align each source with its target, as the model attends when it reads both.

    Args:
        model: an encoder–decoder, a pipeline, or the name of a saved model.
        tokenizer: its tokenizer.
        sources: the source sentences.
        targets: the target sentences; by default the model generates them greedily.
        method: any method of `explain`.
        layer: as in `alignment`.
        choice: as in `alignment`.
        row: as in `alignment`.
        gold: a file of links, or what `read_links` read from one; the result then has the alignment error rate.
        max_new_tokens: the most that is generated for a source.
        progress: show a progress bar.

    Example:
        >>> from attnx.demo_models.dates import load_demo
        >>> model, tokenizer = load_demo()
        >>> align(model, tokenizer, ["the third of march 1998"], ["1998 03 03"], progress=False).pairs()[0]
        ('1998', '1998')
    """
    assert sources is not None
    model, tokenizer = model_and_processor(model, tokenizer)
    if targets is not None and len(sources) != len(targets):
        raise InputError(f"{len(sources)} sources and {len(targets)} targets: give one target for each source")
    if not sources:
        raise InputError("nothing to align: give at least one source with its target")
    if gold is not None and targets is None:
        raise InputError("gold links need the targets that they link: give the targets, too")
    pairs = list(zip(sources, [None] * len(sources) if targets is None else targets, strict=True))
    for number, pair in enumerate(pairs, start=1):
        if not all(text.strip() for text in pair if text is not None):
            raise InputError(f"pair {number} is empty on one side; leave out both lines, and that of the gold")
    measured = method in REFERENCES
    if measured and layer is not None:
        raise ChoiceError(f"{method} is of the whole model; leave layer out")
    explanations: list[Explanation | GenerationExplanation] = []
    with progress_bar("align", len(pairs), progress, " pairs") as bar:
        for source, target in pairs:
            explanation: Explanation | GenerationExplanation
            if target is not None and not measured:
                explanation = explain(
                    model, tokenizer, source, target_text=target, methods=method, layer=layer, all_queries=True
                )
            else:
                options: dict[str, Any] = {"progress": False, "layer": None if measured else layer or EACH}
                options |= {"methods": RAW.name, "references": method} if measured else {"methods": method}
                options |= {"max_new_tokens": max_new_tokens} if target is None else {"continuation": target}
                explanation = explain_generation(model, tokenizer, source, **options)
            if not explanation.sequences:
                raise InputError(f"{type(model).__name__} is no encoder–decoder: it has no source to align with")
            if layer is None and not measured:  # further pairs need this layer only
                layer = layers_of_kind(explanation.provenance["settings"]["layer_kinds"], CROSS)[-2:][0]
            explanations.append(explanation)
            bar.update(1)
    aligned = alignment(explanations, method=method, layer=layer, choice=choice, row=row)
    if gold is None:
        return aligned
    if NO_OFFSETS in aligned.notes:
        raise InputError(f"gold links are between words, but {NO_OFFSETS}; load a fast tokenizer")
    return aligned.against(gold)
