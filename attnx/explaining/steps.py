"""The explanations of all tokens that were written, as one result: rows become matrices generated × source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from attnx.explaining.beside_picture import picture_first
from attnx.inputs.adapter import Prepared
from attnx.inputs.positions import group_words
from attnx.results.explanation import Explanation
from attnx.results.generation import GenerationExplanation
from attnx.results.result import Array


def joined(
    whole: Prepared,
    prompt_length: int,
    steps: Sequence[Explanation],
    contrasts: Sequence[Explanation],
    generation: Mapping[str, Any],
) -> GenerationExplanation:
    """`steps` are the tokens in their order, `contrasts` the same against their runners-up, or none."""
    if whole.joined and whole.streams:
        steps, contrasts = [picture_first(one) for one in steps], [picture_first(one) for one in contrasts]
        length = whole.text_length
        prompt_length += len(whole.positions) - length
        whole = replace(whole, positions=steps[0].positions, words=steps[0].words, streams={}, spans=())
    first = steps[0]
    layers = first.layers if len(first.layers) > 1 else None
    # Where nobody asked for a reference it may have been left out of some step, whose note says so.
    measured = [name for name in first.references if all(name in one.references for one in steps)]
    whole = _in_one_text(whole)
    return GenerationExplanation(
        positions=whole.positions,
        words=whole.words,
        prompt_length=prompt_length,
        layer=first.layers[-1],
        relevance={name: np.stack([one.relevance[name][-1, :-1] for one in steps]) for name in first.relevance},
        predictions=_answers(steps),
        text=whole.text if isinstance(whole.text, str) else None,
        signed=first.signed,
        digits=first.digits,
        local=first.local,
        about_answer=first.about_answer,
        notes=tuple(dict.fromkeys(note for one in (*steps, *contrasts) for note in one.notes)),
        provenance=_with_generation(_of_all(steps, measured), generation),
        references={name: _rows(steps, name) for name in measured},
        first=first.first if first.first in measured else None,
        layers=layers,
        by_layer={name: np.stack([one.relevance[name][:, :-1] for one in steps], axis=1) for name in first.relevance}
        if layers
        else {},
        contrasts=_answers(contrasts),
        spans=whole.spans,
        streams=dict(whole.streams),
        against={name: _rows(contrasts, name) for name in _about_answer(contrasts)},
        image=whole.image,
        image_size=None if whole.image is None else whole.image.size,
        sound=None if whole.heard is None else whole.heard.sound,
    )


def _in_one_text(whole: Prepared) -> Prepared:
    """Source and output of an encoder–decoder as one text, a line each, so that words are counted through; sound has
    no line."""
    if not isinstance(whole.text, tuple) or not whole.streams:
        return whole
    source, output = whole.text
    before = f"{source}\n" if source else ""
    shift = len(before)
    moved = [
        one
        if one.segment == 0 or one.start is None or one.end is None
        else replace(one, start=one.start + shift, end=one.end + shift)
        for one in whole.positions
    ]
    text = before + output
    positions, words = group_words([replace(one, segment=0, word=None) for one in moved], [text])
    return replace(whole, positions=positions, words=words, text=text)


def _answers(steps: Sequence[Explanation]) -> tuple[Any, ...]:
    return tuple(one.prediction for one in steps if one.prediction is not None)


def _about_answer(contrasts: Sequence[Explanation]) -> list[str]:
    """What differs from one answer to another: all else would say the same again."""
    if not contrasts:
        return []
    first = contrasts[0]
    every = (*first.references, *first.relevance)
    return [name for name in every if name in first.about_answer and all(_has(one, name) for one in contrasts)]


def _has(step: Explanation, name: str) -> bool:
    return name in step.references or name in step.relevance


def _rows(steps: Sequence[Explanation], name: str) -> Array:
    """generated × source; what comes after the explained position cannot have been seen, whatever rounding says."""
    rows = np.stack([one.scores(name)[:-1] for one in steps])
    for row, one in zip(rows, steps, strict=True):
        row[one.position + 1 :] = 0
    return rows


def _of_all(steps: Sequence[Explanation], measured: Sequence[str]) -> dict[str, Any]:
    """What made all of them; what methods and references tell of their rows is of one step each."""
    shared = {name: value for name, value in steps[0].provenance.items() if name not in ("methods", "references")}
    told = [one.provenance.get("methods", {}) for one in steps]
    if any(told):
        shared["steps"] = told
    if measured:
        each = [one.provenance["references"] for one in steps]
        alike = {
            name: {
                key: value for key, value in each[0][name].items() if all(one[name].get(key) == value for one in each)
            }
            for name in measured
        }
        shared["references"] = alike
        shared["measured"] = [
            {name: {key: value for key, value in one[name].items() if key not in alike[name]} for name in measured}
            for one in each
        ]
    return shared


def _with_generation(provenance: Mapping[str, Any], generation: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of `model.generate` as JSON can have them; of a tensor or an object what it prints."""

    def plain(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return [plain(one) for one in value]
        return value if value is None or isinstance(value, (bool, int, float, str)) else repr(value)

    said = {name: plain(value) for name, value in generation.items()}
    return {**provenance, "settings": {**provenance["settings"], "generation": said}}
